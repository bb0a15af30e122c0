//! The fake NVML library (tests/fake-nvml) and its scenarios. Each test program uses a part.

#![allow(dead_code, unreachable_pub)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpu::Inventory;
use gpu::nvml::{DiscoverOptions, Sampler, SamplerOptions, Session, Trace, Want, Worker, discover};

pub const LONG: Duration = Duration::from_secs(30);
pub const SHORT: Duration = Duration::from_millis(300);

/// A copy of the fake library with a scenario beside it.
pub struct Fake {
    folder: tempfile::TempDir,
}

/// The fake library: where `SGPU_FAKE_NVML_DIR` says, else where cargo put it for this test.
pub fn library() -> PathBuf {
    let named = std::env::var_os("SGPU_FAKE_NVML_DIR")
        .map(|folder| PathBuf::from(folder).join("libnvidia-ml.so.1"));
    let test = std::env::current_exe().unwrap();
    let beside = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libfake_nvml.so"));
    named
        .into_iter()
        .chain(beside)
        .find(|path| path.exists())
        .unwrap_or_else(|| {
            panic!(
                "no fake NVML library: run `cargo build -p fake-nvml` first, or set \
             SGPU_FAKE_NVML_DIR to the folder that has its libnvidia-ml.so.1"
            )
        })
}

impl Fake {
    /// With this scenario.
    pub fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(library(), folder.path().join("libnvidia-ml.so.1")).unwrap();
        let fake = Self { folder };
        fake.play(scenario);
        fake
    }

    /// Changes the scenario.
    pub fn play(&self, scenario: &str) {
        let calls = self.path("calls");
        let text = format!(
            "count_calls = {:?}\n{scenario}",
            calls.display().to_string()
        );
        let new = self.path("new.toml");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path("scenario.toml")).unwrap();
    }

    /// A file beside the library.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.path("libnvidia-ml.so.1")
    }

    /// How often a call was made.
    pub fn count(&self, call: &str) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls
            .lines()
            .filter(|line| line.split(' ').nth(1) == Some(call))
            .count()
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().count()
    }

    /// For discovery.
    pub fn options(&self) -> DiscoverOptions {
        DiscoverOptions {
            library: Some(self.library()),
            proc: self.path("proc"),
            sys: self.path("sys"),
            ..DiscoverOptions::default()
        }
    }

    /// What discovery finds.
    pub fn discover(&self) -> Inventory {
        discover(&Worker::new(), &self.options()).unwrap()
    }

    /// A sampler of everything.
    pub fn sampler(&self, min_age: Duration, keep_open: bool) -> Sampler {
        let want = Want {
            energy: true,
            processes: true,
            utilization: true,
        };
        self.sampler_of(want, min_age, keep_open)
    }

    /// A sampler.
    pub fn sampler_of(&self, want: Want, min_age: Duration, keep_open: bool) -> Sampler {
        Sampler::new(SamplerOptions {
            library: Some(self.library()),
            want,
            min_age,
            keep_open,
        })
    }

    /// NVML initialised.
    pub fn session(&self) -> Session {
        Session::open(Some(&self.library()), &Arc::new(Trace::default())).unwrap()
    }
}

/// Eight healthy H100.
pub const H100: &str = "board = \"8xh100-sxm5\"\n";

/// A fault: a call that hangs on one GPU.
pub fn hang(call: &str, device: u32) -> String {
    format!("[[fault]]\ncall = \"{call}\"\ndevice = {device}\nmode = \"hang\"\n")
}
