//! Jobs that have starved: lifted above all others, a few at a time.

use super::settings::Settings;

/// A pending job, as far as its wait is concerned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// Slurm's number of it.
    pub job: u32,
    /// The caller's number of its partition.
    pub partition: u32,
    /// How long it has waited, in seconds; 0 while it is held.
    pub wait_seconds: u32,
    /// GPUs.
    pub gpus: u32,
    /// Those of its partition.
    pub partition_gpus: u32,
}

/// The starved jobs of each partition that have waited longest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stars {
    /// (partition, wait, job), by partition, the longest wait first.
    chosen: Vec<(u32, u32, u32)>,
}

impl Stars {
    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self { chosen: Vec::new() }
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.chosen.clear();
    }

    /// Takes in a job: it is starved when it has waited `starve_after`, and the longer the more of its
    /// partition it wants; twice as long for all.
    pub fn offer(&mut self, waiting: &Waiting, settings: &Settings) {
        let wait = f64::from(waiting.wait_seconds);
        if wait <= settings.starve_after || settings.max_boosted == 0 {
            return;
        }
        let part = f64::from(waiting.gpus) / f64::from(waiting.partition_gpus.max(1));
        if wait <= settings.starve_after * (1.0 + part.min(1.0)) {
            return;
        }
        let key = |entry: &(u32, u32, u32)| (entry.0, u32::MAX.saturating_sub(entry.1), entry.2);
        let new = (waiting.partition, waiting.wait_seconds, waiting.job);
        let begin = self.chosen.partition_point(|entry| entry.0 < new.0);
        let end = self.chosen.partition_point(|entry| entry.0 <= new.0);
        let place = self.chosen.partition_point(|entry| key(entry) < key(&new));
        if place.saturating_sub(begin) >= settings.max_boosted {
            return;
        }
        if end.saturating_sub(begin) >= settings.max_boosted {
            self.chosen.remove(end.saturating_sub(1));
        }
        self.chosen.insert(place, new);
    }

    /// Whether a job is lifted.
    #[must_use]
    pub fn has(&self, waiting: &Waiting) -> bool {
        let of_partition = self
            .chosen
            .partition_point(|entry| entry.0 < waiting.partition);
        self.chosen
            .iter()
            .skip(of_partition)
            .take_while(|entry| entry.0 == waiting.partition)
            .any(|entry| entry.2 == waiting.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(job: u32, partition: u32, hours: u32, gpus: u32) -> Waiting {
        Waiting {
            job,
            partition,
            wait_seconds: hours * 3600 + 1,
            gpus,
            partition_gpus: 32,
        }
    }

    #[test]
    fn the_longest_wait_of_each_partition() {
        let settings = Settings::default();
        let mut stars = Stars::new();
        let all = [
            waiting(1, 1, 5, 0),
            waiting(2, 1, 7, 1),
            waiting(3, 1, 9, 1),
            waiting(4, 1, 8, 1),
            // All of the partition: 12 hours.
            waiting(5, 2, 11, 32),
            waiting(6, 3, 12, 32),
            waiting(7, 0, 6, 0),
        ];
        let chosen = |stars: &Stars| -> Vec<u32> {
            let has = all.iter().filter(|waiting| stars.has(waiting));
            has.map(|waiting| waiting.job).collect()
        };
        for waiting in &all {
            stars.offer(waiting, &settings);
        }
        assert_eq!(chosen(&stars), [3, 6, 7]);
        let two = Settings {
            max_boosted: 2,
            ..settings
        };
        stars.clear();
        for waiting in &all {
            stars.offer(waiting, &two);
        }
        assert_eq!(chosen(&stars), [3, 4, 6, 7]);
        let none = Settings {
            max_boosted: 0,
            ..settings
        };
        stars.clear();
        stars.offer(&all[2], &none);
        assert_eq!(chosen(&stars), [0; 0]);
    }
}
