//! Progress: a spinner with the elapsed time for each running step on a terminal, one line per
//! step elsewhere (and a sign of life every half minute).

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a step that goes on shows that it lives, where there is no terminal.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// The steps of one command; several may run at a time.
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
    started: AtomicUsize,
    total: usize,
    logs: PathBuf,
}

impl Progress {
    /// Progress over `total` steps whose logs go to the folder `logs`.
    pub(crate) fn new(total: usize, logs: PathBuf) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self {
            bars,
            started: AtomicUsize::new(0),
            total,
            logs,
        }
    }

    /// Starts a step; `slug` names its log.
    pub(crate) fn step(&self, slug: &str, title: impl Into<String>) -> Step<'_> {
        let log = self.logs.join(format!("{slug}.log"));
        if log.exists() {
            // A log is of one run; if it cannot be emptied, it goes on growing.
            drop(std::fs::File::create(&log));
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        let title = format!("[{number}/{}] {}", self.total.max(number), title.into());
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} … {elapsed} {msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(title.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Step {
            progress: self,
            title,
            bar,
            begun: Instant::now(),
            log,
            shown: Mutex::new(Instant::now()),
            over: false,
        }
    }

    fn line(&self, text: &str) {
        match &self.bars {
            // `println` fails when the terminal is gone; nobody is left to tell.
            Some(bars) => drop(bars.println(text)),
            None => eprintln!("{text}"),
        }
    }
}

/// One running step. Dropped without [`Step::done`], it is shown as failed.
pub(crate) struct Step<'a> {
    progress: &'a Progress,
    title: String,
    bar: Option<ProgressBar>,
    begun: Instant,
    log: PathBuf,
    shown: Mutex<Instant>,
    over: bool,
}

impl Step<'_> {
    /// What the step does, without its number.
    pub(crate) fn title(&self) -> &str {
        self.title
            .split_once("] ")
            .map_or(self.title.as_str(), |(_, title)| title)
    }

    /// The step's log file.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Ends the step well.
    pub(crate) fn done(mut self) {
        self.end("", "");
    }

    /// Ends the step well, with a remark that a person should see.
    pub(crate) fn done_with(mut self, remark: &str) {
        self.end("", &format!(" ({remark})"));
    }

    /// Called while a child runs.
    pub(crate) fn tick(&self) {
        if self.bar.is_some() {
            return;
        }
        if let Ok(mut shown) = self.shown.lock()
            && shown.elapsed() >= SIGN_OF_LIFE
        {
            *shown = Instant::now();
            self.progress.line(&format!(
                "{} … goes on, {}",
                self.title,
                seconds(self.begun)
            ));
        }
    }

    /// Tells a person something while the step goes on.
    pub(crate) fn note(&self, text: &str) {
        self.progress.line(&format!("note: {text}"));
    }

    /// Shows what the step is at, on a terminal.
    pub(crate) fn at(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.chars().take(50).collect::<String>());
        }
    }

    fn end(&mut self, word: &str, remark: &str) {
        self.over = true;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.progress.line(&format!(
            "{} … {word}{}{remark}",
            self.title,
            seconds(self.begun)
        ));
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.end("failed after ", "");
        }
    }
}

/// The time since `begun`, as shown to people.
pub(crate) fn seconds(begun: Instant) -> String {
    let elapsed = begun.elapsed();
    if elapsed < Duration::from_secs(10) {
        format!("{:.1} s", elapsed.as_secs_f64())
    } else {
        format!("{} s", elapsed.as_secs())
    }
}
