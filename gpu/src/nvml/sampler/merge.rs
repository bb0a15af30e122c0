//! The processes of one GPU, from NVML's lists.

use super::sample::ProcessUsage;
use crate::nvml::session::{ProcessMemory, ProcessUtilization};

/// One entry per process and MIG device. A process that computes and draws is in both lists with
/// the same memory, which counts once.
pub(super) fn merge_memory(
    compute: &[ProcessMemory],
    graphics: &[ProcessMemory],
) -> Vec<ProcessUsage> {
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
pub(super) fn add_utilization(processes: &mut Vec<ProcessUsage>, samples: &[ProcessUtilization]) {
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
}
