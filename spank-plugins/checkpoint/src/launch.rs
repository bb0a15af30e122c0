//! Starts the relay: in front of the task's command where Slurm can put it there (23.11 and later), else as
//! the task's parent.

use std::ffi::{CString, c_char};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use slurm_plugin::log;
use slurm_plugin::spank::Spank;
use spank_core::checkpoint::orders::{END, Orders};

/// What every program of Linux begins with.
const ELF: [u8; 4] = *b"\x7fELF";

/// The relay's program, as root: it may lie where the user cannot look.
///
/// # Errors
/// There is none.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        // A pipe is not waited for.
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    let mut begin = [0; ELF.len()];
    if !file.metadata()?.is_file() || file.read(&mut begin)? < ELF.len() || begin != ELF {
        return Err(io::Error::other("it is no program"));
    }
    Ok(file)
}

/// Whether the task's user may execute it. Asked before it takes the task's place, after which there is no way back.
fn is_executable(relay: &File) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: an open descriptor and a NUL-terminated string.
    match unsafe { libc::faccessat(relay.as_raw_fd(), c"".as_ptr(), libc::X_OK, flags) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // A kernel before 5.8 does not say.
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => Ok(()),
            error => Err(error),
        },
    }
}

/// Has the task run under a relay, which takes the lifeline with it.
///
/// # Errors
/// When it does not: the task runs without.
pub(crate) fn launch(
    spank: &Spank<'_>,
    relay: File,
    orders: Orders,
    lifeline: Option<OwnedFd>,
) -> Result<(), String> {
    is_executable(&relay).map_err(|error| format!("the relay cannot be executed: {error}"))?;
    // Slurm starts the task by path, after this plugin's last word; a container may have no /proc.
    let path = format!("/proc/self/fd/{}", relay.as_raw_fd());
    let words = orders.words();
    let mut command: Vec<&str> = vec![&path];
    command.extend(words.iter().map(String::as_str));
    command.push(END);
    let prepended = if std::fs::metadata(&path).is_ok() {
        spank.prepend_argv(&command)
    } else {
        None
    };
    match prepended {
        Some(Ok(())) => {
            // Open until the task's execve, which closes it.
            let _ = ManuallyDrop::new(relay);
            if let Some(lifeline) = lifeline {
                hand_on(&lifeline);
                let _ = ManuallyDrop::new(lifeline);
            }
            Ok(())
        }
        Some(Err(error)) => Err(error.to_string()),
        None => as_parent(&relay, orders, lifeline).map_err(|error| format!("no relay: {error}")),
    }
}

/// Forks. The child goes on as the task at once; this process, which slurmstepd knows as the task, becomes the
/// relay.
fn as_parent(relay: &File, mut orders: Orders, lifeline: Option<OwnedFd>) -> io::Result<()> {
    let blocked = block_all();
    // SAFETY: this process has one thread: slurmstepd forked it for the task. The child goes on in it as the
    // parent would have.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            block(blocked);
            Err(error)
        }
        0 => {
            // The relay's alone.
            drop(lifeline);
            block(blocked);
            Ok(())
        }
        child => {
            orders.child = Some(child);
            if let Some(lifeline) = &lifeline {
                hand_on(lifeline);
            }
            let error = exec(relay.as_raw_fd(), &orders.words());
            log::error(format_args!(
                "no relay: {error}: signals are passed on, and no more"
            ));
            stand_in(child)
        }
    }
}

/// Leaves a descriptor to the program that this process becomes.
fn hand_on(fd: &OwnedFd) {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
}

/// Where the relay cannot start, with all signals blocked: passes them on to the task, and ends with its exit
/// code.
fn stand_in(task: libc::pid_t) -> ! {
    let all = all_signals();
    loop {
        let (mut status, mut signal) = (0, 0);
        // SAFETY: the kernel writes two numbers; the set is ours.
        unsafe {
            match libc::waitpid(task, &raw mut status, libc::WNOHANG) {
                0 => {}
                -1 => libc::_exit(1),
                _ if libc::WIFEXITED(status) => libc::_exit(libc::WEXITSTATUS(status)),
                _ => libc::_exit(libc::WTERMSIG(status).saturating_add(128)),
            }
            libc::sigwait(&raw const all, &raw mut signal);
            if signal != libc::SIGCHLD {
                libc::kill(task, signal);
            }
        }
    }
}

/// Becomes the relay; comes back with an error only.
fn exec(relay: RawFd, words: &[String]) -> io::Error {
    let strings: Result<Vec<CString>, _> = std::iter::once("sgpu-sigrelay")
        .chain(words.iter().map(String::as_str))
        .map(CString::new)
        .collect();
    let Ok(strings) = strings else {
        return io::ErrorKind::InvalidInput.into();
    };
    let mut pointers: Vec<*const c_char> = strings.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let none: [*const c_char; 1] = [std::ptr::null()];
    // SAFETY: an open descriptor; arrays of NUL-terminated strings that end in NULL.
    unsafe { libc::fexecve(relay, pointers.as_ptr().cast(), none.as_ptr().cast()) };
    io::Error::last_os_error()
}

fn all_signals() -> libc::sigset_t {
    // SAFETY: a set of bits, for which all zero is a value.
    let mut all = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigfillset(&raw mut all) };
    all
}

/// Blocks all signals and gives those that were blocked before.
fn block_all() -> libc::sigset_t {
    let (all, mut before) = (all_signals(), all_signals());
    // SAFETY: both sets are ours.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

fn block(signals: libc::sigset_t) {
    // SAFETY: the set is ours.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut()) };
}
