//! How busy a device is.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlEncoderSessionInfo_t, nvmlFBCSessionInfo_t, nvmlFBCStats_t, nvmlGpuDynamicPstatesInfo_t,
    nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
    nvmlProcessesUtilizationInfo_v1_t, nvmlSample_t, nvmlUtilization_t, nvmlValue_t,
};

use super::entry::Target;
use super::exports;
use super::out::{Answer, Out, Supported as _, count_of, list};
use super::processes::running;
use crate::status::Status;

/// How long a utilisation figure looks back, in µs.
const PERIOD_US: c_uint = 167_000;

/// Room of the driver's ring of process samples.
const RING: usize = 100;

/// Samples of the ring that `nvmlDeviceGetSamples` reads, and their distance in µs.
const SAMPLES: i128 = 100;
const SAMPLE_US: i128 = 100_000;

exports! {
    device [nvmlDeviceGetUtilizationRates] (t; utilization: Out<nvmlUtilization_t>) => {
        whole(t)?;
        let (gpu, memory) = rates(t);
        utilization.set(nvmlUtilization_t { gpu, memory })
    }

    device [nvmlDeviceGetEncoderUtilization] (t; share: Out<c_uint>, period: Out<c_uint>) => {
        engine(t, t.encoder_util, share, period)
    }

    device [nvmlDeviceGetDecoderUtilization] (t; share: Out<c_uint>, period: Out<c_uint>) => {
        engine(t, t.decoder_util, share, period)
    }

    device [nvmlDeviceGetJpgUtilization] (t; share: Out<c_uint>, period: Out<c_uint>) => {
        engine(t, t.jpeg_util, share, period)
    }

    device [nvmlDeviceGetOfaUtilization] (t; share: Out<c_uint>, period: Out<c_uint>) => {
        engine(t, t.ofa_util, share, period)
    }

    device [nvmlDeviceGetEncoderCapacity] (_; _kind: c_uint, capacity: Out<c_uint>) => {
        capacity.set(100)
    }

    device [nvmlDeviceGetEncoderStats]
        (_; sessions: Out<c_uint>, fps: Out<c_uint>, latency: Out<c_uint>) => {
        sessions.set(0)?;
        fps.set(0)?;
        latency.set(0)
    }

    device [nvmlDeviceGetEncoderSessions]
        (_; count: Out<c_uint>, sessions: Out<nvmlEncoderSessionInfo_t>) => {
        list(count, sessions, &[])
    }

    device [nvmlDeviceGetFBCStats] (_; stats: Out<nvmlFBCStats_t>) => {
        stats.set(nvmlFBCStats_t { sessionsCount: 0, averageFPS: 0, averageLatency: 0 })
    }

    device [nvmlDeviceGetFBCSessions]
        (_; count: Out<c_uint>, sessions: Out<nvmlFBCSessionInfo_t>) => {
        list(count, sessions, &[])
    }

    device [nvmlDeviceGetProcessUtilization]
        (t; samples: Out<nvmlProcessUtilizationSample_t>, count: Out<c_uint>, since: c_ulonglong)
        => {
        whole(t)?;
        let all = process_samples(t);
        if samples.is_null() {
            // How many there can be, not how many there are.
            count.set(count_of(all.len().max(RING)))?;
            return Err(Status::INSUFFICIENT_SIZE);
        }
        let new: Vec<_> = all.into_iter().filter(|sample| sample.timeStamp > since).map(|sample| {
            nvmlProcessUtilizationSample_t {
                pid: sample.pid,
                timeStamp: sample.timeStamp,
                smUtil: sample.smUtil,
                memUtil: sample.memUtil,
                encUtil: sample.encUtil,
                decUtil: sample.decUtil,
            }
        }).collect();
        if new.is_empty() {
            count.set(0)?;
            return Err(Status::NOT_FOUND);
        }
        list(count, samples, &new)
    }

    device [nvmlDeviceGetProcessesUtilizationInfo]
        (t; info: Out<nvmlProcessesUtilizationInfo_v1_t>) => {
        whole(t)?;
        let mut asked = info.versioned(1)?;
        let all = process_samples(t);
        let room = asked.processSamplesCount as usize;
        let array = Out::pointing_at(asked.procUtilArray);
        let new: Vec<_> = match array.is_null() {
            true => all,
            false => {
                all.into_iter().filter(|one| one.timeStamp > asked.lastSeenTimeStamp).collect()
            }
        };
        asked.processSamplesCount = count_of(new.len());
        if let Some(last) = new.iter().map(|one| one.timeStamp).max() {
            asked.lastSeenTimeStamp = last;
        }
        if new.is_empty() {
            info.set(asked)?;
            return Err(Status::NOT_FOUND);
        }
        if array.is_null() || room < new.len() {
            asked.lastSeenTimeStamp = info.get()?.lastSeenTimeStamp;
            info.set(asked)?;
            return Err(Status::INSUFFICIENT_SIZE);
        }
        info.set(asked)?;
        array.fill(&new)
    }

    device [nvmlDeviceGetSamples]
        (t; kind: c_uint, since: c_ulonglong, value_kind: Out<c_uint>, count: Out<c_uint>,
            samples: Out<nvmlSample_t>) => {
        let (gpu, memory) = rates(t);
        let fixed = match kind {
            0 => None,
            1 | 2 if t.mig_enabled() => return Err(Status::NOT_SUPPORTED),
            1 => Some(gpu),
            2 => Some(memory),
            3 => Some(t.encoder_util.supported()?),
            4 => Some(t.decoder_util.supported()?),
            5 => Some(t.graphics_mhz.supported()?),
            6 => Some(t.mem_mhz.supported()?),
            8 => Some(t.jpeg_util.supported()?),
            9 => Some(t.ofa_util.supported()?),
            _ => return Err(Status::NOT_SUPPORTED),
        };
        let power = t.power.as_ref();
        if fixed.is_none() {
            power.supported()?;
        }
        let newest = t.now() / SAMPLE_US;
        let moments = (newest - SAMPLES + 1..=newest).map(|number| number * SAMPLE_US);
        let new: Vec<nvmlSample_t> = moments
            .filter(|moment| *moment > i128::from(since))
            .map(|moment| nvmlSample_t {
                timeStamp: u64::try_from(moment).unwrap_or(0),
                sampleValue: nvmlValue_t {
                    ullVal: fixed
                        .or_else(|| power.map(|power| power.milliwatts_at(moment)))
                        .unwrap_or(0)
                        .into(),
                },
            })
            .collect();
        // An unsigned int; in the union's first half on a little-endian machine.
        value_kind.set(1)?;
        if samples.is_null() {
            return count.set(count_of(new.len()));
        }
        let room = count.get()? as usize;
        if new.is_empty() {
            count.set(0)?;
            return Err(Status::NOT_FOUND);
        }
        let kept = new.get(new.len().saturating_sub(room)..).unwrap_or_default();
        count.set(count_of(kept.len()))?;
        samples.fill(kept)
    }

    device [nvmlDeviceGetDynamicPstatesInfo] (t; info: Out<nvmlGpuDynamicPstatesInfo_t>) => {
        whole(t)?;
        let mut value = info.get()?;
        let (gpu, memory) = rates(t);
        value.flags = 1;
        let known = [Some(gpu), Some(memory), t.encoder_util, Some(0)];
        for (number, place) in value.utilization.iter_mut().enumerate() {
            let share = known.get(number).copied().flatten();
            place.bIsPresent = share.is_some().into();
            place.percentage = share.unwrap_or(0);
            place.incThreshold = 0;
            place.decThreshold = 0;
        }
        info.set(value)
    }
}

/// A cut device has no utilisation as a whole.
fn whole(t: &Target<'_>) -> Answer {
    if t.mig_enabled() {
        Err(Status::NOT_SUPPORTED)
    } else {
        Ok(())
    }
}

/// GPU and memory utilisation, in percent.
pub(super) fn rates(t: &Target<'_>) -> (c_uint, c_uint) {
    if let (Some(gpu), Some(memory)) = (t.gpu_util, t.memory_util) {
        return (gpu, memory);
    }
    let all = running(t);
    let gpu: c_uint = all.iter().map(|one| one.process.sm_util).sum();
    let memory: c_uint = all.iter().map(|one| one.process.mem_util).sum();
    (
        t.gpu_util.unwrap_or(gpu.min(100)),
        t.memory_util.unwrap_or(memory.min(100)),
    )
}

fn engine(t: &Target<'_>, share: Option<u32>, place: Out<c_uint>, period: Out<c_uint>) -> Answer {
    whole(t)?;
    place.set(share.supported()?)?;
    period.set(PERIOD_US)
}

/// The newest sample of each busy process; all were taken at the same moment.
fn process_samples(t: &Target<'_>) -> Vec<nvmlProcessUtilizationInfo_v1_t> {
    let period = t
        .board
        .scenario
        .utilization_period_ms
        .unwrap_or(1000)
        .max(1);
    let period = i128::from(period) * 1000;
    let taken = u64::try_from(t.now() / period * period).unwrap_or(0);
    let busy = running(t).into_iter().filter(|one| {
        let process = one.process;
        process.sm_util + process.mem_util + process.enc_util + process.dec_util > 0
    });
    busy.map(|one| nvmlProcessUtilizationInfo_v1_t {
        timeStamp: taken,
        pid: one.pid,
        smUtil: one.process.sm_util,
        memUtil: one.process.mem_util,
        encUtil: one.process.enc_util,
        decUtil: one.process.dec_util,
        jpgUtil: 0,
        ofaUtil: 0,
    })
    .collect()
}
