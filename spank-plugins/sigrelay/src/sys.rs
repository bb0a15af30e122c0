//! The system calls that the standard library has not.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How a child ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exit(c_int),
    /// By this signal.
    Signal(c_int),
}

/// The highest signal.
const LAST: c_int = 64;

/// The arguments of main.
///
/// # Safety
/// They are those of main.
pub(crate) unsafe fn words<'a>(count: c_int, words: *const *const c_char) -> Vec<&'a CStr> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: an array of `count` pointers to NUL-terminated strings, as main gets it.
    unsafe { std::slice::from_raw_parts(words, count) }
        .iter()
        // SAFETY: as above.
        .map(|word| unsafe { CStr::from_ptr(*word) })
        .collect()
}

/// A set of signals.
#[derive(Clone, Copy)]
pub(crate) struct Signals(libc::sigset_t);

/// Blocks all signals and gives those that were blocked before.
pub(crate) fn block_all() -> Signals {
    let (mut all, mut before) = (empty(), empty());
    // SAFETY: both sets are ours; the calls cannot fail with them.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
    }
    Signals(before)
}

/// Blocks these signals and no others.
pub(crate) fn block(signals: Signals) {
    // SAFETY: the set is ours.
    unsafe {
        libc::sigprocmask(
            libc::SIG_SETMASK,
            &raw const signals.0,
            std::ptr::null_mut(),
        )
    };
}

fn empty() -> libc::sigset_t {
    // SAFETY: a set of bits, for which all zero is a value.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

/// Takes the signals that are ignored, which would never be seen.
pub(crate) fn stop_ignoring() {
    for signal in (1..=LAST).filter(|signal| is_ignored(*signal)) {
        // SAFETY: the default action is set, no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zero is a value of the struct; the kernel fills it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is ours; nothing is set.
    let code = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    code == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Where blocked signals are read from.
pub(crate) fn signal_queue() -> io::Result<OwnedFd> {
    let mut all = empty();
    // SAFETY: the set is ours.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: a new descriptor is asked for; the set is ours.
    let fd = unsafe { libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The next signal; `None` when there is none.
pub(crate) fn next_signal(queue: &OwnedFd) -> Option<libc::signalfd_siginfo> {
    // SAFETY: numbers only, for which all zero is a value.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of_val(&info);
    // SAFETY: the kernel writes at most the struct's size.
    let read = unsafe { libc::read(queue.as_raw_fd(), (&raw mut info).cast(), size) };
    (usize::try_from(read) == Ok(size)).then_some(info)
}

/// Waits until there is a signal, or for a time.
pub(crate) fn wait(queue: &OwnedFd, milliseconds: Option<c_int>) {
    let mut poll = libc::pollfd {
        fd: queue.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, ours.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds.unwrap_or(-1)) };
}

/// Names this process, which the kernel else names after the descriptor that it was started by.
pub(crate) fn name_process(name: &CStr) {
    // SAFETY: a NUL-terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Keeps a descriptor from the programs that this process starts.
pub(crate) fn keep(fd: c_int) {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Ends what lives as long as the socket `fd`, whoever else may hold this end of it, and waits for that, but not
/// long.
pub(crate) fn let_go(fd: c_int) {
    const LONGEST_MILLISECONDS: c_int = 200;
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: numbers; one entry, ours.
    unsafe {
        if libc::shutdown(fd, libc::SHUT_WR) == 0 {
            libc::poll(&raw mut poll, 1, LONGEST_MILLISECONDS);
        }
    }
}

/// Starts a program as a child that has these signals blocked, found as [`exec`] finds it.
pub(crate) fn spawn(command: &[&CStr], blocked: Signals) -> io::Result<c_int> {
    let program = command.first().ok_or(io::ErrorKind::InvalidInput)?;
    let path = resolve(program);
    let words = pointers(&path, command);
    // SAFETY: all zero is a value of the struct, and what init is given to fill.
    let mut how: libc::posix_spawnattr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the struct and the set are ours; the calls cannot fail with them.
    unsafe {
        libc::posix_spawnattr_init(&raw mut how);
        libc::posix_spawnattr_setsigmask(&raw mut how, &raw const blocked.0);
        libc::posix_spawnattr_setflags(&raw mut how, SET_MASK);
    }
    let mut pid = 0;
    // SAFETY: NUL-terminated strings, and arrays of them that end in NULL; the rest is ours.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            std::ptr::null(),
            &raw const how,
            words.as_ptr().cast(),
            environ.cast(),
        )
    };
    if error == 0 {
        return Ok(pid);
    }
    Err(io::Error::from_raw_os_error(error))
}

/// Its number fits each C library's type.
#[expect(clippy::cast_possible_truncation, reason = "8")]
const SET_MASK: libc::c_short = libc::POSIX_SPAWN_SETSIGMASK as libc::c_short;

/// Whether a child has ended, and how. An error says that it is no child.
pub(crate) fn ended(child: c_int) -> io::Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: the kernel writes the number.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ if libc::WIFEXITED(status) => Ok(Some(Ended::Exit(libc::WEXITSTATUS(status)))),
        _ => Ok(Some(Ended::Signal(libc::WTERMSIG(status)))),
    }
}

/// Sends a signal.
pub(crate) fn kill(pid: c_int, signal: c_int) -> bool {
    // SAFETY: takes numbers.
    pid > 0 && unsafe { libc::kill(pid, signal) } == 0
}

/// Ends this process by a signal, without a core file: the task has written its own.
pub(crate) fn die(signal: c_int) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: no handler is set; the limit is ours; numbers otherwise.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    block(Signals(empty()));
}

/// Becomes another program, looked for as slurmstepd looks for a task's. Gives the exit code that slurmstepd gives, the error's number, when that does not work.
pub(crate) fn exec(command: &[&CStr]) -> c_int {
    let Some(program) = command.first() else {
        return libc::EINVAL;
    };
    let path = resolve(program);
    let words = pointers(&path, command);
    // SAFETY: NUL-terminated strings, and an array of them that ends in NULL; the C library's environment.
    unsafe { libc::execve(path.as_ptr(), words.as_ptr(), environ.cast()) };
    let error = io::Error::last_os_error();
    eprintln!(
        "sgpu-sigrelay: execve(): {}: {error}",
        program.to_string_lossy()
    );
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// A command as C has it: a NULL behind the last word, and for the first the program's path, as slurmstepd has it.
fn pointers(path: &CStr, command: &[&CStr]) -> Vec<*const c_char> {
    let words = command.iter().skip(1).map(|word| word.as_ptr());
    [path.as_ptr()]
        .into_iter()
        .chain(words)
        .chain([std::ptr::null()])
        .collect()
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The path of a task's program, as slurmstepd makes it (`_build_path` in src/slurmd/slurmstepd/task.c): what does
/// not begin with a slash or a dot is the first file of its name in PATH, whether it can be executed or not, or else
/// one in the working directory.
fn resolve(program: &CStr) -> CString {
    let name = program.to_bytes();
    let found = || {
        let path = std::env::var_os("PATH")?;
        path.as_bytes()
            .split(|byte| *byte == b':')
            .filter(|folder| !folder.is_empty())
            .map(|folder| Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name)))
            .find(|file| std::fs::metadata(file).is_ok_and(|found| !found.is_dir()))
    };
    let path = match name.first() {
        Some(b'/') => None,
        Some(b'.') => std::env::current_dir()
            .ok()
            .map(|here| here.join(OsStr::from_bytes(name))),
        _ => found(),
    };
    path.and_then(|file| CString::new(file.into_os_string().as_encoded_bytes()).ok())
        .unwrap_or_else(|| program.to_owned())
}
