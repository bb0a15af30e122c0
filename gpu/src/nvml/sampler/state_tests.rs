//! The state with threads that do what a test wants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, SystemTime};

use super::poll::Polled;
use super::sample::{Sample, SampleError};
use super::state::{Ages, State};
use crate::nvml::error::Error;
use crate::nvml::symbols::Call;
use crate::nvml::trace::Trace;
use crate::nvml::worker::{Hung, Worker};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);
const NEW: Ages = Ages {
    min: Duration::ZERO,
    late: Duration::ZERO,
};

/// The threads on which sessions were closed.
type Closed = Arc<Mutex<Vec<ThreadId>>>;

/// In a session's place: tells on which thread it is closed.
struct Probe {
    closed: Closed,
    takes: Duration,
}

impl Drop for Probe {
    fn drop(&mut self) {
        thread::sleep(self.takes);
        self.closed.lock().unwrap().push(thread::current().id());
    }
}

/// What the next poll does.
type Step = Box<dyn FnOnce(&Arc<Trace>) + Send>;

struct Bench {
    state: &'static State<Probe>,
    worker: Worker,
    steps: Arc<Mutex<Vec<Step>>>,
    polls: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    /// GPUs left out of the last poll.
    left_out: Arc<Mutex<Vec<u32>>>,
    closed: Closed,
    keep: bool,
    closing: Duration,
}

impl Bench {
    fn new() -> Self {
        Self {
            state: Box::leak(Box::default()),
            worker: Worker::new(),
            steps: Arc::default(),
            polls: Arc::default(),
            opened: Arc::default(),
            left_out: Arc::default(),
            closed: Arc::default(),
            keep: true,
            closing: Duration::ZERO,
        }
    }

    fn then(&self, step: impl FnOnce(&Arc<Trace>) + Send + 'static) {
        self.steps.lock().unwrap().insert(0, Box::new(step));
    }

    /// The next poll hangs in a call until the sender is dropped.
    fn then_hang(&self, call: Call, device: Option<u32>) -> Sender<()> {
        let (release, gate) = channel::<()>();
        self.then(move |trace| {
            trace.enter(call, device);
            let _ = gate.recv();
            trace.leave();
        });
        release
    }

    fn sample(&self, ages: Ages, deadline: Duration) -> Result<Arc<Sample>, SampleError> {
        let (steps, polls) = (Arc::clone(&self.steps), Arc::clone(&self.polls));
        let (opened, left_out) = (Arc::clone(&self.opened), Arc::clone(&self.left_out));
        let (closed, keep, takes) = (Arc::clone(&self.closed), self.keep, self.closing);
        let work = move |open: Option<Probe>,
                         hanging: &[Hung],
                         trace: &Arc<Trace>|
              -> Result<Polled<Probe>, Error> {
            polls.fetch_add(1, Ordering::SeqCst);
            let open = open.unwrap_or_else(|| {
                opened.fetch_add(1, Ordering::SeqCst);
                Probe {
                    closed: Arc::clone(&closed),
                    takes,
                }
            });
            *left_out.lock().unwrap() = hanging.iter().filter_map(|hung| hung.device).collect();
            let (at, wall, gpus) = (Instant::now(), SystemTime::now(), Vec::new());
            let step = steps.lock().unwrap().pop();
            if let Some(step) = step {
                step(trace);
            }
            let sample = Sample { at, wall, gpus };
            Ok(Polled { sample, open, keep })
        };
        self.state.sample(&self.worker, ages, deadline, &work)
    }

    fn hung(&self, deadline: Duration) -> Hung {
        match self.sample(NEW, deadline) {
            Err(SampleError::Hung(hung)) => hung,
            other => panic!("{other:?}"),
        }
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// A session was closed, and not here.
    fn closed_elsewhere(&self) {
        let mut on = None;
        until("no session was closed", || {
            on = self.closed.lock().unwrap().pop();
            on.is_some()
        });
        assert_ne!(on.unwrap(), thread::current().id());
    }

    fn none_closed(&self) {
        assert!(self.closed.lock().unwrap().is_empty());
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_slow_start_is_joined_and_kept() {
    let bench = Bench::new();
    let release = bench.then_hang(Call::Init, None);
    for _ in 0..3 {
        let hung = bench.hung(SHORT);
        assert_eq!(
            (hung.call, hung.device, hung.fresh),
            ("nvmlInit_v2", None, true)
        );
        assert!(hung.waited >= SHORT / 2, "{hung:?}");
    }
    assert_eq!(bench.state.overdue().unwrap().call, "nvmlInit_v2");
    thread::scope(|scope| {
        let joins = scope.spawn(|| bench.sample(NEW, LONG).is_ok());
        thread::sleep(SHORT);
        drop(release);
        assert!(joins.join().unwrap());
    });
    assert_eq!((bench.polls(), bench.opened()), (1, 1));
    assert_eq!(bench.state.overdue(), None);
    bench.sample(NEW, LONG).unwrap();
    assert_eq!((bench.polls(), bench.opened()), (2, 1));
    bench.none_closed();
}

#[test]
fn a_poll_of_many_slow_calls_stays_under_way() {
    let bench = Bench::new();
    bench.then(|trace| {
        for device in 0..15 {
            trace.enter(Call::DeviceGetName, Some(device));
            thread::sleep(SHORT / 5);
            trace.leave();
        }
    });
    let hung = bench.hung(SHORT);
    assert_eq!((hung.call, hung.device), ("a poll of all GPUs", None));
    bench.sample(NEW, LONG).unwrap();
    assert_eq!((bench.polls(), bench.opened()), (1, 1));
}

#[test]
fn a_gpu_that_hangs_is_left_out_until_it_returns() {
    let bench = Bench::new();
    let before = bench.sample(NEW, LONG).unwrap();
    let release = bench.then_hang(Call::DeviceGetPowerUsage, Some(3));
    let hung = bench.hung(SHORT);
    assert_eq!(
        (hung.call, hung.device, hung.fresh),
        ("nvmlDeviceGetPowerUsage", Some(3), true)
    );
    // The thread that hangs has the session.
    let without = bench.sample(NEW, LONG).unwrap();
    assert!(without.at > before.at);
    assert_eq!(bench.opened(), 2);
    assert_eq!(*bench.left_out.lock().unwrap(), [3]);
    bench.none_closed();
    drop(release);
    bench.closed_elsewhere();
    until("the thread has not ended", || {
        bench.worker.wedged().is_none()
    });
    // Its sample is older than what came meanwhile.
    assert_eq!(bench.state.latest().unwrap().at, without.at);
    bench.sample(NEW, LONG).unwrap();
    assert_eq!(bench.opened(), 2);
    assert!(bench.left_out.lock().unwrap().is_empty());
}

#[test]
fn one_who_waits_longer_polls_without_the_gpu() {
    let bench = Bench::new();
    let _release = bench.then_hang(Call::DeviceGetName, Some(5));
    thread::scope(|scope| {
        let patient = scope.spawn(|| bench.sample(NEW, LONG).is_ok());
        until("no poll", || bench.polls() == 1);
        assert_eq!(bench.hung(SHORT).device, Some(5));
        assert!(patient.join().unwrap());
    });
    assert_eq!(bench.polls(), 2);
    assert_eq!(*bench.left_out.lock().unwrap(), [5]);
}

#[test]
fn the_sample_of_a_thread_that_returns_is_not_lost() {
    let bench = Bench::new();
    let release = bench.then_hang(Call::DeviceGetName, Some(1));
    assert_eq!(bench.hung(SHORT).device, Some(1));
    assert!(bench.state.latest().is_none());
    drop(release);
    until("no sample", || bench.state.latest().is_some());
    bench.closed_elsewhere();
}

#[test]
fn each_gpu_may_hang_but_no_more_threads_than_gpus_pile_up() {
    let bench = Bench::new();
    let first = bench.then_hang(Call::DeviceGetName, Some(0));
    assert_eq!(bench.hung(SHORT).device, Some(0));
    let _others: Vec<_> = (1..16)
        .map(|gpu| {
            let gate = bench.then_hang(Call::DeviceGetName, Some(gpu));
            assert_eq!(bench.hung(SHORT).device, Some(gpu));
            gate
        })
        .collect();
    let start = Instant::now();
    let hung = bench.hung(LONG);
    assert!(start.elapsed() < LONG / 4);
    assert_eq!((hung.device, hung.fresh), (Some(0), false));
    drop(first);
    bench.closed_elsewhere();
    until("one may be asked again", || bench.sample(NEW, LONG).is_ok());
    assert_eq!(*bench.left_out.lock().unwrap(), (1..16).collect::<Vec<_>>());
}

#[test]
fn a_panic_is_an_error() {
    let bench = Bench::new();
    bench.sample(NEW, LONG).unwrap();
    bench.then(|_| panic!("on purpose"));
    assert_eq!(bench.hung(LONG).call, "a thread that panicked");
    bench.closed_elsewhere();
    bench.sample(NEW, LONG).unwrap();
    assert_eq!(bench.opened(), 2);
}

#[test]
fn reset_while_a_thread_is_out() {
    let bench = Bench::new();
    let slow = bench.then_hang(Call::Init, None);
    bench.hung(SHORT);
    bench.state.forget();
    assert!(bench.sample(NEW, LONG).is_err());
    drop(slow);
    bench.closed_elsewhere();
    assert!(bench.state.latest().is_none());
}

#[test]
fn reset_wakes_those_who_wait() {
    let bench = Bench::new();
    let _slow = bench.then_hang(Call::Init, None);
    thread::scope(|scope| {
        let waits = scope.spawn(|| bench.sample(NEW, LONG).is_err());
        until("no poll", || bench.polls() == 1);
        let start = Instant::now();
        bench.state.forget();
        assert!(waits.join().unwrap());
        assert!(start.elapsed() < LONG / 4);
    });
}

#[test]
fn release_closes_on_a_thread() {
    let bench = Bench::new();
    let close = |kept: Probe, _: &Arc<Trace>| drop(kept);
    assert_eq!(bench.state.release(LONG, close), Ok(()));
    bench.sample(NEW, LONG).unwrap();
    assert_eq!(bench.state.release(LONG, close), Ok(()));
    bench.closed_elsewhere();
    let slow = bench.then_hang(Call::Init, None);
    bench.hung(SHORT);
    let hung = bench.state.release(SHORT, close).unwrap_err();
    assert_eq!((hung.call, hung.fresh), ("nvmlInit_v2", true));
    drop(slow);
    assert_eq!(bench.state.release(LONG, close), Ok(()));
    bench.closed_elsewhere();
}

#[test]
fn a_slow_shutdown_costs_no_sample() {
    let bench = Bench {
        keep: false,
        closing: SHORT * 5,
        ..Bench::new()
    };
    bench.sample(NEW, SHORT * 2).unwrap();
    bench.none_closed();
    // The next one waits for it.
    bench.sample(NEW, LONG).unwrap();
    assert_eq!(bench.polls(), 2);
    bench.closed_elsewhere();
    bench.closed_elsewhere();
}

#[test]
fn a_late_sample_is_handed_out_once() {
    let bench = Bench {
        keep: false,
        ..Bench::new()
    };
    let late = Ages { late: LONG, ..NEW };
    bench.then(|_| thread::sleep(SHORT * 3));
    assert!(bench.sample(late, SHORT).is_err());
    bench.closed_elsewhere();
    bench.sample(late, LONG).unwrap();
    assert_eq!(bench.polls(), 1);
    bench.sample(late, LONG).unwrap();
    assert_eq!(bench.polls(), 2);
}
