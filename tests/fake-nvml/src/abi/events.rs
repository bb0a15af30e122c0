//! The event API: Xids, as the scenario tells of them.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::nvmlEventData_t;

use super::exports;
use super::handle::Handle;
use super::out::Out;
use crate::board::{Board, Gpu};
use crate::energy::micros;
use crate::live::{self, locked};
use crate::scenario::Xid;
use crate::status::Status;

const XID: c_ulonglong = 8;
const SUPPORTED: c_ulonglong = 0x1 | 0x2 | XID | 0x10;
const KIND: usize = 0x4e59_0000_0000;

/// An `nvmlEventSet_t`: a number, never an address.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct SetHandle(*mut c_void);

/// Xids already told, by board position of the registered devices.
type Registered = BTreeMap<usize, Vec<Xid>>;

static SETS: Mutex<(usize, BTreeMap<usize, Registered>)> = Mutex::new((0, BTreeMap::new()));

exports! {
    system [nvmlEventSetCreate] (_; set: Out<SetHandle>) => {
        let mut sets = locked(&SETS);
        sets.0 += 1;
        let number = KIND | sets.0;
        sets.1.insert(number, Registered::new());
        set.set(SetHandle(std::ptr::without_provenance_mut(number)))
    }

    system [nvmlEventSetFree] (_; set: SetHandle) => {
        let removed = locked(&SETS).1.remove(&set.0.addr());
        removed.map(|_| ()).ok_or(Status::INVALID_ARGUMENT)
    }

    device [nvmlDeviceGetSupportedEventTypes] (_; kinds: Out<c_ulonglong>) => {
        kinds.set(SUPPORTED)
    }

    device [nvmlDeviceRegisterEvents] (t; kinds: c_ulonglong, set: SetHandle) => {
        if kinds & !SUPPORTED != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let mut sets = locked(&SETS);
        let registered = sets.1.get_mut(&set.0.addr()).ok_or(Status::INVALID_ARGUMENT)?;
        if kinds & XID != 0 {
            // What has happened before is not told.
            let past = happened(t.gpu, t.now()).cloned().collect();
            registered.entry(t.position).or_insert(past);
        }
        Ok(())
    }

    system [nvmlEventSetWait_v2] (_; set: SetHandle, data: Out<nvmlEventData_t>, ms: c_uint) => {
        data.set(wait(set, ms)?)
    }

    // The first version's struct ends before the instance IDs.
    system [nvmlEventSetWait] (_; set: SetHandle, data: Out<OldEventData>, ms: c_uint) => {
        let event = wait(set, ms)?;
        data.set(OldEventData {
            device: event.device.cast(),
            kind: event.eventType,
            data: event.eventData,
        })
    }
}

/// The struct of the first `nvmlEventSetWait`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct OldEventData {
    device: *mut c_void,
    kind: c_ulonglong,
    data: c_ulonglong,
}

fn happened(gpu: &Gpu, now: i128) -> impl Iterator<Item = &Xid> {
    let all = gpu.xid.iter().flatten();
    all.filter(move |xid| xid.at_unix.is_none_or(|at| micros(at) <= now))
}

fn wait(set: SetHandle, milliseconds: c_uint) -> Result<nvmlEventData_t, Status> {
    let begun = Instant::now();
    let patience = Duration::from_millis(milliseconds.into());
    loop {
        // A Xid is told even of a device that is lost: that is what it is for.
        let board = live::board()?;
        if let Some(event) = next(set, &board)? {
            return Ok(event);
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Status::TIMEOUT);
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// The next Xid that this set has not told.
fn next(set: SetHandle, board: &Board) -> Result<Option<nvmlEventData_t>, Status> {
    let mut sets = locked(&SETS);
    let registered = sets
        .1
        .get_mut(&set.0.addr())
        .ok_or(Status::INVALID_ARGUMENT)?;
    let now = live::now(board);
    for gpu in &board.gpus {
        let Some(told) = registered.get_mut(&gpu.position) else {
            continue;
        };
        let all: Vec<&Xid> = happened(gpu, now).collect();
        // An entry taken out of the file may come again.
        told.retain(|xid| all.contains(&xid));
        let count = |list: &[&Xid], xid: &Xid| list.iter().filter(|other| **other == xid).count();
        let told_now: Vec<&Xid> = told.iter().collect();
        let fresh = all
            .iter()
            .find(|xid| count(&told_now, xid) < count(&all, xid));
        if let Some(xid) = fresh.map(|xid| (*xid).clone()) {
            let event = nvmlEventData_t {
                device: Handle::gpu(gpu).raw(),
                eventType: XID,
                eventData: xid.code,
                gpuInstanceId: xid.gi.unwrap_or(c_uint::MAX),
                computeInstanceId: xid.ci.unwrap_or(c_uint::MAX),
            };
            told.push(xid);
            return Ok(Some(event));
        }
    }
    Ok(None)
}
