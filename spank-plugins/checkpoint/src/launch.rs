//! Starts the relay: in front of the task's command where Slurm can put it there (23.11 and later), else as
//! the task's parent.

use std::ffi::{CString, c_char};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use slurm_plugin::spank::Spank;
use spank_core::checkpoint::orders::{END, Orders};

/// Has the task run under a relay.
///
/// # Errors
/// When it does not: the task runs without.
pub(crate) fn launch(spank: &Spank<'_>, relay: File, orders: Orders) -> Result<(), String> {
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
            Ok(())
        }
        Some(Err(error)) => Err(error.to_string()),
        None => as_parent(&relay, orders).map_err(|error| format!("no relay: {error}")),
    }
}

/// Forks. The child goes on as the task; this process, which slurmstepd knows as the task, becomes the relay.
/// When it cannot, the child ends and this process is the task as before.
fn as_parent(relay: &File, mut orders: Orders) -> io::Result<()> {
    let (hear, tell) = pipe()?;
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
            drop(tell);
            if relay_has_failed(&hear) {
                // SAFETY: ends the process without running Slurm's exit handlers.
                unsafe { libc::_exit(0) };
            }
            block(blocked);
            Ok(())
        }
        child => {
            orders.child = Some(child);
            let error = exec(relay.as_raw_fd(), &orders.words());
            // SAFETY: an open descriptor and one byte; the child is this process' own.
            unsafe {
                libc::write(tell.as_raw_fd(), c"x".as_ptr().cast(), 1);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            block(blocked);
            Err(error)
        }
    }
}

/// Waits until the other process is the relay, which closes the pipe, or says that it is not.
fn relay_has_failed(hear: &OwnedFd) -> bool {
    let mut byte = 0_u8;
    // SAFETY: at most one byte is written.
    unsafe { libc::read(hear.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 }
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

/// A pipe that the task's program does not inherit.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel writes two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let [hear, tell] = ends;
    // SAFETY: two new descriptors that nobody else has.
    Ok(unsafe { (OwnedFd::from_raw_fd(hear), OwnedFd::from_raw_fd(tell)) })
}

fn block_all() -> libc::sigset_t {
    // SAFETY: sets of bits, for which all zero is a value.
    let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: both sets are ours.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    before
}

fn block(signals: libc::sigset_t) {
    // SAFETY: the set is ours.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut()) };
}
