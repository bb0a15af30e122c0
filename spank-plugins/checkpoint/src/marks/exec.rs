//! `sgpu-ckpt`, and what it is started with.

use std::ffi::{CString, c_char};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where Slurm's commands are, but for those beside slurmstepd.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The first of the programs that is there, for [`serve`] alone.
pub(super) fn open(programs: &[PathBuf]) -> Option<File> {
    programs.iter().find_map(|program| {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
            .open(program)
            .ok()
    })
}

/// The variables that are the same for each task: root's choice, none of the user's.
pub(super) fn environment() -> Vec<String> {
    let slurmstepd = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    // /opt/slurm/bin for /opt/slurm/sbin/slurmstepd.
    let beside = slurmstepd.parent().and_then(Path::parent);
    let path = beside.map_or_else(
        || PATH.to_owned(),
        |beside| format!("{}:{PATH}", beside.join("bin").display()),
    );
    let conf = std::env::var("SLURM_CONF").ok();
    [Some(format!("PATH={path}"))]
        .into_iter()
        .chain([conf.map(|conf| format!("SLURM_CONF={conf}"))])
        .flatten()
        .collect()
}

/// Becomes `sgpu-ckpt serve`; comes back with an error only.
pub(super) fn serve(program: RawFd, variables: &[String]) -> io::Error {
    let strings: Result<Vec<CString>, _> = variables
        .iter()
        .map(|word| CString::new(word.as_str()))
        .collect();
    let Ok(strings) = strings else {
        return io::ErrorKind::InvalidInput.into();
    };
    let words = [
        c"sgpu-ckpt".as_ptr(),
        c"serve".as_ptr(),
        std::ptr::null::<c_char>(),
    ];
    let mut variables: Vec<*const c_char> = strings.iter().map(|word| word.as_ptr()).collect();
    variables.push(std::ptr::null());
    // SAFETY: an open descriptor; arrays of NUL-terminated strings that end in NULL.
    unsafe { libc::fexecve(program, words.as_ptr().cast(), variables.as_ptr().cast()) };
    io::Error::last_os_error()
}
