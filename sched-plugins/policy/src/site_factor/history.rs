//! How long jobs ran, by what can be told of a job before it runs.
//!
//! The logarithm of run times is averaged, late ones counting more. Little known of a user's jobs of one
//! name, his jobs of one size tell; little known of these, the part of their limits that his jobs use.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::Hash;

use super::usage::kept;

/// What counts of an observation halves in this time, in seconds: 30 days.
const HALF_LIFE: f64 = 2_592_000.0;
/// Fewer observations do not tell.
const ENOUGH: f64 = 3.0;
/// The part of their limits that jobs use, where nothing is known; as good as [`ENOUGH`] observations.
const PRIOR: f64 = 0.5;
/// The most entries of each table.
const MOST: usize = 65_536;
/// The first line of a file.
const HEAD: &str = "sgpu-history 1";
/// The longest file that is read, and the longest line.
const MOST_BYTES: usize = 32 << 20;

/// What can be told of a job before it runs.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Kind {
    /// Whose it is.
    pub user: u32,
    /// Its account and its name without digits, as a hash.
    pub work: u64,
    /// Its size: none, 1, 2 to 4, 5 to 8, more GPUs.
    pub size: u8,
}

/// The kind of a job. Of `train_17` and `train_18` it is the same.
#[must_use]
pub fn kind_of(user: u32, account: &str, name: &str, gpus: u32) -> Kind {
    let size = match gpus {
        0 => 0,
        1 => 1,
        2..=4 => 2,
        5..=8 => 3,
        _ => 4,
    };
    let letters = name.bytes().filter(|byte| !byte.is_ascii_digit());
    // FNV-1a.
    let work = account
        .bytes()
        .chain([0])
        .chain(letters)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Kind { user, work, size }
}

/// A run that is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Finished {
    /// What it was.
    pub kind: Kind,
    /// How long it ran, in seconds.
    pub run_seconds: u32,
    /// Its limit, in seconds; `None` without one.
    pub limit_seconds: Option<u32>,
    /// When it ended, in Unix seconds.
    pub end: i64,
}

/// A decayed mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Average {
    weight: f64,
    mean: f64,
    /// Sum of squares about the mean.
    squares: f64,
    /// When it was last added to.
    at: i64,
}

impl Average {
    fn add(&mut self, value: f64, at: i64) {
        let kept = kept(self.at, at, HALF_LIFE);
        let weight = self.weight * kept + 1.0;
        let off = value - self.mean;
        self.mean += off / weight;
        self.squares = self.squares * kept + off * (value - self.mean);
        self.weight = weight;
        self.at = self.at.max(at);
    }

    fn deviation(&self) -> f64 {
        (self.squares.max(0.0) / self.weight.max(1.0)).sqrt()
    }

    /// `weight mean squares at`.
    fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut number = |low: f64, high: f64| {
            let number: f64 = words.next()?.parse().ok()?;
            // What is no number is in no range.
            (low..=high).contains(&number).then_some(number)
        };
        Some(Self {
            weight: number(0.0, 1e9)?,
            mean: number(0.0, 30.0)?,
            squares: number(0.0, 1e12)?,
            at: words.next()?.parse().ok().filter(|at| *at >= 0)?,
        })
    }

    fn write(&self, text: &mut String) {
        let Self {
            weight,
            mean,
            squares,
            at,
        } = self;
        // Writing to a String never fails.
        let _ = writeln!(text, " {weight:.3} {mean:.4} {squares:.4} {at}");
    }
}

/// Why a file says nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseError {
    /// It is not one, or of another version.
    Head,
    /// It is too long to be one.
    Length,
}

/// How long jobs ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    by_kind: HashMap<Kind, Average>,
    by_size: HashMap<(u32, u8), Average>,
    /// The part of their limits that a user's jobs used.
    ratios: HashMap<u32, Average>,
}

impl History {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A run is over. Those that were pushed out or failed at once are the caller's to leave out.
    pub fn learn(&mut self, finished: &Finished) {
        let Finished {
            kind,
            run_seconds,
            limit_seconds,
            end,
        } = *finished;
        let end = end.max(0);
        let log = f64::from(run_seconds.max(1)).ln();
        add(&mut self.by_kind, kind, log, end);
        add(&mut self.by_size, (kind.user, kind.size), log, end);
        if let Some(limit) = limit_seconds.filter(|limit| *limit > 0) {
            let ratio = (f64::from(run_seconds) / f64::from(limit)).min(1.0);
            add(&mut self.ratios, kind.user, ratio, end);
        }
    }

    /// How long a job will run, in seconds: never longer than its limit.
    #[must_use]
    pub fn predict(&self, kind: &Kind, limit_seconds: Option<u32>, now: i64) -> f64 {
        let limit = limit_seconds.map_or(f64::INFINITY, f64::from);
        let known = |average: &&Average| {
            average.weight >= ENOUGH && average.weight * kept(average.at, now, HALF_LIFE) >= ENOUGH
        };
        let by_kind = self.by_kind.get(kind).filter(known);
        let found = by_kind.or_else(|| self.by_size.get(&(kind.user, kind.size)).filter(known));
        if let Some(average) = found {
            let run = (average.mean + 0.5 * average.deviation()).exp();
            return run.min(limit).clamp(1.0, 1e9);
        }
        let ratio = match self.ratios.get(&kind.user) {
            Some(average) => {
                let weight = average.weight * kept(average.at, now, HALF_LIFE);
                (PRIOR * ENOUGH + average.mean * weight) / (ENOUGH + weight)
            }
            None => PRIOR,
        };
        // A day, of a job without a limit.
        let limit = limit_seconds.map_or(86_400.0, f64::from);
        (limit * ratio).clamp(1.0, 1e9)
    }

    /// How many kinds of job are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_kind.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// All of it as text, in order.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (kind, average) in ordered(&self.by_kind) {
            let _ = write!(text, "k {} {:x} {}", kind.user, kind.work, kind.size);
            average.write(&mut text);
        }
        for ((user, size), average) in ordered(&self.by_size) {
            let _ = write!(text, "s {user} {size}");
            average.write(&mut text);
        }
        for (user, average) in ordered(&self.ratios) {
            let _ = write!(text, "r {user}");
            average.write(&mut text);
        }
        text
    }

    /// What a text says, and how many of its lines say nothing.
    ///
    /// # Errors
    /// It is no history.
    pub fn parse(text: &str) -> Result<(Self, usize), ParseError> {
        if text.len() > MOST_BYTES {
            return Err(ParseError::Length);
        }
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(ParseError::Head);
        }
        let mut history = Self::new();
        let mut wrong = 0_usize;
        for line in lines {
            if history.take(line).is_none() {
                wrong = wrong.saturating_add(1);
            }
        }
        Ok((history, wrong))
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let words = &mut line.split(' ');
        match words.next()? {
            "k" => {
                let user = words.next()?.parse().ok()?;
                let work = u64::from_str_radix(words.next()?, 16).ok()?;
                let size = size(words.next()?)?;
                let average = Average::parse(words)?;
                put(&mut self.by_kind, Kind { user, work, size }, average)
            }
            "s" => {
                let user = words.next()?.parse().ok()?;
                let size = size(words.next()?)?;
                put(&mut self.by_size, (user, size), Average::parse(words)?)
            }
            "r" => {
                let user = words.next()?.parse().ok()?;
                let average = Average::parse(words).filter(|average| average.mean <= 1.0)?;
                put(&mut self.ratios, user, average)
            }
            _ => None,
        }
    }
}

fn size(word: &str) -> Option<u8> {
    word.parse().ok().filter(|size| *size <= 4)
}

/// A table's entries in order of their keys.
fn ordered<K: Copy + Ord>(table: &HashMap<K, Average>) -> Vec<(K, &Average)> {
    let mut all: Vec<(K, &Average)> = table.iter().map(|(key, value)| (*key, value)).collect();
    all.sort_unstable_by_key(|(key, _)| *key);
    all
}

fn put<K: Eq + Hash>(table: &mut HashMap<K, Average>, key: K, average: Average) -> Option<()> {
    if table.len() >= MOST {
        return None;
    }
    table.insert(key, average);
    Some(())
}

/// One observation more. A full table forgets the eighth that was not added to for longest.
fn add<K: Copy + Eq + Hash>(table: &mut HashMap<K, Average>, key: K, value: f64, at: i64) {
    if table.len() >= MOST && !table.contains_key(&key) {
        let mut times: Vec<i64> = table.values().map(|average| average.at).collect();
        let (_, oldest, _) = times.select_nth_unstable(MOST / 8);
        let oldest = *oldest;
        let mut left = MOST / 8;
        table.retain(|_, average| {
            let goes = average.at <= oldest && left > 0;
            left = left.saturating_sub(usize::from(goes));
            !goes
        });
    }
    table.entry(key).or_default().add(value, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_700_000_000;

    fn finished(name: &str, gpus: u32, run_seconds: u32, end: i64) -> Finished {
        Finished {
            kind: kind_of(1000, "physics", name, gpus),
            run_seconds,
            limit_seconds: Some(10_000),
            end,
        }
    }

    fn near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-3, "{a} is not {b}");
    }

    #[test]
    fn names_without_digits() {
        let kind = |name| kind_of(1, "a", name, 4);
        assert_eq!(kind("train_17"), kind("train_18"));
        assert_ne!(kind("train"), kind("trial"));
        assert_ne!(kind_of(1, "ab", "c", 4), kind_of(1, "a", "bc", 4));
        assert_eq!(
            [0, 1, 4, 5, 9].map(|gpus| kind_of(1, "a", "b", gpus).size),
            [0, 1, 2, 3, 4]
        );
    }

    #[test]
    fn what_little_is_known_is_backed_off_from() {
        let mut history = History::new();
        let kind = kind_of(1000, "physics", "train", 4);
        let predict = |history: &History, limit| history.predict(&kind, limit, NOW);
        // Nothing at all: half of the limit.
        near(predict(&history, Some(8000)), 4000.0);
        // Two runs of a fifth of their limits: (0.5 * 3 + 0.2 * 2) / 5 = 0.38.
        history.learn(&finished("train1", 4, 2000, NOW));
        history.learn(&finished("train2", 4, 2000, NOW));
        near(predict(&history, Some(10_000)), 3800.0);
        // A third, of another name: the size tells.
        history.learn(&finished("eval", 4, 2000, NOW));
        near(predict(&history, Some(10_000)), 2000.0);
        near(predict(&history, Some(1500)), 1500.0);
        near(predict(&history, None), 2000.0);
        // Others of that size, much longer; then a third of the name.
        for _ in 0..5 {
            history.learn(&finished("other", 2, 9000, NOW));
        }
        history.learn(&finished("train3", 4, 2000, NOW));
        near(predict(&history, Some(10_000)), 2000.0);
    }

    #[test]
    fn a_spread_counts_half() {
        let mut history = History::new();
        // Logarithms 5, 6 and 7: mean 6, deviation sqrt(2/3) = 0.816497.
        for run in [148, 403, 1097] {
            history.learn(&finished("x", 1, run, NOW));
        }
        let kind = kind_of(1000, "physics", "x", 1);
        near(
            history.predict(&kind, None, NOW),
            (6.0_f64 + 0.408_248).exp(),
        );
    }

    #[test]
    fn old_runs_fade() {
        let mut history = History::new();
        let kind = kind_of(1000, "physics", "x", 1);
        for _ in 0..6 {
            history.learn(&finished("x", 1, 100, NOW));
        }
        // After 30 days they count as three, after 31 as too few.
        near(history.predict(&kind, Some(10_000), NOW + 2_591_999), 100.0);
        assert!(history.predict(&kind, Some(10_000), NOW + 2_678_400) > 1000.0);
        // New ones weigh more: ten of 1000 s after a year leave next to nothing of the old.
        for _ in 0..10 {
            history.learn(&finished("x", 1, 1000, NOW + 31_536_000));
        }
        let predicted = history.predict(&kind, None, NOW + 31_536_000);
        assert!((990.0..1020.0).contains(&predicted), "{predicted}");
        // A clock that goes back harms nothing.
        history.learn(&finished("x", 1, 1000, i64::MIN));
        assert!(history.predict(&kind, None, i64::MIN) > 900.0);
    }

    #[test]
    fn tables_are_bounded() {
        let mut history = History::new();
        for user in 0..70_000 {
            history.learn(&Finished {
                kind: kind_of(user, "", "", 0),
                run_seconds: 5,
                limit_seconds: None,
                end: i64::from(user),
            });
        }
        assert!(history.len() <= MOST && history.len() > MOST / 2);
        assert!(history.by_kind.contains_key(&kind_of(69_999, "", "", 0)));
        assert!(!history.by_kind.contains_key(&kind_of(0, "", "", 0)));
    }

    #[test]
    fn files() {
        let mut history = History::new();
        history.learn(&finished("x", 1, 100, NOW));
        let text = history.to_text();
        let lines: Vec<&str> = text.lines().collect();
        // ln 100 = 4.6052; a hundredth of the limit.
        assert_eq!(lines[0], "sgpu-history 1");
        assert!(
            lines[1].starts_with("k 1000 ")
                && lines[1].ends_with(" 1 1.000 4.6052 0.0000 1700000000")
        );
        assert_eq!(lines[2], "s 1000 1 1.000 4.6052 0.0000 1700000000");
        assert_eq!(lines[3], "r 1000 1.000 0.0100 0.0000 1700000000");
        let (read, wrong) = History::parse(&text).unwrap();
        assert_eq!((read.to_text(), wrong), (text, 0));

        assert_eq!(History::parse("").err(), Some(ParseError::Head));
        assert_eq!(
            History::parse("sgpu-history 2\n").err(),
            Some(ParseError::Head)
        );
        let long = "x".repeat(MOST_BYTES + 1);
        assert_eq!(History::parse(&long).err(), Some(ParseError::Length));
        for line in [
            "s 1 1 NaN 4 0 5",
            "s 1 1 1 inf 0 5",
            "s 1 1 1 4 -1 5",
            "s 1 1 1 1e9 0 5",
            "s 1 9 1 4 0 5",
            "s 1 1 1 4 0 -5",
            "s 1 1 1 4 0",
            "k 1 xyz 1 1 4 0 5",
            "r 1 1 1.5 0 5",
            "q 1",
            "",
        ] {
            let (read, wrong) = History::parse(&format!("{HEAD}\n{line}\n")).unwrap();
            assert_eq!((wrong, read), (1, History::new()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_gone_through(text in "[ksr] [0-9a-f.eN -]{0,40}\n?") {
            let (history, _) = History::parse(&format!("{HEAD}\n{text}")).unwrap();
            let predicted = history.predict(&kind_of(1, "", "", 1), None, NOW);
            prop_assert!(predicted.is_finite() && predicted >= 1.0);
        }

        #[test]
        fn predictions_are_times_within_the_limit(
            runs in proptest::collection::vec((any::<u32>(), any::<Option<u32>>(), any::<i64>()), 0..20),
            limit in 1_u32..u32::MAX,
            now in any::<i64>(),
        ) {
            let mut history = History::new();
            let kind = kind_of(1, "a", "b", 1);
            for (run_seconds, limit_seconds, end) in runs {
                history.learn(&Finished { kind, run_seconds, limit_seconds, end });
                let predicted = history.predict(&kind, Some(limit), now);
                prop_assert!(predicted >= 1.0 && predicted <= f64::from(limit));
            }
        }
    }
}
