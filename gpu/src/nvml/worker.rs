//! Calls under a deadline.
//!
//! A call into NVML can hang for ever, and a daemon's hook must not. So the call runs on a thread
//! of its own; when its time is up the thread is left alone, the call it hangs in is named, and
//! further requests fail at once with the same name until the call returns: threads do not pile
//! up.
//!
//! After a fork the child has no threads, and locks may be held by threads that no longer exist:
//! all state belongs to the process that made it, a child starts anew. When a plugin is unloaded
//! while a thread hangs, its code and statics stay: `reset` makes them as new.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::trace::Trace;

/// A call that did not return in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hung {
    /// The NVML function, or what else the thread was at.
    pub call: &'static str,
    /// NVML index of the GPU.
    pub device: Option<u32>,
    /// For how long the call has been waited for, by this caller and earlier ones.
    pub waited: Duration,
    /// `true`: this caller waited; `false`: an earlier call hangs still, and nothing was asked.
    pub fresh: bool,
}

impl fmt::Display for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.device {
            write!(f, "GPU {index}: ")?;
        }
        let seconds = self.waited.as_secs_f64();
        if self.fresh {
            write!(f, "{} has not returned after {seconds:.1} s", self.call)
        } else {
            write!(
                f,
                "{} still hangs, since {seconds:.1} s; nothing more is asked",
                self.call
            )
        }
    }
}

impl std::error::Error for Hung {}

/// A thread at work.
pub(crate) struct Job {
    pub(crate) trace: Arc<Trace>,
    done: Arc<AtomicBool>,
    since: Instant,
    thread: JoinHandle<()>,
}

impl Job {
    /// Starts `work` on a thread of its own. All signals are blocked there: they are the host's.
    pub(crate) fn start(work: impl FnOnce(&Arc<Trace>) + Send + 'static) -> std::io::Result<Self> {
        let trace = Arc::new(Trace::default());
        let done = Arc::new(AtomicBool::new(false));
        let (inner_trace, inner_done) = (Arc::clone(&trace), Arc::clone(&done));
        let spawn = || {
            thread::Builder::new()
                .name("sgpu-nvml".into())
                .spawn(move || {
                    /// Says so also when `work` panics.
                    struct Done(Arc<AtomicBool>);
                    impl Drop for Done {
                        fn drop(&mut self) {
                            self.0.store(true, Ordering::Release);
                        }
                    }
                    let _done = Done(inner_done);
                    work(&inner_trace);
                })
        };
        let thread = with_signals_blocked(spawn)?;
        Ok(Self {
            trace,
            done,
            since: Instant::now(),
            thread,
        })
    }

    /// Waits for a thread that has nothing left to do, so that its code may be unmapped after.
    pub(crate) fn join(self) {
        let _ = self.thread.join();
    }

    /// For how long it has been at work.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    fn hung(&self, fresh: bool) -> Hung {
        let (call, device) = self.trace.now().unwrap_or(("code outside NVML", None));
        Hung {
            call,
            device,
            waited: self.since.elapsed(),
            fresh,
        }
    }
}

/// Blocks all signals while `start` runs; a thread made there keeps them blocked.
fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set that it is given, and pthread_sigmask reads it and
    // writes the old mask; both live on this stack.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = start();
    if blocked {
        // SAFETY: pthread_sigmask has succeeded and written `before`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    result
}

/// State that belongs to one process: a forked child gets a new one.
pub(crate) struct PerProcess<T: 'static> {
    slot: AtomicPtr<Owned<T>>,
}

struct Owned<T> {
    pid: u32,
    value: T,
}

impl<T: Default + Send + Sync + 'static> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slot: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// This process's value. What a parent process or a `reset` left is leaked on purpose: a lock
    /// in it may be held by a thread that is gone or hangs.
    pub(crate) fn get(&self) -> &'static T {
        let pid = std::process::id();
        let mut at = self.slot.load(Ordering::Acquire);
        loop {
            // SAFETY: the slot holds null or a pointer from Box::into_raw below, never freed.
            if let Some(owned) = unsafe { at.as_ref() }
                && owned.pid == pid
            {
                return &owned.value;
            }
            let new = Box::into_raw(Box::new(Owned {
                pid,
                value: T::default(),
            }));
            match self
                .slot
                .compare_exchange(at, new, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: `new` comes from Box::into_raw and is never freed from here on.
                Ok(_) => return unsafe { &(*new).value },
                Err(other) => {
                    // SAFETY: `new` was not published; nobody else has it.
                    drop(unsafe { Box::from_raw(new) });
                    at = other;
                }
            }
        }
    }

    /// This process's value, if it has one.
    pub(crate) fn peek(&self) -> Option<&'static T> {
        // SAFETY: as in `get`.
        let owned = unsafe { self.slot.load(Ordering::Acquire).as_ref() }?;
        (owned.pid == std::process::id()).then_some(&owned.value)
    }

    /// The next `get` makes a new value.
    pub(crate) fn reset(&self) {
        self.slot.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// A lock that survives a panic of its holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A closure at work on a thread.
struct Running<T> {
    job: Job,
    outcome: mpsc::Receiver<T>,
}

impl<T: Send + 'static> Running<T> {
    fn start(work: impl FnOnce(&Arc<Trace>) -> T + Send + 'static) -> Result<Self, Hung> {
        // Without a buffer: a result that comes too late is dropped by the thread that has it.
        let (sender, outcome) = mpsc::sync_channel(0);
        let job = Job::start(move |trace| {
            let _ = sender.send(work(trace));
        })
        .map_err(|_| cannot_start())?;
        Ok(Self { job, outcome })
    }

    /// Waits for the outcome; a thread that is late is left to `worker`.
    fn finish(self, worker: &Worker, deadline: Duration) -> Result<T, Hung> {
        match self.outcome.recv_timeout(deadline) {
            Ok(outcome) => {
                self.job.join();
                Ok(outcome)
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Err(worker.abandon(self.job)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let hung = Hung {
                    call: "a thread that panicked",
                    ..self.job.hung(true)
                };
                self.job.join();
                Err(hung)
            }
        }
    }
}

/// Runs closures on threads, under deadlines, and remembers those that hang.
///
/// Made for a `static`: it belongs to the process that uses it, a forked child starts anew.
pub struct Worker {
    stuck: PerProcess<Mutex<Vec<Job>>>,
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    /// A worker without threads.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stuck: PerProcess::new(),
        }
    }

    /// Runs `work` on a thread and waits for it no longer than `deadline`. The closure hands its
    /// [`Trace`] to the [`Session`](super::Session) that it opens, so that a hang can be named.
    ///
    /// # Errors
    /// [`Hung`] when it does not end in time, and at once when an earlier closure hangs still.
    pub fn run<T, F>(&self, deadline: Duration, work: F) -> Result<T, Hung>
    where
        T: Send + 'static,
        F: FnOnce(&Arc<Trace>) -> T + Send + 'static,
    {
        self.admit(1)?;
        Running::start(work)?.finish(self, deadline)
    }

    /// Runs each closure on a thread of its own, at the same time, and waits for all of them no longer than
    /// `deadline`: one that hangs costs no other its answer. The outcomes come in the order of the closures.
    pub fn run_all<T, F>(
        &self,
        deadline: Duration,
        work: impl IntoIterator<Item = F>,
    ) -> Vec<Result<T, Hung>>
    where
        T: Send + 'static,
        F: FnOnce(&Arc<Trace>) -> T + Send + 'static,
    {
        let begun = Instant::now();
        let started: Vec<_> = work.into_iter().map(Running::start).collect();
        started
            .into_iter()
            .map(|running| running?.finish(self, deadline.saturating_sub(begun.elapsed())))
            .collect()
    }

    /// The call that hangs still, if any.
    #[must_use]
    pub fn wedged(&self) -> Option<Hung> {
        let mut stuck = lock(self.stuck.peek()?);
        prune(&mut stuck);
        stuck.first().map(|job| job.hung(false))
    }

    /// Forgets what hangs. For a plugin's `fini`: a later `init` in the same process, whose
    /// statics may have survived, starts as new.
    pub fn reset(&self) {
        self.stuck.reset();
    }

    /// May another thread start?
    pub(crate) fn admit(&self, limit: usize) -> Result<(), Hung> {
        let Some(stuck) = self.stuck.peek() else {
            return Ok(());
        };
        let mut stuck = lock(stuck);
        prune(&mut stuck);
        match stuck.first() {
            Some(job) if stuck.len() >= limit => Err(job.hung(false)),
            _ => Ok(()),
        }
    }

    /// Leaves a thread alone and names its call.
    pub(crate) fn abandon(&self, job: Job) -> Hung {
        let hung = job.hung(true);
        lock(self.stuck.get()).push(job);
        hung
    }
}

/// Joins the threads that have returned after all.
fn prune(stuck: &mut Vec<Job>) {
    let mut at = 0;
    while let Some(job) = stuck.get(at) {
        if job.done.load(Ordering::Acquire) {
            stuck.swap_remove(at).join();
        } else {
            at = at.saturating_add(1);
        }
    }
}

/// No thread to be had.
pub(crate) fn cannot_start() -> Hung {
    Hung {
        call: "pthread_create",
        device: None,
        waited: Duration::ZERO,
        fresh: true,
    }
}

static WORKER: Worker = Worker::new();

/// Runs `work` by the crate's own [`Worker`], see [`Worker::run`].
///
/// # Errors
/// As [`Worker::run`].
pub fn bounded<T, F>(deadline: Duration, work: F) -> Result<T, Hung>
where
    T: Send + 'static,
    F: FnOnce(&Arc<Trace>) -> T + Send + 'static,
{
    WORKER.run(deadline, work)
}

/// Resets the crate's own [`Worker`], for a plugin's `fini`.
pub fn reset() {
    WORKER.reset();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::symbols::Call;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn returns_the_result() {
        let worker = Worker::new();
        assert_eq!(worker.run(LONG, |_| 7), Ok(7));
        assert_eq!(worker.wedged(), None);
    }

    #[test]
    fn names_a_hang_and_fails_fast_until_it_ends() {
        let worker = Worker::new();
        let (release, gate) = mpsc::channel::<()>();
        let hung = worker
            .run(SHORT, move |trace| {
                trace.enter(Call::DeviceGetName, Some(3));
                let _ = gate.recv();
                trace.leave();
            })
            .unwrap_err();
        assert_eq!(
            (hung.call, hung.device, hung.fresh),
            ("nvmlDeviceGetName", Some(3), true)
        );
        let before = Instant::now();
        let again = worker.run(LONG, |_| ()).unwrap_err();
        assert!(before.elapsed() < Duration::from_secs(5));
        assert_eq!(
            (again.call, again.device, again.fresh),
            ("nvmlDeviceGetName", Some(3), false)
        );
        assert!(again.waited >= SHORT);
        assert_eq!(worker.admit(2), Ok(()));
        release.send(()).unwrap();
        let start = Instant::now();
        while worker.wedged().is_some() && start.elapsed() < LONG {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(worker.run(LONG, |_| 2), Ok(2));
    }

    #[test]
    fn one_that_hangs_keeps_no_other_from_its_answer() {
        let worker = Worker::new();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let outcomes = worker.run_all(
            SHORT,
            (0..3).map(|number| {
                let gate = Arc::clone(&gate);
                move |_: &Arc<Trace>| {
                    if number == 1 {
                        let _ = lock(&gate).recv();
                    }
                    number
                }
            }),
        );
        assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(0), &Ok(2)));
        assert!(outcomes[1].as_ref().unwrap_err().fresh);
        assert!(worker.wedged().is_some());
        drop(release);
    }

    #[test]
    fn a_late_result_is_dropped_on_its_thread() {
        struct Tells(mpsc::Sender<thread::ThreadId>);
        impl Drop for Tells {
            fn drop(&mut self) {
                let _ = self.0.send(thread::current().id());
            }
        }
        let worker = Worker::new();
        let (sender, dropped) = mpsc::channel();
        let late = worker.run(SHORT, move |_| {
            thread::sleep(SHORT * 4);
            Tells(sender)
        });
        assert!(late.is_err());
        assert_ne!(dropped.recv_timeout(LONG).unwrap(), thread::current().id());
    }

    #[test]
    fn a_panic_is_a_fault_of_the_call_only() {
        let worker = Worker::new();
        let hung = worker
            .run(LONG, |_| -> u32 { panic!("on purpose") })
            .unwrap_err();
        assert_eq!(hung.call, "a thread that panicked");
        assert_eq!(worker.run(LONG, |_| 2), Ok(2));
    }

    #[test]
    fn reset_forgets() {
        let worker = Worker::new();
        let (_release, gate) = mpsc::channel::<()>();
        assert!(worker.run(SHORT, move |_| gate.recv().is_ok()).is_err());
        assert!(worker.wedged().is_some());
        worker.reset();
        assert_eq!(worker.wedged(), None);
        assert_eq!(worker.run(LONG, |_| 2), Ok(2));
    }

    #[test]
    fn signals_are_blocked_on_the_thread_only() {
        let mask = || {
            let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: with a null new mask pthread_sigmask only writes the current one.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), set.as_mut_ptr());
                libc::sigismember(set.as_ptr(), libc::SIGTERM) == 1
            }
        };
        assert!(!mask());
        assert_eq!(Worker::new().run(LONG, move |_| mask()), Ok(true));
        assert!(!mask());
    }

    #[test]
    fn a_forked_child_starts_anew() {
        let worker = Worker::new();
        let (_release, gate) = mpsc::channel::<()>();
        assert!(worker.run(SHORT, move |_| gate.recv().is_ok()).is_err());
        // SAFETY: the child calls the worker, which takes no lock of the parent's, and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fine = worker.wedged().is_none() && worker.run(LONG, |_| 5) == Ok(5);
            // SAFETY: ends the child without running the test harness in it.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        assert!(worker.wedged().is_some());
    }
}
