//! What jobs had in their earlier runs: Slurm forgets it when it requeues a job.

use std::collections::BTreeMap;

/// The most jobs that are remembered.
const MOST: usize = 65_536;

/// GPU-seconds by job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attained {
    jobs: BTreeMap<u32, f64>,
}

impl Attained {
    /// Nobody had anything.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            jobs: BTreeMap::new(),
        }
    }

    /// A run of a job is over. When there are too many jobs, the lowest number, the oldest, is forgotten.
    pub fn add(&mut self, job: u32, gpu_seconds: f64) {
        if gpu_seconds.is_nan() || gpu_seconds <= 0.0 {
            return;
        }
        let sum = self.jobs.entry(job).or_insert(0.0);
        *sum = (*sum + gpu_seconds).min(f64::MAX);
        if self.jobs.len() > MOST {
            self.jobs.pop_first();
        }
    }

    /// What a job had so far.
    #[must_use]
    pub fn of(&self, job: u32) -> f64 {
        self.jobs.get(&job).copied().unwrap_or(0.0)
    }

    /// A job is done.
    pub fn forget(&mut self, job: u32) {
        self.jobs.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_and_old_jobs_are_forgotten() {
        let mut attained = Attained::new();
        attained.add(7, 100.0);
        attained.add(7, 20.0);
        attained.add(7, f64::NAN);
        attained.add(8, -3.0);
        assert_eq!((attained.of(7), attained.of(8)), (120.0, 0.0));
        for job in 100..100 + 65_536 {
            attained.add(job, 1.0);
        }
        assert_eq!((attained.of(7), attained.of(100)), (0.0, 1.0));
        attained.forget(100);
        assert_eq!(attained.of(100), 0.0);
    }
}
