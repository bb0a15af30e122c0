//! One poll: all GPUs read in one session.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::again::{Health, Lack};
use super::merge::{add_utilization, merge_memory};
use super::sample::{GpuSample, ProcessUsage, Sample, SamplerOptions, Want};
use super::shares::mig_shares;
use crate::model::{DeviceFault, FaultKind, Note};
use crate::nvml::discover::{fault, note};
use crate::nvml::error::{Error, code};
use crate::nvml::session::{Device, Handle, ProcessMemory, ProcessUtilization, Session};
use crate::nvml::trace::Trace;
use crate::nvml::worker::Hung;
use crate::pci::PciAddress;

/// NVML initialised, and what does not change while it is.
pub(super) struct Open {
    session: Session,
    since: Instant,
    /// One entry per NVML index; a GPU that could not be identified is tried again at each poll.
    gpus: Vec<Result<Known, DeviceFault>>,
    buffers: Buffers,
}

struct Known {
    index: u32,
    handle: Handle,
    minor: Option<u32>,
    uuid: String,
    pci: PciAddress,
    lacks: Lacks,
    /// Time of the last utilisation sample seen.
    seen_us: u64,
}

/// What a GPU has turned out not to have.
#[derive(Default)]
struct Lacks {
    energy: Lack,
    power: Lack,
    processes: Lack,
    graphics: Lack,
    utilization: Lack,
    mig: Lack,
}

/// Room for lists, kept from GPU to GPU.
#[derive(Default)]
struct Buffers {
    compute: Vec<ProcessMemory>,
    graphics: Vec<ProcessMemory>,
    utilization: Vec<ProcessUtilization>,
}

/// What a poll came to.
pub(super) struct Polled<K> {
    pub(super) sample: Sample,
    pub(super) open: K,
    /// Is `open` to serve the next poll?
    pub(super) keep: bool,
}

/// Reads all GPUs but those that hang.
pub(super) fn poll(
    open: Option<Open>,
    options: &SamplerOptions,
    hanging: &[Hung],
    trace: &Arc<Trace>,
) -> Result<Polled<Open>, Error> {
    let mut health = Health::Good;
    let mut open = match open {
        Some(mut open) => {
            open.session.set_trace(trace);
            open.identify_again(hanging, &mut health);
            open
        }
        None => Open::new(options, hanging, trace, &mut health)?,
    };
    let (at, wall) = (Instant::now(), SystemTime::now());
    let gpus = open.read(options.want, at, &mut health);
    Ok(Polled {
        sample: Sample { at, wall, gpus },
        keep: options.keep_open && health.keeps(open.since.elapsed()),
        open,
    })
}

impl Open {
    fn new(
        options: &SamplerOptions,
        hanging: &[Hung],
        trace: &Arc<Trace>,
        health: &mut Health,
    ) -> Result<Self, Error> {
        let session = Session::open(options.library.as_deref(), trace)?;
        let gpus = (0..session.device_count()?)
            .map(|index| find(&session, index, hanging, health))
            .collect();
        Ok(Self {
            session,
            since: Instant::now(),
            gpus,
            buffers: Buffers::default(),
        })
    }

    /// Closes NVML, on the thread of this trace.
    pub(super) fn close(mut self, trace: &Arc<Trace>) {
        self.session.set_trace(trace);
    }

    /// Finds the GPUs that have not been found yet.
    fn identify_again(&mut self, hanging: &[Hung], health: &mut Health) {
        for (gpu, index) in self.gpus.iter_mut().zip(0u32..) {
            let Err(before) = gpu else {
                continue;
            };
            let failed = !matches!(before.kind, FaultKind::Hung(_));
            *gpu = find(&self.session, index, hanging, health);
            if failed && gpu.is_err() {
                *health = (*health).max(Health::Doubtful);
            }
        }
    }

    fn read(
        &mut self,
        want: Want,
        now: Instant,
        health: &mut Health,
    ) -> Vec<Result<GpuSample, DeviceFault>> {
        let Self {
            session,
            gpus,
            buffers,
            ..
        } = self;
        gpus.iter_mut()
            .map(|gpu| {
                let known = gpu.as_mut().map_err(|fault| fault.clone())?;
                known.read(session, want, buffers, now).map_err(|error| {
                    *health = (*health).max(means(&error));
                    known.fault(&error)
                })
            })
            .collect()
    }
}

/// Who the GPU of an NVML index is, unless it hangs. (One that hangs has never been found in this
/// session: the thread that hangs has the session in which it was.)
fn find(
    session: &Session,
    index: u32,
    hanging: &[Hung],
    health: &mut Health,
) -> Result<Known, DeviceFault> {
    if let Some(hung) = hanging.iter().find(|hung| hung.device == Some(index)) {
        return Err(hangs(index, hung));
    }
    identify(session, index).map_err(|error| {
        *health = (*health).max(means(&error));
        fault(index, &error, None, None)
    })
}

/// What a GPU's error says about the session.
fn means(error: &Error) -> Health {
    match error.code() {
        Some(code::UNINITIALIZED) => Health::Dead,
        Some(code::GPU_IS_LOST) => Health::Doubtful,
        _ => Health::Good,
    }
}

fn hangs(index: u32, hung: &Hung) -> DeviceFault {
    DeviceFault {
        index,
        pci: None,
        uuid: None,
        call: hung.call,
        kind: FaultKind::Hung(hung.waited),
    }
}

fn identify(session: &Session, index: u32) -> Result<Known, Error> {
    let device = session.device_by_index(index)?;
    let (pci, uuid) = (device.pci()?, device.uuid()?);
    let minor = match device.minor() {
        Ok(minor) => Some(minor),
        Err(error) if error.is_unsupported() => None,
        Err(error) => return Err(error),
    };
    Ok(Known {
        index,
        handle: device.handle(),
        minor,
        uuid,
        pci,
        lacks: Lacks::default(),
        seen_us: 0,
    })
}

impl Known {
    fn fault(&self, error: &Error) -> DeviceFault {
        fault(self.index, error, Some(self.pci), Some(self.uuid.clone()))
    }

    fn read(
        &mut self,
        session: &Session,
        want: Want,
        buffers: &mut Buffers,
        now: Instant,
    ) -> Result<GpuSample, Error> {
        let device = session.device(self.handle, Some(self.index));
        let lacks = &mut self.lacks;
        let mut asking = Asking {
            now,
            notes: Vec::new(),
        };
        let (mut energy_mj, mut power_mw) = (None, None);
        let (mut shares, mut processes) = (Vec::new(), Vec::new());
        if want.energy {
            energy_mj = asking.ask(&mut lacks.energy, || device.total_energy_mj())?;
            power_mw = asking.ask(&mut lacks.power, || device.power_mw())?;
            shares = mig_shares(&device, &mut lacks.mig, &mut asking)?;
        }
        if want.processes {
            processes = memory_by_process(&device, lacks, buffers, &mut asking)?;
        }
        if want.utilization {
            let samples = &mut buffers.utilization;
            let since_us = self.seen_us;
            let ask = || device.process_utilization(since_us, samples);
            if asking.ask(&mut lacks.utilization, ask)?.is_some() {
                self.seen_us = samples
                    .iter()
                    .map(|sample| sample.timestamp_us)
                    .fold(since_us, u64::max);
                add_utilization(&mut processes, samples);
            }
        }
        processes.sort_unstable_by_key(|process| (process.pid, process.mig));
        Ok(GpuSample {
            index: self.index,
            minor: self.minor,
            uuid: self.uuid.clone(),
            pci: self.pci,
            energy_mj,
            power_mw,
            mig_shares: shares,
            processes,
            notes: asking.notes,
        })
    }
}

/// The calls to one GPU.
pub(super) struct Asking {
    now: Instant,
    notes: Vec<Note>,
}

impl Asking {
    /// `None` and remembered when the GPU lacks it, `None` and noted when the call fails
    /// otherwise, an error when the GPU or NVML is gone.
    pub(super) fn ask<T>(
        &mut self,
        lack: &mut Lack,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if !lack.worth_asking(self.now) {
            return Ok(None);
        }
        match call() {
            Err(error) if error.is_unsupported() => {
                lack.note(self.now);
                Ok(None)
            }
            result => self.soft(result),
        }
    }

    /// `None` and noted when the call has failed, an error when the GPU or NVML is gone.
    pub(super) fn soft<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if means(&error) > Health::Good => Err(error),
            Err(error) => {
                self.notes.push(note(&error));
                Ok(None)
            }
        }
    }
}

/// A GPU without graphics is common and lacks that list only.
fn memory_by_process(
    device: &Device<'_>,
    lacks: &mut Lacks,
    buffers: &mut Buffers,
    asking: &mut Asking,
) -> Result<Vec<ProcessUsage>, Error> {
    let Buffers {
        compute, graphics, ..
    } = buffers;
    // What is not asked for must not leave another GPU's list.
    compute.clear();
    graphics.clear();
    asking.ask(&mut lacks.processes, || device.compute_processes(compute))?;
    asking.ask(&mut lacks.graphics, || device.graphics_processes(graphics))?;
    Ok(merge_memory(compute, graphics))
}
