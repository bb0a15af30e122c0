//! ECC, retired pages, remapped rows, repairs.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlEccErrorCounts_t, nvmlEccSramErrorStatus_t, nvmlEnableState_t, nvmlRepairStatus_t,
    nvmlRowRemapperHistogramValues_t,
};

use super::entry::Target;
use super::exports;
use super::out::{Out, Supported as _, list};
use crate::scenario::{EccSites, RemappedRows};
use crate::status::Status;

pub(super) const CORRECTED: c_uint = 0;
pub(super) const UNCORRECTED: c_uint = 1;
pub(super) const VOLATILE: c_uint = 0;
pub(super) const AGGREGATE: c_uint = 1;

exports! {
    any [nvmlDeviceGetEccMode]
        (t; current: Out<nvmlEnableState_t>, pending: Out<nvmlEnableState_t>) => {
        let (now, later) = modes(t)?;
        current.set(now.into())?;
        pending.set(later.into())
    }

    any [nvmlDeviceGetDefaultEccMode] (t; mode: Out<nvmlEnableState_t>) => {
        t.ecc_mode.supported()?;
        mode.set(1)
    }

    any [nvmlDeviceGetTotalEccErrors]
        (t; outcome: c_uint, counter: c_uint, count: Out<c_ulonglong>) => {
        count.set(sites(t, outcome, counter)?.total())
    }

    any [nvmlDeviceGetDetailedEccErrors]
        (t; outcome: c_uint, counter: c_uint, counts: Out<nvmlEccErrorCounts_t>) => {
        let sites = sites(t, outcome, counter)?;
        counts.set(nvmlEccErrorCounts_t {
            l1Cache: sites.l1_cache,
            l2Cache: sites.l2_cache,
            deviceMemory: sites.device_memory,
            registerFile: sites.register_file,
        })
    }

    any [nvmlDeviceGetMemoryErrorCounter]
        (t; outcome: c_uint, counter: c_uint, place: c_uint, count: Out<c_ulonglong>) => {
        let sites = sites(t, outcome, counter)?;
        count.set(match place {
            0 => sites.l1_cache,
            1 => sites.l2_cache,
            2 => sites.device_memory,
            3 => sites.register_file,
            4 | 5 => sites.texture_memory,
            6 => sites.cbu,
            7 => sites.sram,
            _ => return Err(Status::INVALID_ARGUMENT),
        })
    }

    device [nvmlDeviceClearEccErrorCounts] (t; counter: c_uint) => {
        t.ecc.as_ref().supported()?;
        match counter {
            VOLATILE => t.change(|settings| settings.volatile_ecc_cleared = Some(true)),
            // The life-long counters stay on every product since Volta.
            AGGREGATE => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_ARGUMENT),
        }
    }

    device [nvmlDeviceGetSramEccErrorStatus] (t; status: Out<nvmlEccSramErrorStatus_t>) => {
        let mut value = status.versioned(1)?;
        let before = sites(t, UNCORRECTED, AGGREGATE)?;
        let now = sites(t, UNCORRECTED, VOLATILE)?;
        value.aggregateUncParity = 0;
        value.aggregateUncSecDed = before.sram;
        value.aggregateCor = sites(t, CORRECTED, AGGREGATE)?.sram;
        value.volatileUncParity = 0;
        value.volatileUncSecDed = now.sram;
        value.volatileCor = sites(t, CORRECTED, VOLATILE)?.sram;
        value.aggregateUncBucketL2 = before.l2_cache;
        value.aggregateUncBucketSm = before.l1_cache + before.register_file;
        value.aggregateUncBucketPcie = 0;
        value.aggregateUncBucketMcu = 0;
        value.aggregateUncBucketOther = before.sram;
        value.bThresholdExceeded = t.sram_threshold_exceeded.unwrap_or(false).into();
        status.set(value)
    }

    device [nvmlDeviceGetRetiredPages]
        (t; cause: c_uint, count: Out<c_uint>, pages: Out<c_ulonglong>) => {
        list(count, pages, retired(t, cause)?)
    }

    device [nvmlDeviceGetRetiredPages_v2]
        (t; cause: c_uint, count: Out<c_uint>, pages: Out<c_ulonglong>, times: Out<c_ulonglong>)
        => {
        let found = retired(t, cause)?;
        list(count, pages, found)?;
        if times.is_null() { Ok(()) } else { times.fill(&vec![0; found.len()]) }
    }

    device [nvmlDeviceGetRetiredPagesPendingStatus] (t; pending: Out<nvmlEnableState_t>) => {
        pending.set(t.retired_pages_pending.supported()?.into())
    }

    device [nvmlDeviceGetRemappedRows]
        (t; corrected: Out<c_uint>, uncorrected: Out<c_uint>, pending: Out<c_uint>,
            failed: Out<c_uint>) => {
        let rows = rows(t)?;
        corrected.set(rows.corrected)?;
        uncorrected.set(rows.uncorrected)?;
        pending.set(rows.pending.into())?;
        failed.set(rows.failed.into())
    }

    device [nvmlDeviceGetRowRemapperHistogram]
        (t; values: Out<nvmlRowRemapperHistogramValues_t>) => {
        let banks = t.row_histogram.as_ref().supported()?;
        values.set(nvmlRowRemapperHistogramValues_t {
            max: banks.max,
            high: banks.high,
            partial: banks.partial,
            low: banks.low,
            none: banks.none,
        })
    }

    device [nvmlDeviceGetRepairStatus] (t; status: Out<nvmlRepairStatus_t>) => {
        let mut value = status.versioned(1)?;
        value.bChannelRepairPending = t.channel_repair_pending.supported()?.into();
        value.bTpcRepairPending = t.tpc_repair_pending.supported()?.into();
        status.set(value)
    }
}

/// ECC mode now and after the next reset.
pub(super) fn modes(t: &Target<'_>) -> Result<(bool, bool), Status> {
    let now = t.ecc_mode.supported()?;
    Ok((
        now,
        t.settings().ecc_pending.or(t.ecc_pending).unwrap_or(now),
    ))
}

/// The counters of an outcome and a life time. None are kept while ECC is off.
pub(super) fn sites(t: &Target<'_>, outcome: c_uint, counter: c_uint) -> Result<EccSites, Status> {
    let ecc = t.ecc.as_ref().supported()?;
    if !t.ecc_mode.supported()? {
        return Err(Status::NOT_SUPPORTED);
    }
    let counts = match counter {
        VOLATILE if t.settings().volatile_ecc_cleared == Some(true) => {
            return Ok(EccSites::default());
        }
        VOLATILE => &ecc.since_load,
        AGGREGATE => &ecc.aggregate,
        _ => return Err(Status::INVALID_ARGUMENT),
    };
    match outcome {
        CORRECTED => Ok(counts.corrected.clone()),
        UNCORRECTED => Ok(counts.uncorrected.clone()),
        _ => Err(Status::INVALID_ARGUMENT),
    }
}

/// Addresses of pages retired for a cause.
pub(super) fn retired<'a>(t: &'a Target<'_>, cause: c_uint) -> Result<&'a [u64], Status> {
    match cause {
        0 => t.retired_pages_single.as_deref().supported(),
        1 => t.retired_pages_double.as_deref().supported(),
        _ => Err(Status::INVALID_ARGUMENT),
    }
}

pub(super) fn rows<'a>(t: &'a Target<'_>) -> Result<&'a RemappedRows, Status> {
    t.gpu.remapped_rows.as_ref().supported()
}
