//! Slurm's record of energy, as slurmd fills it per GPU and slurmstepd reads it.

use std::time::{SystemTime, UNIX_EPOCH};

use gres_gpu_core::energy::{Reading, Sensor, Used};
use slurm_headers::internal::acct_gather_energy_t;

/// Slurm's NO_VAL (`slurm/slurm.h`): in the place of a power, that there is no reading.
const NO_VAL: u32 = 0xffff_fffe;

/// One sensor on its way from slurmd to slurmstepd. Which GPU it is goes in `base_consumed_energy`, which
/// means nothing for a counter.
pub(crate) fn of_sensor(sensor: Sensor) -> acct_gather_energy_t {
    let mut record = acct_gather_energy_t {
        base_consumed_energy: sensor.gpu,
        poll_time: now(),
        ..Default::default()
    };
    match sensor.reading {
        Some(reading) => {
            record.consumed_energy = reading.counter_joules;
            record.current_watts = reading.power_watts;
            record.ave_watts = reading.power_watts;
        }
        None => record.current_watts = NO_VAL,
    }
    record
}

/// The sensor back from the record.
pub(crate) fn to_sensor(record: &acct_gather_energy_t) -> Sensor {
    Sensor {
        gpu: record.base_consumed_energy,
        reading: (record.current_watts != NO_VAL).then_some(Reading {
            counter_joules: record.consumed_energy,
            power_watts: record.current_watts,
        }),
    }
}

/// What a node or step has used, as Slurm wants it; `before` is what the record said last.
#[allow(clippy::needless_update)] // 22.05's record has no further fields
pub(crate) fn of_used(used: Used, before: Used, since_seconds: u64) -> acct_gather_energy_t {
    let mean = used
        .joules
        .checked_div(since_seconds)
        .and_then(|watts| u32::try_from(watts).ok());
    acct_gather_energy_t {
        ave_watts: mean.unwrap_or(used.watts),
        base_consumed_energy: used.joules.saturating_sub(before.joules),
        consumed_energy: used.joules,
        current_watts: used.watts,
        previous_consumed_energy: before.joules,
        poll_time: now(),
        ..Default::default()
    }
}

pub(crate) fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or(0)
}
