//! Usage and energy, polled.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::discover::{fault, note};
use super::error::{Error, code};
use super::session::{Device, Handle, ProcessMemory, ProcessUtilization, Session};
use super::worker::{Hung, PerProcess, Trace, Worker, lock};
use crate::model::{DeviceFault, FaultKind, Note};
use crate::pci::PciAddress;

/// What a sample is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Energy counter and power.
    pub energy: bool,
    /// Processes and their memory.
    pub processes: bool,
    /// Utilisation by process.
    pub utilization: bool,
}

/// How a sampler goes about it.
#[derive(Clone, Debug)]
pub struct SamplerOptions {
    /// The NVML library; `None`: the system's.
    pub library: Option<PathBuf>,
    /// What to ask for.
    pub want: Want,
    /// A sample younger than this is handed out again.
    pub min_age: Duration,
    /// Keep NVML initialised between samples?
    pub keep_open: bool,
}

/// All GPUs at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, by the monotonic clock.
    pub at: Instant,
    /// When, by the wall clock.
    pub wall: SystemTime,
    /// One entry per NVML index.
    pub gpus: Vec<Result<GpuSample, DeviceFault>>,
}

/// One GPU at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSample {
    /// NVML index.
    pub index: u32,
    /// N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Its UUID.
    pub uuid: String,
    /// Its address.
    pub pci: PciAddress,
    /// Energy since the driver was loaded, in mJ; `None` when the GPU has no counter.
    pub energy_mj: Option<u64>,
    /// Power in mW.
    pub power_mw: Option<u32>,
    /// Its processes, one entry per process and MIG device, by process id.
    pub processes: Vec<ProcessUsage>,
    /// Calls that failed though the GPU has what they ask for.
    pub notes: Vec<Note>,
}

/// One process on one GPU or MIG device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Process id, in the host's namespace.
    pub pid: u32,
    /// GPU and compute instance, when it runs on a MIG device.
    pub mig: Option<(u32, u32)>,
    /// GPU memory in bytes; `None` when NVML does not say.
    pub memory_bytes: Option<u64>,
    /// Mean SM utilisation in percent since the sample before; `None` when NVML does not say.
    pub sm_percent: Option<u32>,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// NVML cannot be loaded or initialised, or does not count its GPUs.
    #[error(transparent)]
    Nvml(#[from] Error),
    /// A call hangs.
    #[error(transparent)]
    Hung(#[from] Hung),
}

/// Threads that may hang before nothing more is asked.
const MAX_STUCK: usize = 2;

/// Samples all GPUs of the node, each read once per poll however many callers there are.
///
/// Made for a `static`; belongs to the process that uses it: a forked child starts anew.
///
/// When the calls of one GPU hang, that sample is lost and the following ones leave that GPU out,
/// as long as it hangs. When a second one hangs, or NVML's start does, every caller gets the
/// [`Hung`] at once until a call returns.
pub struct Sampler {
    options: SamplerOptions,
    worker: Worker,
    state: PerProcess<State>,
}

#[derive(Default)]
struct State {
    inner: Mutex<Inner>,
    turn: Condvar,
}

#[derive(Default)]
struct Inner {
    /// A caller is at it.
    busy: bool,
    latest: Option<Arc<Sample>>,
    open: Option<Open>,
    /// GPUs whose calls hang.
    hanging: Vec<Hung>,
}

/// NVML initialised, and what does not change while it is.
struct Open {
    session: Session,
    gpus: Vec<Result<Known, DeviceFault>>,
    compute: Vec<ProcessMemory>,
    graphics: Vec<ProcessMemory>,
    utilization: Vec<ProcessUtilization>,
}

struct Known {
    index: u32,
    handle: Handle,
    minor: Option<u32>,
    uuid: String,
    pci: PciAddress,
    /// What the GPU has turned out not to have is not asked for again.
    lacks: Want,
    lacks_power: bool,
    /// Time of the last utilisation sample seen.
    seen_us: u64,
}

/// Ends a caller's turn, whatever comes.
struct Turn<'a>(&'a State);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.inner).busy = false;
        self.0.turn.notify_all();
    }
}

impl Sampler {
    /// A sampler; NVML is touched at the first sample.
    #[must_use]
    pub const fn new(options: SamplerOptions) -> Self {
        Self {
            options,
            worker: Worker::new(),
            state: PerProcess::new(),
        }
    }

    /// The last sample when it is younger than [`min_age`](SamplerOptions::min_age), else a new
    /// one; never waits longer than `deadline`.
    ///
    /// # Errors
    /// NVML as a whole cannot be asked, or a call hangs.
    pub fn sample(&self, deadline: Duration) -> Result<Arc<Sample>, SampleError> {
        let start = Instant::now();
        let state = self.state.get();
        let mut inner = lock(&state.inner);
        loop {
            if let Some(latest) = &inner.latest
                && latest.at.elapsed() < self.options.min_age
            {
                return Ok(Arc::clone(latest));
            }
            if !inner.busy {
                break;
            }
            let left = deadline.saturating_sub(start.elapsed());
            inner = wait(state, inner, left).ok_or_else(|| waited_for_turn(start))?;
        }
        if self.worker.wedged().is_none() {
            inner.hanging.clear();
        }
        let limit = inner.hanging.len().saturating_add(1).min(MAX_STUCK);
        self.worker.admit(limit)?;
        inner.busy = true;
        let turn = Turn(state);
        let open = inner.open.take();
        let hanging = inner.hanging.clone();
        drop(inner);

        let options = self.options.clone();
        let left = deadline.saturating_sub(start.elapsed());
        let done = self.worker.run_beside(limit, left, move |trace| {
            poll(open, &options, &hanging, trace)
        });
        let mut inner = lock(&state.inner);
        let result = match done {
            Ok(Ok((open, sample))) => {
                let sample = Arc::new(sample);
                inner.open = open;
                inner.latest = Some(Arc::clone(&sample));
                Ok(sample)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(hung) => {
                if hung.fresh && hung.device.is_some() {
                    inner.hanging.push(hung.clone());
                }
                Err(hung.into())
            }
        };
        drop(inner);
        drop(turn);
        result
    }

    /// The last sample, however old; `None` before the first.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Sample>> {
        lock(&self.state.peek()?.inner).latest.clone()
    }

    /// The call that hangs still, if any.
    #[must_use]
    pub fn wedged(&self) -> Option<Hung> {
        self.worker.wedged()
    }

    /// Closes NVML, so that a driver can be unloaded or a GPU reset; the next sample opens it
    /// anew. Waits for a sample under way.
    ///
    /// # Errors
    /// A sample under way does not end in time, NVML's shutdown hangs, or an earlier call hangs
    /// still and keeps NVML open.
    pub fn release(&self, deadline: Duration) -> Result<(), Hung> {
        let Some(state) = self.state.peek() else {
            return Ok(());
        };
        let start = Instant::now();
        let mut inner = lock(&state.inner);
        while inner.busy {
            let left = deadline.saturating_sub(start.elapsed());
            inner = wait(state, inner, left).ok_or_else(|| waited_for_turn(start))?;
        }
        let open = inner.open.take();
        drop(inner);
        if let Some(mut open) = open {
            let left = deadline.saturating_sub(start.elapsed());
            self.worker.run_beside(MAX_STUCK, left, move |trace| {
                open.session.set_trace(trace);
                drop(open);
            })?;
        }
        // A thread that hangs has a session of its own.
        self.worker.wedged().map_or(Ok(()), Err)
    }

    /// Forgets samples and hangs, for a plugin's `fini`. NVML, when it is open, stays so: call
    /// [`release`](Self::release) before.
    pub fn reset(&self) {
        self.state.reset();
        self.worker.reset();
    }
}

/// Waits for a change; `None` when the time is up.
fn wait<'a>(
    state: &State,
    inner: MutexGuard<'a, Inner>,
    left: Duration,
) -> Option<MutexGuard<'a, Inner>> {
    if left.is_zero() {
        return None;
    }
    Some(
        state
            .turn
            .wait_timeout(inner, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0,
    )
}

fn waited_for_turn(start: Instant) -> Hung {
    Hung {
        call: "another caller's sample",
        device: None,
        waited: start.elapsed(),
        fresh: true,
    }
}

/// The thread: one sample.
fn poll(
    open: Option<Open>,
    options: &SamplerOptions,
    hanging: &[Hung],
    trace: &Arc<Trace>,
) -> Result<(Option<Open>, Sample), Error> {
    let mut open = match open {
        Some(mut open) => {
            open.session.set_trace(trace);
            open
        }
        None => Open::new(options, hanging, trace)?,
    };
    let (at, wall) = (Instant::now(), SystemTime::now());
    let Open {
        session,
        gpus,
        compute,
        graphics,
        utilization,
    } = &mut open;
    let mut stale = false;
    let gpus: Vec<Result<GpuSample, DeviceFault>> = gpus
        .iter_mut()
        .zip(0u32..)
        .map(|(known, index)| {
            if let Some(hung) = hanging.iter().find(|hung| hung.device == Some(index)) {
                return Err(hangs(index, hung));
            }
            let known = known.as_mut().map_err(|fault| fault.clone())?;
            let buffers = Buffers {
                compute,
                graphics,
                utilization,
            };
            read(session, known, options.want, buffers).map_err(|error| {
                // Worth a new start: the driver was reloaded or the GPU reset.
                stale |= matches!(error.code(), Some(code::UNINITIALIZED | code::GPU_IS_LOST));
                fault(index, &error, Some(known.pci), Some(known.uuid.clone()))
            })
        })
        .collect();
    // A GPU that could not be identified gets another chance.
    stale |= open.gpus.iter().any(Result::is_err);
    let keep = options.keep_open && !stale;
    Ok((keep.then_some(open), Sample { at, wall, gpus }))
}

fn hangs(index: u32, hung: &Hung) -> DeviceFault {
    let kind = FaultKind::Hung(hung.waited);
    DeviceFault {
        index,
        pci: None,
        uuid: None,
        call: hung.call,
        kind,
    }
}

impl Open {
    fn new(options: &SamplerOptions, hanging: &[Hung], trace: &Arc<Trace>) -> Result<Self, Error> {
        let session = Session::open(options.library.as_deref(), trace)?;
        let count = session.device_count()?;
        let mut gpus = Vec::new();
        for index in 0..count {
            gpus.push(
                match hanging.iter().find(|hung| hung.device == Some(index)) {
                    Some(hung) => Err(hangs(index, hung)),
                    None => {
                        identify(&session, index).map_err(|error| fault(index, &error, None, None))
                    }
                },
            );
        }
        let (compute, graphics, utilization) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            session,
            gpus,
            compute,
            graphics,
            utilization,
        })
    }
}

fn identify(session: &Session, index: u32) -> Result<Known, Error> {
    let device = session.device_by_index(index)?;
    Ok(Known {
        index,
        handle: device.handle(),
        pci: device.pci()?,
        uuid: device.uuid()?,
        minor: device.minor().ok(),
        lacks: Want {
            energy: false,
            processes: false,
            utilization: false,
        },
        lacks_power: false,
        seen_us: 0,
    })
}

struct Buffers<'a> {
    compute: &'a mut Vec<ProcessMemory>,
    graphics: &'a mut Vec<ProcessMemory>,
    utilization: &'a mut Vec<ProcessUtilization>,
}

fn read(
    session: &Session,
    known: &mut Known,
    want: Want,
    buffers: Buffers<'_>,
) -> Result<GpuSample, Error> {
    let device = session.device(known.handle, Some(known.index));
    let mut notes = Vec::new();
    let (mut energy_mj, mut power_mw, mut processes) = (None, None, Vec::new());
    if want.energy && !known.lacks.energy {
        energy_mj = try_it(
            device.total_energy_mj(),
            &mut known.lacks.energy,
            &mut notes,
        )?;
    }
    if want.energy && !known.lacks_power {
        power_mw = try_it(device.power_mw(), &mut known.lacks_power, &mut notes)?;
    }
    if want.processes && !known.lacks.processes {
        processes = memory_by_process(
            &device,
            known,
            buffers.compute,
            buffers.graphics,
            &mut notes,
        )?;
    }
    if want.utilization && !known.lacks.utilization {
        let samples = buffers.utilization;
        let found = device.process_utilization(known.seen_us, samples);
        if try_it(found, &mut known.lacks.utilization, &mut notes)?.is_some() {
            known.seen_us = samples
                .iter()
                .map(|sample| sample.timestamp_us)
                .fold(known.seen_us, u64::max);
            add_utilization(&mut processes, samples);
        }
    }
    processes.sort_unstable_by_key(|process| (process.pid, process.mig));
    Ok(GpuSample {
        index: known.index,
        minor: known.minor,
        uuid: known.uuid.clone(),
        pci: known.pci,
        energy_mj,
        power_mw,
        processes,
        notes,
    })
}

/// `None` and remembered when the GPU lacks it, `None` and noted when the call fails otherwise,
/// an error when the GPU is gone.
fn try_it<T>(
    result: Result<T, Error>,
    lacks: &mut bool,
    notes: &mut Vec<Note>,
) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_unsupported() => {
            *lacks = true;
            Ok(None)
        }
        Err(error) if matches!(error.code(), Some(code::UNINITIALIZED | code::GPU_IS_LOST)) => {
            Err(error)
        }
        Err(error) => {
            notes.push(note(&error));
            Ok(None)
        }
    }
}

fn memory_by_process(
    device: &Device<'_>,
    known: &mut Known,
    compute: &mut Vec<ProcessMemory>,
    graphics: &mut Vec<ProcessMemory>,
    notes: &mut Vec<Note>,
) -> Result<Vec<ProcessUsage>, Error> {
    // A GPU without graphics is common and lacks that list only.
    let mut no_graphics = false;
    try_it(
        device.compute_processes(compute),
        &mut known.lacks.processes,
        notes,
    )?;
    try_it(device.graphics_processes(graphics), &mut no_graphics, notes)?;
    Ok(merge_memory(compute, graphics))
}

/// One entry per process and MIG device. A process that computes and draws is in both lists with
/// the same memory, which counts once.
fn merge_memory(compute: &[ProcessMemory], graphics: &[ProcessMemory]) -> Vec<ProcessUsage> {
    let mut merged: Vec<ProcessUsage> = Vec::with_capacity(compute.len());
    for process in compute.iter().chain(graphics) {
        let same = |usage: &&mut ProcessUsage| (usage.pid, usage.mig) == (process.pid, process.mig);
        match merged.iter_mut().find(same) {
            Some(usage) => usage.memory_bytes = usage.memory_bytes.max(process.bytes),
            None => merged.push(ProcessUsage {
                pid: process.pid,
                mig: process.mig,
                memory_bytes: process.bytes,
                sm_percent: None,
            }),
        }
    }
    merged
}

/// Adds the mean of each process's samples. NVML gives none for MIG devices. A process that is in
/// no list any more gets an entry too: it ran since the sample before.
fn add_utilization(processes: &mut Vec<ProcessUsage>, samples: &[ProcessUtilization]) {
    // Process, sum, count.
    let mut sums: Vec<(u32, u64, u64)> = Vec::new();
    for sample in samples {
        let percent = u64::from(sample.sm.min(100));
        match sums.iter_mut().find(|(pid, _, _)| *pid == sample.pid) {
            Some((_, sum, count)) => {
                *sum = sum.saturating_add(percent);
                *count = count.saturating_add(1);
            }
            None => sums.push((sample.pid, percent, 1)),
        }
    }
    for (pid, sum, count) in sums {
        let mean = sum
            .checked_div(count)
            .and_then(|mean| u32::try_from(mean).ok());
        match processes
            .iter_mut()
            .find(|usage| usage.pid == pid && usage.mig.is_none())
        {
            Some(usage) => usage.sm_percent = mean,
            None => processes.push(ProcessUsage {
                pid,
                mig: None,
                memory_bytes: None,
                sm_percent: mean,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(pid: u32, bytes: Option<u64>, mig: Option<(u32, u32)>) -> ProcessMemory {
        ProcessMemory { pid, bytes, mig }
    }

    #[test]
    fn memory_counts_once_per_device() {
        let compute = [
            memory(7, Some(100), None),
            memory(8, None, None),
            memory(9, Some(1), Some((1, 0))),
            memory(9, Some(2), Some((2, 0))),
        ];
        let graphics = [
            memory(7, Some(100), None),
            memory(8, Some(5), None),
            memory(10, Some(3), None),
        ];
        let merged = merge_memory(&compute, &graphics);
        let short: Vec<_> = merged
            .iter()
            .map(|usage| (usage.pid, usage.mig, usage.memory_bytes))
            .collect();
        assert_eq!(
            short,
            [
                (7, None, Some(100)),
                (8, None, Some(5)),
                (9, Some((1, 0)), Some(1)),
                (9, Some((2, 0)), Some(2)),
                (10, None, Some(3)),
            ]
        );
    }

    #[test]
    fn utilisation_is_a_mean() {
        let sample = |pid, sm| ProcessUtilization {
            pid,
            timestamp_us: 1,
            sm,
            memory: 0,
        };
        let mut processes = merge_memory(&[memory(7, Some(1), None)], &[]);
        add_utilization(
            &mut processes,
            &[sample(7, 20), sample(8, 5), sample(7, 41), sample(8, 300)],
        );
        assert_eq!(processes[0].sm_percent, Some(30));
        assert_eq!((processes[1].pid, processes[1].sm_percent), (8, Some(52)));
    }

    #[test]
    fn no_library_is_an_error_each_time() {
        let sampler = Sampler::new(SamplerOptions {
            library: Some("/nonexistent/libnvidia-ml.so.1".into()),
            want: Want {
                energy: true,
                processes: true,
                utilization: true,
            },
            min_age: Duration::ZERO,
            keep_open: true,
        });
        for _ in 0..2 {
            let error = sampler.sample(Duration::from_secs(20)).unwrap_err();
            assert!(
                matches!(error, SampleError::Nvml(Error::Load(_))),
                "{error}"
            );
        }
        assert!(sampler.latest().is_none());
        assert_eq!(sampler.release(Duration::from_secs(1)), Ok(()));
        sampler.reset();
    }
}
