//! Around every call: no panic crosses, NVML is initialised, the scenario is fresh, the call is
//! counted, takes its time and fails if the scenario says so.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::handle::Handle;
use super::out::Answer;
use crate::board::{Board, Gpu, Mig};
use crate::calls;
use crate::live::{self, locked};
use crate::scenario::{Fault, FaultMode, unversioned};
use crate::state::{self, Settings};
use crate::status::Status;

/// How many `nvmlInit` have no `nvmlShutdown` yet.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// Matching calls so far of each fault of a list.
static STRUCK: Mutex<(Vec<Fault>, Vec<u64>)> = Mutex::new((Vec::new(), Vec::new()));

/// What a call is about. Dereferences to the device's keys.
pub(super) struct Target<'a> {
    pub(super) board: &'a Board,
    pub(super) gpu: &'a Gpu,
    /// NVML's index.
    pub(super) index: usize,
    /// The MIG device, if the handle is one's.
    pub(super) mig: Option<&'a Mig>,
}

impl Deref for Target<'_> {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        self.gpu
    }
}

impl Target<'_> {
    pub(super) fn settings(&self) -> Settings {
        state::settings(self.board, self.gpu)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Settings)) -> Answer {
        state::change(self.board, self.gpu, change)
    }

    /// Whether the device is cut up.
    pub(super) fn mig_enabled(&self) -> bool {
        self.gpu.mig_enabled.unwrap_or(!self.gpu.mig.is_empty())
    }

    /// The fake's clock, in µs since 1970.
    pub(super) fn now(&self) -> i128 {
        live::now(self.board)
    }
}

/// A call that is about no device.
pub(super) fn system(call: &str, body: impl FnOnce(&Board) -> Answer) -> nvmlReturn_t {
    guarded(|| {
        let board = ready()?;
        before(&board, call, None)?;
        body(&board)
    })
}

/// A call about a device or a MIG device.
pub(super) fn any(
    call: &str,
    handle: Handle,
    body: impl FnOnce(&Target<'_>) -> Answer,
) -> nvmlReturn_t {
    guarded(|| {
        let board = ready()?;
        before(&board, call, handle.position())?;
        body(&handle.target(&board)?)
    })
}

/// A call about a whole device; MIG devices do not have it.
pub(super) fn device(
    call: &str,
    handle: Handle,
    body: impl FnOnce(&Target<'_>) -> Answer,
) -> nvmlReturn_t {
    any(call, handle, |target| match target.mig {
        Some(_) => Err(Status::NOT_SUPPORTED),
        None => body(target),
    })
}

/// A call about a GPU or compute instance.
pub(super) fn instance(
    call: &str,
    handle: Handle,
    body: impl FnOnce((&Board, Handle)) -> Answer,
) -> nvmlReturn_t {
    guarded(|| {
        let board = ready()?;
        before(&board, call, handle.position())?;
        body((&board, handle))
    })
}

/// `nvmlInit` in all its forms.
pub(super) fn init(call: &str) -> nvmlReturn_t {
    guarded(|| {
        let board = live::board_for_init()?;
        pass(Duration::from_micros(
            board.scenario.init_latency_us.unwrap_or(0),
        ));
        before(&board, call, None)?;
        if let Some(error) = board.scenario.init_error {
            return Err(error);
        }
        USERS.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

/// `nvmlShutdown`.
pub(super) fn shutdown(call: &str) -> nvmlReturn_t {
    guarded(|| {
        let board = ready()?;
        before(&board, call, None)?;
        let left = USERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map(|_| ()).map_err(|_| Status::UNINITIALIZED)
    })
}

fn guarded(body: impl FnOnce() -> Answer) -> nvmlReturn_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::SUCCESS.0,
        Ok(Err(status)) => status.0,
        Err(_) => Status::UNKNOWN.0,
    }
}

fn ready() -> Result<std::sync::Arc<Board>, Status> {
    if USERS.load(Ordering::SeqCst) == 0 {
        return Err(Status::UNINITIALIZED);
    }
    live::board()
}

/// Counts the call, lets its time pass and strikes.
fn before(board: &Board, call: &str, position: Option<usize>) -> Answer {
    let scenario = &board.scenario;
    if let Some(path) = &scenario.count_calls {
        calls::append(path, call, position, &live::comm());
    }
    let own = scenario
        .latency
        .get(call)
        .or_else(|| scenario.latency.get(unversioned(call)));
    let general = if call.starts_with("nvmlInit") {
        None
    } else {
        scenario.latency_us
    };
    pass(Duration::from_micros(own.copied().or(general).unwrap_or(0)));
    let Some(number) = fault(&scenario.fault, call, position) else {
        return Ok(());
    };
    let fault = &scenario.fault[number];
    match fault.mode {
        FaultMode::Error => Err(fault.error.unwrap_or(Status::UNKNOWN)),
        FaultMode::Abort => std::process::abort(),
        FaultMode::Hang => {
            hang(fault);
            Ok(())
        }
    }
}

/// The first fault that strikes this call.
fn fault(faults: &[Fault], call: &str, position: Option<usize>) -> Option<usize> {
    if faults.is_empty() {
        return None;
    }
    let comm = live::comm();
    let mut struck = locked(&STRUCK);
    if struck.0 != faults {
        *struck = (faults.to_vec(), vec![0; faults.len()]);
    }
    for (number, fault) in faults.iter().enumerate() {
        if fault.concerns(call, position, &comm) {
            let earlier = struck.1[number];
            struck.1[number] += 1;
            let first = fault.after.unwrap_or(0);
            let times = fault.times.unwrap_or(u64::MAX);
            if earlier >= first && earlier - first < times {
                return Some(number);
            }
        }
    }
    None
}

/// Waits until the fault's time is over or the scenario has it no more.
fn hang(fault: &Fault) {
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        if fault
            .seconds
            .is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds)
        {
            return;
        }
        if live::board().is_ok_and(|board| !board.scenario.fault.contains(fault)) {
            return;
        }
    }
}

/// Lets time pass. A short sleep oversleeps by much of its length, so short times are spun.
fn pass(time: Duration) {
    if time >= Duration::from_millis(1) {
        std::thread::sleep(time);
    } else if !time.is_zero() {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}
