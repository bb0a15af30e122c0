//! The waiter: a process outside of the task's container. It is no child of the task, has none of its descriptors,
//! and ends with the task's end of the lifeline at the latest.
//!
//! It is root's as long as it waits, which is until slurmstepd has put the task into the step's control groups,
//! where it must go too; it is the user's for good before it becomes a program. No code of the user's runs before
//! that, in either process.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::user::User;
use super::{exec, groups, socket};

/// Above those that [`Waiter::place`] fills.
const FREE: RawFd = 10;
/// Where `sgpu-ckpt` is open.
const PROGRAM: RawFd = 3;
/// Longer than all words that the task's process sends.
const LONGEST_MESSAGE_BYTES: usize = 8192;

/// What a process may be told to end or to stop by, with the rest of the step.
const IGNORED: [libc::c_int; 11] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGXCPU,
];

pub(super) struct Waiter<'s> {
    pub(super) lifeline: OwnedFd,
    pub(super) listener: &'s OwnedFd,
    pub(super) program: File,
    pub(super) user: User,
}

impl Waiter<'_> {
    /// Starts it, as a child of nobody's, and gives its number. `own` is the other end of the lifeline.
    pub(super) fn start(self, own: &OwnedFd) -> io::Result<libc::pid_t> {
        // SAFETY: takes no argument.
        let task = unsafe { libc::getpid() };
        // SAFETY: this process has one thread: slurmstepd forked it for the task.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: as above; neither process comes back from here.
            0 => match unsafe { libc::fork() } {
                0 => {
                    // An unwinding would end up in slurmstepd's code, as a second task.
                    drop(catch_unwind(AssertUnwindSafe(|| self.wait(task))));
                    end(1)
                }
                -1 => end(1),
                waiter => {
                    let told = socket::send(&self.lifeline, &waiter.to_ne_bytes());
                    end(libc::c_int::from(told.is_err()))
                }
            },
            child => {
                reap(child)?;
                let mut number = [0; size_of::<libc::pid_t>()];
                socket::receive(own, &mut number)?;
                Ok(libc::pid_t::from_ne_bytes(number))
            }
        }
    }

    /// Waits for the word, and serves. Comes back when there is nothing to do.
    fn wait(&self, task: libc::pid_t) -> io::Result<()> {
        // SAFETY: takes no argument.
        unsafe { libc::setsid() };
        ignore_signals();
        self.place()?;
        std::env::set_current_dir("/")?;
        let mut variables = exec::environment();
        let mut message = [0_u8; LONGEST_MESSAGE_BYTES];
        // SAFETY: our bytes, and their number.
        let read = unsafe { libc::read(0, message.as_mut_ptr().cast(), message.len()) };
        let words = usize::try_from(read)
            .ok()
            .and_then(|length| message.get(..length))
            .and_then(|words| std::str::from_utf8(words).ok())
            .unwrap_or_default();
        if words.is_empty() {
            return Ok(());
        }
        variables.extend(words.lines().map(str::to_owned));
        groups::follow(task)?;
        self.user.become_him()?;
        Err(exec::serve(PROGRAM, &variables))
    }

    /// Puts the descriptors where `sgpu-ckpt serve` looks for them, and closes all others.
    fn place(&self) -> io::Result<()> {
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        let sources = [
            self.lifeline.as_raw_fd(),
            self.listener.as_raw_fd(),
            nothing.as_raw_fd(),
            self.program.as_raw_fd(),
        ];
        // First out of each other's way.
        let mut copies = [-1; 4];
        for (copy, source) in copies.iter_mut().zip(sources) {
            // SAFETY: takes numbers.
            *copy = unsafe { libc::fcntl(source, libc::F_DUPFD_CLOEXEC, FREE) };
            if *copy < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // Its number is another's from here on.
        std::mem::forget(nothing);
        for (place, copy) in (0..=PROGRAM).zip(copies) {
            let flags = if place == PROGRAM { libc::O_CLOEXEC } else { 0 };
            // SAFETY: takes numbers. Those of these places are used no more, here and in what called this.
            if unsafe { libc::dup3(copy, place, flags) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        close_all_others()
    }
}

/// Waits until the waiter, which has been told to end, is no more, but not long. It may be in a control group that
/// slurmstepd removes at the step's end, and cannot remove as long as somebody is in it.
pub(super) fn wait_gone(waiter: libc::pid_t) {
    const LONGEST: Duration = Duration::from_millis(200);
    const BETWEEN: Duration = Duration::from_micros(100);
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        // SAFETY: takes numbers; no signal is sent.
        let code = unsafe { libc::kill(waiter, 0) };
        if code != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            return;
        }
        std::thread::sleep(BETWEEN);
    }
}

fn ignore_signals() {
    for signal in IGNORED {
        // SAFETY: no handler is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: a set of bits, for which all zero is a value; it is ours.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// slurmstepd's pipes and the task's are among them: whoever reads there waits for their end.
fn close_all_others() -> io::Result<()> {
    const FIRST: libc::c_long = PROGRAM as libc::c_long + 1;
    let last = libc::c_long::from(u32::MAX);
    // SAFETY: takes numbers. What is closed is used no more.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, last, 0) } == 0 {
        return Ok(());
    }
    // Linux before 5.9.
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > PROGRAM) {
        // SAFETY: as above; the folder's own is closed already, which is an error without effect.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Waits for the child that stood between: it ends at once.
fn reap(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes a number.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        let error = io::Error::last_os_error();
        match ended {
            -1 if error.kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(error),
            _ if status == 0 => return Ok(()),
            _ => return Err(io::Error::other("no second process")),
        }
    }
}

fn end(code: libc::c_int) -> ! {
    // SAFETY: ends this process, without what slurmstepd has to be done at an end.
    unsafe { libc::_exit(code) }
}
