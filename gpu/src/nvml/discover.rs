//! Discovery: the inventory of a node, under deadlines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::error::Error;
use super::session::{Device, Session};
use super::trace::Trace;
use super::worker::{Hung, Job, Worker, cannot_start};
use crate::mig_minors::MigMinors;
use crate::model::{
    DeviceFault, FaultKind, Gpu, Inventory, MigInstance, MigState, Note, RemoteEnd,
};
use crate::pci::PciAddress;
use crate::sysfs::Sysfs;
use crate::type_name::{self, MigNaming};

/// More GPUs than a node can have.
const MAX_GPUS: u32 = 4096;

/// How discovery goes about it.
#[derive(Clone, Debug)]
pub struct DiscoverOptions {
    /// The NVML library; `None`: the system's.
    pub library: Option<PathBuf>,
    /// Longest time that opening and initialising NVML may take.
    pub init_deadline: Duration,
    /// Longest time that one GPU's calls may take together.
    pub gpu_deadline: Duration,
    /// Give up on the remaining GPUs after this many hung ones.
    pub max_hung: usize,
    /// The `/proc` with `driver/nvidia-caps/mig-minors`.
    pub proc: PathBuf,
    /// The `/sys` where a link's far end is looked up when NVML cannot tell what it is.
    pub sys: PathBuf,
}

impl Default for DiscoverOptions {
    fn default() -> Self {
        Self {
            library: None,
            init_deadline: Duration::from_secs(60),
            gpu_deadline: Duration::from_secs(10),
            max_hung: 2,
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

/// Why there is no inventory at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// NVML cannot be loaded or initialised, or does not count its GPUs.
    #[error(transparent)]
    Nvml(#[from] Error),
    /// It hung at that.
    #[error(transparent)]
    Hung(#[from] Hung),
}

/// What the thread tells.
enum Message {
    Opened(Result<Opened, Error>),
    /// The GPU at hand has this much of an identity.
    Seen(PciAddress, Option<String>),
    /// The GPU at hand, and when all was known of it.
    Gpu(Box<Result<Gpu, DeviceFault>>, Instant),
}

/// A thread at its survey.
struct Round {
    job: Job,
    messages: Receiver<Message>,
    /// Disconnected once the thread has closed NVML.
    ended: Receiver<()>,
}

struct Opened {
    driver_version: String,
    nvml_version: String,
    count: u32,
    notes: Vec<Note>,
}

/// Finds what is on the node. One sick GPU hides no other: one whose calls hang is named with the
/// call, and the others are asked on a new thread with a session of its own. After
/// [`max_hung`](DiscoverOptions::max_hung) of them NVML itself is taken to be locked and the
/// remaining GPUs are not asked.
///
/// # Errors
/// NVML as a whole cannot be asked.
pub fn discover(worker: &Worker, options: &DiscoverOptions) -> Result<Inventory, DiscoverError> {
    let limit = options.max_hung.max(1);
    worker.admit(limit)?;
    let mut round = start(options, 0)?;
    let opened = match round.messages.recv_timeout(options.init_deadline) {
        Ok(Message::Opened(Ok(opened))) => opened,
        Ok(Message::Opened(Err(error))) => {
            round.job.join();
            return Err(error.into());
        }
        Err(RecvTimeoutError::Timeout) => return Err(worker.abandon(round.job).into()),
        Ok(_) | Err(RecvTimeoutError::Disconnected) => return Err(broken(round.job).into()),
    };
    let mut inventory = Inventory {
        driver_version: opened.driver_version,
        nvml_version: opened.nvml_version,
        gpus: Vec::with_capacity(opened.count as usize),
        notes: opened.notes,
    };
    let mut hung: Vec<u32> = Vec::new();
    loop {
        let deadline = options.gpu_deadline;
        let Some((index, mut fault)) = gather(&mut inventory, opened.count, &round, deadline)
        else {
            close(&mut inventory, worker, round, deadline);
            return Ok(inventory);
        };
        let Round { job, messages, .. } = round;
        drop(messages);
        let named = worker.abandon(job);
        fault.call = named.call;
        fault.kind = FaultKind::Hung(options.gpu_deadline);
        inventory.gpus.push(Err(fault));
        hung.push(index);
        let next = index.saturating_add(1);
        if next >= opened.count {
            return Ok(inventory);
        }
        let fresh = if hung.len() >= limit || worker.admit(limit).is_err() {
            None
        } else {
            restart(worker, options, next)
        };
        match fresh {
            Some(fresh) => round = fresh,
            None => {
                for index in next..opened.count {
                    let kind = FaultKind::NotAsked { hung: hung.clone() };
                    let call = named.call;
                    let fault = DeviceFault {
                        index,
                        pci: None,
                        uuid: None,
                        call,
                        kind,
                    };
                    inventory.gpus.push(Err(fault));
                }
                return Ok(inventory);
            }
        }
    }
}

/// Takes in GPUs until the last; or the index at which nothing came in time, and what is known of
/// that GPU.
///
/// It waits for the thread's end rather than for each GPU: waking up for each would cost more than
/// most of NVML's calls.
fn gather(
    inventory: &mut Inventory,
    count: u32,
    round: &Round,
    deadline: Duration,
) -> Option<(u32, DeviceFault)> {
    let (mut pci, mut uuid) = (None, None);
    let mut begun = Instant::now();
    loop {
        let waited = round
            .ended
            .recv_timeout(deadline.saturating_sub(begun.elapsed()));
        for message in round.messages.try_iter() {
            match message {
                Message::Seen(address, id) => (pci, uuid) = (Some(address), id),
                Message::Gpu(gpu, at) => {
                    inventory.gpus.push(*gpu);
                    (pci, uuid, begun) = (None, None, at);
                }
                Message::Opened(_) => {}
            }
        }
        let index = u32::try_from(inventory.gpus.len()).unwrap_or(count);
        if index >= count {
            return None;
        }
        let ended = waited != Err(RecvTimeoutError::Timeout);
        if ended || begun.elapsed() >= deadline {
            let kind = FaultKind::Hung(deadline);
            return Some((
                index,
                DeviceFault {
                    index,
                    pci,
                    uuid,
                    call: "",
                    kind,
                },
            ));
        }
    }
}

/// Waits for NVML's shutdown.
fn close(inventory: &mut Inventory, worker: &Worker, round: Round, deadline: Duration) {
    match round.ended.recv_timeout(deadline) {
        Err(RecvTimeoutError::Timeout) => {
            let hung = worker.abandon(round.job);
            let words = format!("has not returned after {:.1} s", deadline.as_secs_f64());
            inventory.notes.push(Note {
                call: hung.call,
                words,
            });
        }
        // The sender is gone: all is done.
        Err(RecvTimeoutError::Disconnected) | Ok(()) => round.job.join(),
    }
}

/// A new thread with a session of its own, from a GPU on; `None` when NVML does not open again.
fn restart(worker: &Worker, options: &DiscoverOptions, from: u32) -> Option<Round> {
    let round = start(options, from).ok()?;
    match round
        .messages
        .recv_timeout(options.gpu_deadline.min(options.init_deadline))
    {
        Ok(Message::Opened(Ok(_))) => Some(round),
        Err(RecvTimeoutError::Timeout) => {
            let _ = worker.abandon(round.job);
            None
        }
        Ok(_) | Err(RecvTimeoutError::Disconnected) => {
            drop(round.messages);
            round.job.join();
            None
        }
    }
}

/// The thread ended without a word.
fn broken(job: Job) -> Hung {
    job.join();
    Hung {
        call: "a thread that panicked",
        device: None,
        waited: Duration::ZERO,
        fresh: true,
    }
}

fn start(options: &DiscoverOptions, from: u32) -> Result<Round, Hung> {
    let (sender, messages) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let options = options.clone();
    let job = Job::start(move |trace| {
        let _end = end;
        survey(&options, from, trace, &sender);
    })
    .map_err(|_| cannot_start())?;
    Ok(Round {
        job,
        messages,
        ended,
    })
}

/// The thread: opens NVML and tells GPU after GPU. It stops when nobody listens any more.
fn survey(options: &DiscoverOptions, from: u32, trace: &Arc<Trace>, sender: &Sender<Message>) {
    let session = match Session::open(options.library.as_deref(), trace) {
        Ok(session) => session,
        Err(error) => {
            let _ = sender.send(Message::Opened(Err(error)));
            return;
        }
    };
    let opened = open(&session);
    let count = opened.as_ref().map_or(0, |opened| opened.count);
    if sender.send(Message::Opened(opened)).is_err() {
        return;
    }
    let mut survey = Survey {
        sysfs: Sysfs::new(&options.sys),
        proc: &options.proc,
        ends: Vec::new(),
        minors: None,
    };
    for index in from..count {
        let gpu = survey.gpu(&session, index, sender);
        if sender
            .send(Message::Gpu(Box::new(gpu), Instant::now()))
            .is_err()
        {
            return;
        }
    }
}

fn open(session: &Session) -> Result<Opened, Error> {
    let count = session.device_count()?;
    if count > MAX_GPUS {
        let what = format!("{count} GPUs");
        return Err(Error::Malformed {
            call: "nvmlDeviceGetCount_v2",
            device: None,
            what,
        });
    }
    let mut notes = Vec::new();
    let driver_version = or_note(session.driver_version(), &mut notes).unwrap_or_default();
    let nvml_version = or_note(session.nvml_version(), &mut notes).unwrap_or_default();
    Ok(Opened {
        driver_version,
        nvml_version,
        count,
        notes,
    })
}

/// What the GPUs of one thread share.
struct Survey<'a> {
    sysfs: Sysfs,
    proc: &'a Path,
    /// What is known of the far ends of links, by address.
    ends: Vec<(PciAddress, RemoteEnd)>,
    /// The capability devices' minor numbers, read at the first MIG device; `None` within when they cannot
    /// be read.
    minors: Option<Option<MigMinors>>,
}

impl Survey<'_> {
    fn gpu(
        &mut self,
        session: &Session,
        index: u32,
        sender: &Sender<Message>,
    ) -> Result<Gpu, DeviceFault> {
        let (mut known_pci, mut known_uuid) = (None, None);
        self.query(session, index, &mut |pci, uuid| {
            (known_pci, known_uuid) = (Some(pci), uuid.clone());
            let _ = sender.send(Message::Seen(pci, uuid));
        })
        .map_err(|error| fault(index, &error, known_pci, known_uuid))
    }

    fn query(
        &mut self,
        session: &Session,
        index: u32,
        seen: &mut dyn FnMut(PciAddress, Option<String>),
    ) -> Result<Gpu, Error> {
        let device = session.device_by_index(index)?;
        let pci = device.pci()?;
        seen(pci, None);
        let uuid = device.uuid()?;
        seen(pci, Some(uuid.clone()));
        let name = device.name()?;
        let mut notes = Vec::new();
        let minor = soft(device.minor(), &mut notes)?;
        let memory_mib = soft(device.memory(), &mut notes)?.map(|memory| memory.total >> 20);
        let cpu_affinity = soft(device.cpu_affinity(), &mut notes)?;
        let nvlinks = self.nvlinks(&device, &mut notes)?;
        let mig = self.mig(&device, minor, &mut notes)?;
        Ok(Gpu {
            index,
            minor,
            uuid,
            pci,
            name,
            memory_mib,
            mig,
            cpu_affinity,
            nvlinks,
            notes,
        })
    }

    fn nvlinks(
        &mut self,
        device: &Device<'_>,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<crate::model::NvLink>, Error> {
        let mut trouble: Option<Error> = None;
        let mut lost = None;
        // On boards with NVSwitch all of a GPU's links end at switches: one that is asked for tells.
        let mut switched = false;
        let links = device.nvlinks(
            |device, link| {
                if switched {
                    return RemoteEnd::Switch(None);
                }
                let end = self.remote_end(device, link);
                switched = matches!(end, RemoteEnd::Switch(_));
                end
            },
            |error| {
                if error.is_gpu_lost() {
                    lost.get_or_insert(error);
                } else {
                    trouble.get_or_insert(error);
                }
            },
        );
        if let Some(error) = lost {
            return Err(error);
        }
        // One note is enough: the same trouble comes with each link.
        notes.extend(trouble.as_ref().map(note));
        Ok(links)
    }

    /// What a link that is up leads to. NVML is asked once per far end, not per link.
    fn remote_end(&mut self, device: &Device<'_>, link: u32) -> RemoteEnd {
        let address = device.nvlink_remote_pci(link).ok().flatten();
        let known = |(at, end): &(PciAddress, RemoteEnd)| (Some(*at) == address).then_some(*end);
        if let Some(end) = self.ends.iter().find_map(known) {
            return end;
        }
        let end = match device.nvlink_remote_end(link, address) {
            Ok(Some(end)) => end,
            _ => address.map_or(RemoteEnd::Unknown, |address| self.guess_end(address)),
        };
        if let Some(address) = address {
            self.ends.push((address, end));
        }
        end
    }

    /// NVML does not say what is at an address: an NVIDIA bridge device is an NVSwitch, one that
    /// the kernel does not know either is taken for a GPU, as before there were NVSwitches.
    fn guess_end(&self, address: PciAddress) -> RemoteEnd {
        const NVIDIA: u32 = 0x10de;
        const DISPLAY: u32 = 0x03;
        const OTHER_BRIDGE: u32 = 0x0680;
        let Some(class) = self.sysfs.pci_class(&address) else {
            return RemoteEnd::Gpu(address);
        };
        if class >> 16 == DISPLAY {
            RemoteEnd::Gpu(address)
        } else if class >> 8 == OTHER_BRIDGE && self.sysfs.pci_vendor(&address) == Some(NVIDIA) {
            RemoteEnd::Switch(Some(address))
        } else {
            RemoteEnd::Unknown
        }
    }

    fn mig(
        &mut self,
        device: &Device<'_>,
        minor: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<MigState, Error> {
        let mode = match device.mig_mode() {
            Ok(mode) => mode,
            Err(error) if error.is_unsupported() => return Ok(MigState::Unsupported),
            Err(error) => {
                soft::<()>(Err(error), notes)?;
                return Ok(MigState::Unsupported);
            }
        };
        if !mode.current {
            return Ok(if mode.pending {
                MigState::PendingEnable
            } else {
                MigState::Disabled
            });
        }
        let count = soft(device.max_mig_devices(), notes)?.unwrap_or(0);
        let mut instances = Vec::new();
        for index in 0..count {
            if let Some(Some(instance)) = soft(device.mig_device(index), notes)? {
                instances.extend(soft(self.instance(&instance, index, minor, notes), notes)?);
            }
        }
        Ok(if mode.pending {
            MigState::Enabled(instances)
        } else {
            MigState::PendingDisable(instances)
        })
    }

    fn instance(
        &mut self,
        device: &Device<'_>,
        index: u32,
        minor: Option<u32>,
        notes: &mut Vec<Note>,
    ) -> Result<MigInstance, Error> {
        let uuid = device.uuid()?;
        let gi = device.gpu_instance_id()?;
        let ci = device.compute_instance_id()?;
        let nvml_name = soft(device.name(), notes)?;
        let attributes = soft(device.attributes(), notes)?;
        let profile = nvml_name
            .as_deref()
            .and_then(type_name::profile_in_name)
            .or_else(|| {
                attributes.map(|made| type_name::profile_from(&made, MigNaming::DeviceName))
            })
            .unwrap_or_default();
        let minors = self.minors.get_or_insert_with(|| {
            MigMinors::read(self.proc)
                .map_err(|error| notes.push(mig_note(error.to_string())))
                .ok()
        });
        let find = |ci| minors.as_ref()?.get(minor?, gi, ci);
        let (gi_minor, ci_minor) = (find(None), find(Some(ci)));
        if minors.is_some() && minor.is_some() && (gi_minor.is_none() || ci_minor.is_none()) {
            notes.push(mig_note(format!(
                "has no capability devices of GPU instance {gi}, compute {ci}"
            )));
        }
        Ok(MigInstance {
            index,
            uuid,
            gpu_instance_id: gi,
            compute_instance_id: ci,
            profile,
            gi_minor,
            ci_minor,
            memory_mib: attributes.map(|made| made.memory_mib),
            nvml_name,
            attributes,
        })
    }
}

/// A failure that costs the GPU its place only when it has fallen off the bus.
fn soft<T>(result: Result<T, Error>, notes: &mut Vec<Note>) -> Result<Option<T>, Error> {
    match result {
        Err(error) if error.is_gpu_lost() => Err(error),
        other => Ok(or_note(other, notes)),
    }
}

fn or_note<T>(result: Result<T, Error>, notes: &mut Vec<Note>) -> Option<T> {
    result.map_err(|error| notes.push(note(&error))).ok()
}

fn mig_note(words: String) -> Note {
    Note {
        call: MigMinors::FILE,
        words,
    }
}

pub(crate) fn note(error: &Error) -> Note {
    Note {
        call: error.call(),
        words: error.words(),
    }
}

/// The fault of a GPU that an error amounts to.
pub(crate) fn fault(
    index: u32,
    error: &Error,
    pci: Option<PciAddress>,
    uuid: Option<String>,
) -> DeviceFault {
    let kind = match error {
        Error::Nvml { code, .. } => FaultKind::Nvml(*code),
        Error::MissingSymbol { .. } => FaultKind::MissingSymbol,
        Error::Load(_) | Error::Malformed { .. } => FaultKind::Malformed(error.words()),
    };
    DeviceFault {
        index,
        pci,
        uuid,
        call: error.call(),
        kind,
    }
}
