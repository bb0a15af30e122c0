//! The scenario as it is now, in whatever process has loaded the library.
//!
//! The file is looked at in each call and read again when it has changed, so a test changes a
//! device under running daemons. A file that cannot be understood leaves the old state in force.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::board::Board;
use crate::energy::{micros, now_micros};
use crate::scenario::Scenario;
use crate::status::Status;

/// Names the scenario file; without it, `scenario.toml` beside the library.
const VARIABLE: &str = "SGPU_FAKE_NVML_SCENARIO";

#[derive(PartialEq, Eq)]
struct Stamp(i64, i64, u64, u64);

#[derive(Default)]
struct Cache {
    stamp: Option<Stamp>,
    board: Option<Arc<Board>>,
    /// Minor numbers of the devices that this process may not open.
    forbidden: Vec<u32>,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache {
    stamp: None,
    board: None,
    forbidden: Vec::new(),
});
static COMM: Mutex<(u32, String)> = Mutex::new((0, String::new()));

/// A lock that a panicking thread does not take down.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The scenario file.
pub(crate) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let chosen = std::env::var_os(VARIABLE)
            .map(PathBuf::from)
            .unwrap_or_else(|| {
                let library = library();
                let beside = library.with_file_name("scenario.toml");
                match std::fs::canonicalize(&library) {
                    Ok(real) if !beside.exists() => real.with_file_name("scenario.toml"),
                    _ => beside,
                }
            });
        // Daemons change their directory later.
        std::path::absolute(&chosen).unwrap_or(chosen)
    })
}

fn library() -> PathBuf {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let inside: *const Mutex<Cache> = &raw const CACHE;
    // SAFETY: dladdr takes any address and fills the struct that the second pointer is valid for.
    let found = unsafe { libc::dladdr(inside.cast(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return PathBuf::from("libnvidia-ml.so.1");
    }
    // SAFETY: after success dli_fname is a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// The board as the scenario file has it now.
pub(crate) fn board() -> Result<Arc<Board>, Status> {
    let path = path();
    let stamp = std::fs::metadata(path)
        .ok()
        .map(|file| Stamp(file.mtime(), file.mtime_nsec(), file.size(), file.ino()));
    let mut cache = locked(&CACHE);
    if stamp.is_some() && stamp != cache.stamp {
        let read = Scenario::load(path).and_then(|scenario| {
            let board = scenario.resolve();
            board.map_err(|error| error.of(&path.display().to_string()))
        });
        match read {
            // Cut to nothing, about to be written: not a machine without GPUs.
            Ok(_) if stamp.as_ref().is_some_and(|stamp| stamp.2 == 0) => {}
            Ok(mut board) => {
                board
                    .gpus
                    .retain(|gpu| !cache.forbidden.contains(&gpu.minor));
                cache.board = Some(Arc::new(board));
            }
            Err(error) => complain(&error.to_string()),
        }
        cache.stamp = stamp;
    }
    match (&cache.board, &cache.stamp) {
        (Some(board), _) => Ok(board.clone()),
        (None, Some(_)) => Err(Status::UNKNOWN),
        (None, None) => {
            complain(&format!("no scenario: {} is not there", path.display()));
            Err(Status::DRIVER_NOT_LOADED)
        }
    }
}

/// The board for a process that initialises NVML: a device whose file a device cgroup keeps from
/// the process is not on it, as with the real library. (Opening one that is allowed fails with
/// ENXIO, since no driver stands behind it.)
pub(crate) fn board_for_init() -> Result<Arc<Board>, Status> {
    let whole = {
        locked(&CACHE).forbidden.clear();
        locked(&CACHE).stamp = None;
        board()?
    };
    let forbidden: Vec<u32> = whole
        .gpus
        .iter()
        .map(|gpu| gpu.minor)
        .filter(|minor| is_forbidden(*minor))
        .collect();
    if forbidden.is_empty() {
        return Ok(whole);
    }
    {
        let mut cache = locked(&CACHE);
        cache.forbidden = forbidden;
        cache.stamp = None;
    }
    board()
}

fn is_forbidden(minor: u32) -> bool {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/dev/nvidia{minor}"))
        .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

/// Tells whoever looks at the process's stderr, once for each message.
fn complain(message: &str) {
    use std::io::Write as _;
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = locked(&LAST);
    if *last != message {
        let _ = writeln!(std::io::stderr(), "fake-nvml: {message}");
        message.clone_into(&mut last);
    }
}

/// Where settings are kept.
pub(crate) fn state_path(board: &Board) -> PathBuf {
    board.scenario.state_file.clone().unwrap_or_else(|| {
        let mut name = path().as_os_str().to_owned();
        name.push(".state");
        PathBuf::from(name)
    })
}

/// The fake's clock, in µs since 1970.
pub(crate) fn now(board: &Board) -> i128 {
    board.scenario.freeze_unix.map_or_else(now_micros, micros)
}

/// The process's name; after a fork, the child's.
pub(crate) fn comm() -> String {
    let pid = std::process::id();
    let mut known = locked(&COMM);
    if known.0 != pid {
        let text = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        *known = (pid, text.trim_end().to_owned());
    }
    known.1.clone()
}
