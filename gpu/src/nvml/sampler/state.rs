//! Whose turn it is: one thread polls, every caller waits for it no longer than it may.
//!
//! The thread deposits what it comes to itself, so a poll that takes longer than its callers wait
//! is late, not lost. NVML is called on the threads alone: they take the open session out of the
//! state and put it back or close it. Nothing here knows NVML; `K` is what a thread keeps open.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::poll::Polled;
use super::sample::{Sample, SampleError};
use super::verdict::{Verdict, in_words, verdict};
use crate::nvml::error::Error;
use crate::nvml::trace::Trace;
use crate::nvml::worker::{Hung, Job, Worker, cannot_start, lock};

/// Threads that may be left alone before nothing more is asked: as many as a node has GPUs, one for each that
/// hangs. Each costs its callers one deadline.
const MAX_STUCK: usize = 16;

pub(super) struct State<K> {
    inner: Mutex<Inner<K>>,
    changed: Condvar,
}

struct Inner<K> {
    /// After a reset: what threads come to interests nobody any more.
    gone: bool,
    /// Number of the last thread.
    last: u64,
    running: Option<Running>,
    /// Threads that have nothing left to do.
    ended: Vec<Job>,
    /// What the last poll that was not left alone came to, by number; the sample is `latest`.
    outcome: Option<(u64, Result<(), SampleError>)>,
    latest: Option<Latest>,
    kept: Option<K>,
    /// GPUs whose calls hang, with the numbers of the threads left alone in them.
    hanging: Vec<(u64, Hung)>,
}

/// The thread whose turn it is.
struct Running {
    number: u64,
    job: Job,
    /// It has told its outcome and is closing NVML.
    closing: bool,
    /// A caller has given up on it.
    overdue: bool,
}

struct Latest {
    sample: Arc<Sample>,
    /// When a caller was first given it.
    handed: Option<Instant>,
}

/// How old a sample may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    /// One that is younger is handed out again.
    pub(super) min: Duration,
    /// One that came when nobody waited any more is handed out up to this age.
    pub(super) late: Duration,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner {
                gone: false,
                last: 0,
                running: None,
                ended: Vec::new(),
                outcome: None,
                latest: None,
                kept: None,
                hanging: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }
}

impl<K: Send + 'static> State<K> {
    /// A young sample, else that of the poll under way, else that of a new poll by `work`.
    pub(super) fn sample<W>(
        &'static self,
        worker: &Worker,
        ages: Ages,
        deadline: Duration,
        work: &W,
    ) -> Result<Arc<Sample>, SampleError>
    where
        W: Fn(Option<K>, &[Hung], &Arc<Trace>) -> Result<Polled<K>, Error> + Clone + Send + 'static,
    {
        let start = Instant::now();
        let mut inner = lock(&self.inner);
        let mut joined = None;
        loop {
            inner.join_ended();
            if inner.gone {
                return Err(reset_meanwhile().into());
            }
            let left = deadline.saturating_sub(start.elapsed());
            let at_work = inner
                .running
                .as_ref()
                .is_some_and(|running| Some(running.number) == joined);
            // NVML's shutdown is waited for, but costs no caller its sample.
            if (!at_work || left.is_zero())
                && let Some(result) = joined.and_then(|number| inner.outcome_since(number))
            {
                return result;
            }
            if !at_work && let Some(sample) = inner.young(ages) {
                return Ok(sample);
            }
            match &mut inner.running {
                None if left.is_zero() => return Err(inner.out_of_time(start).into()),
                None => {
                    worker.admit(MAX_STUCK)?;
                    let work = work.clone();
                    joined = Some(self.start(&mut inner, false, move |turn, trace| {
                        turn.poll(trace, &work);
                    })?);
                }
                Some(running) => {
                    if !running.closing {
                        joined = Some(running.number);
                    }
                    let place = running.job.trace.place();
                    match verdict(place, deadline, left.is_zero()) {
                        Verdict::Wait => {}
                        Verdict::Fail => {
                            running.overdue = true;
                            return Err(in_words(place, start.elapsed(), deadline).into());
                        }
                        Verdict::LeaveAlone => {
                            let hung = in_words(place, start.elapsed(), deadline);
                            inner.leave_alone(worker, hung.clone());
                            // Others may poll without that GPU.
                            self.changed.notify_all();
                            if left.is_zero() {
                                return Err(hung.into());
                            }
                            continue;
                        }
                    }
                }
            }
            inner = self.wait(inner, left);
        }
    }

    /// Has a thread close what is kept open, after the poll under way.
    pub(super) fn release(
        &'static self,
        deadline: Duration,
        close: fn(K, &Arc<Trace>),
    ) -> Result<(), Hung> {
        let start = Instant::now();
        let mut inner = lock(&self.inner);
        loop {
            inner.join_ended();
            if inner.running.is_none() {
                if inner.kept.is_none() {
                    return Ok(());
                }
                self.start(&mut inner, true, move |turn, trace| {
                    if let Some((Some(kept), _)) = turn.begin() {
                        close(kept, trace);
                    }
                })?;
            }
            let left = deadline.saturating_sub(start.elapsed());
            if let Some(running) = &mut inner.running
                && left.is_zero()
            {
                running.overdue = true;
                let place = running.job.trace.place();
                return Err(in_words(place, start.elapsed(), deadline));
            }
            inner = self.wait(inner, left);
        }
    }

    /// The last sample.
    pub(super) fn latest(&self) -> Option<Arc<Sample>> {
        let inner = lock(&self.inner);
        inner
            .latest
            .as_ref()
            .map(|latest| Arc::clone(&latest.sample))
    }

    /// The call of a poll that a caller has given up on.
    pub(super) fn overdue(&self) -> Option<Hung> {
        let inner = lock(&self.inner);
        let running = inner.running.as_ref().filter(|running| running.overdue)?;
        let place = running.job.trace.place();
        Some(Hung {
            fresh: false,
            ..in_words(place, running.job.age(), Duration::ZERO)
        })
    }

    /// Nobody looks at this state any more. A thread that is still out closes its session itself.
    pub(super) fn forget(&self) {
        let mut inner = lock(&self.inner);
        inner.gone = true;
        inner.join_ended();
        drop(inner);
        self.changed.notify_all();
    }

    /// Starts a thread; its number.
    fn start(
        &'static self,
        inner: &mut Inner<K>,
        closing: bool,
        work: impl FnOnce(&Turn<K>, &Arc<Trace>) + Send + 'static,
    ) -> Result<u64, Hung> {
        let number = inner.last.saturating_add(1);
        // The thread waits for the lock that the caller holds.
        let job = Job::start(move |trace| {
            let turn = Turn {
                state: self,
                number,
            };
            work(&turn, trace);
        })
        .map_err(|_| cannot_start())?;
        inner.last = number;
        inner.running = Some(Running {
            number,
            job,
            closing,
            overdue: false,
        });
        Ok(number)
    }

    fn wait<'a>(
        &self,
        inner: MutexGuard<'a, Inner<K>>,
        left: Duration,
    ) -> MutexGuard<'a, Inner<K>> {
        self.changed
            .wait_timeout(inner, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

impl<K> Inner<K> {
    /// Their code may be unmapped after.
    fn join_ended(&mut self) {
        self.ended.drain(..).for_each(Job::join);
    }

    /// What the poll of a number, or a later one, came to.
    fn outcome_since(&mut self, number: u64) -> Option<Result<Arc<Sample>, SampleError>> {
        let (_, outcome) = self.outcome.as_ref().filter(|(of, _)| *of >= number)?;
        match outcome {
            Ok(()) => self.hand_out().map(Ok),
            Err(error) => Some(Err(error.clone())),
        }
    }

    fn young(&mut self, ages: Ages) -> Option<Arc<Sample>> {
        let latest = self.latest.as_ref()?;
        let age = latest.sample.at.elapsed();
        let late = age < ages.late
            && latest
                .handed
                .is_none_or(|handed| handed.elapsed() < ages.min);
        if age < ages.min || late {
            self.hand_out()
        } else {
            None
        }
    }

    fn hand_out(&mut self) -> Option<Arc<Sample>> {
        let latest = self.latest.as_mut()?;
        latest.handed.get_or_insert_with(Instant::now);
        Some(Arc::clone(&latest.sample))
    }

    /// Leaves the thread in its call and that GPU out of the polls to come.
    fn leave_alone(&mut self, worker: &Worker, hung: Hung) {
        if let Some(running) = self.running.take() {
            self.hanging.push((running.number, hung));
            worker.abandon(running.job);
        }
    }

    /// The poll that the caller waited for was left alone, and there is no time for another.
    fn out_of_time(&self, start: Instant) -> Hung {
        match self.hanging.last() {
            Some((_, hung)) => hung.clone(),
            None => in_words(None, start.elapsed(), Duration::ZERO),
        }
    }

    /// Is it this thread's turn still?
    fn is_turn(&self, number: u64) -> bool {
        !self.gone
            && self
                .running
                .as_ref()
                .is_some_and(|running| running.number == number)
    }
}

/// A thread's side of the state. Dropped at its end, also by a panic.
struct Turn<K: 'static> {
    state: &'static State<K>,
    number: u64,
}

impl<K: 'static> Turn<K> {
    fn poll<W>(&self, trace: &Arc<Trace>, work: &W)
    where
        W: Fn(Option<K>, &[Hung], &Arc<Trace>) -> Result<Polled<K>, Error>,
    {
        let Some((kept, hanging)) = self.begin() else {
            return;
        };
        let to_close = match work(kept, &hanging, trace) {
            Ok(polled) => self.deposit(polled),
            Err(error) => {
                self.fail(error.into());
                None
            }
        };
        drop(to_close);
    }

    /// What is kept open, and the GPUs that hang; `None` when there is nothing to do any more.
    fn begin(&self) -> Option<(Option<K>, Vec<Hung>)> {
        let mut inner = lock(&self.state.inner);
        if !inner.is_turn(self.number) {
            return None;
        }
        let hanging = inner.hanging.iter().map(|(_, hung)| hung.clone()).collect();
        Some((inner.kept.take(), hanging))
    }

    /// Hands a sample over, and the session if it is to be kept; else the session comes back, for
    /// this thread to close.
    fn deposit(&self, polled: Polled<K>) -> Option<K> {
        let Polled { sample, open, keep } = polled;
        let mut inner = lock(&self.state.inner);
        if inner.gone {
            return Some(open);
        }
        // A thread that was left alone may be later than others that came after it.
        if inner
            .latest
            .as_ref()
            .is_none_or(|latest| latest.sample.at < sample.at)
        {
            inner.latest = Some(Latest {
                sample: Arc::new(sample),
                handed: None,
            });
        }
        if !inner.is_turn(self.number) {
            return Some(open);
        }
        inner.outcome = Some((self.number, Ok(())));
        if keep {
            inner.kept = Some(open);
            return None;
        }
        if let Some(running) = &mut inner.running {
            running.closing = true;
        }
        Some(open)
    }

    fn fail(&self, error: SampleError) {
        let mut inner = lock(&self.state.inner);
        if inner.is_turn(self.number) {
            inner.outcome = Some((self.number, Err(error)));
        }
    }
}

impl<K: 'static> Drop for Turn<K> {
    fn drop(&mut self) {
        let mut inner = lock(&self.state.inner);
        // The GPU that it was left alone in has answered after all.
        inner.hanging.retain(|(of, _)| *of != self.number);
        if inner.is_turn(self.number)
            && let Some(running) = inner.running.take()
        {
            let told = running.closing
                || inner
                    .outcome
                    .as_ref()
                    .is_some_and(|(of, _)| *of == self.number);
            if !told {
                inner.outcome = Some((self.number, Err(panicked().into())));
            }
            inner.ended.push(running.job);
        }
        drop(inner);
        self.state.changed.notify_all();
    }
}

fn panicked() -> Hung {
    Hung {
        call: "a thread that panicked",
        device: None,
        waited: Duration::ZERO,
        fresh: true,
    }
}

fn reset_meanwhile() -> Hung {
    Hung {
        call: "a sampler that was reset",
        ..panicked()
    }
}
