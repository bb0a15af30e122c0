//! How much may be lost in an hour.

/// Minutes of the hour.
const MINUTES: usize = 60;

/// What was lost in the last hour, minute by minute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    lost: [u64; MINUTES],
    /// The last minute that anything was asked for.
    minute: i64,
    /// Whom it refused first since it last had room.
    refused: Option<u32>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            lost: [0; MINUTES],
            minute: i64::MIN,
            refused: None,
        }
    }
}

impl Budget {
    /// Nothing lost yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets what is more than an hour ago. A clock that went back by less than that changes nothing.
    fn turn(&mut self, now: i64) {
        let minute = now.div_euclid(60);
        let gone = minute.saturating_sub(self.minute);
        if gone.unsigned_abs() >= 60 {
            self.lost = [0; MINUTES];
        } else if gone <= 0 {
            return;
        } else {
            for passed in 0..gone {
                let passed = minute.saturating_sub(passed);
                if let Some(slot) = self.slot(passed) {
                    *slot = 0;
                }
            }
        }
        self.minute = minute;
    }

    fn slot(&mut self, minute: i64) -> Option<&mut u64> {
        let place = usize::try_from(minute.rem_euclid(60)).ok()?;
        self.lost.get_mut(place)
    }

    /// What was lost in the last hour, in thousandths of a GPU-second.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
            .iter()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Whether `cost` may be lost now as well, of at most `most` in an hour; 0: no bound. An hour in which
    /// nothing was lost takes one plan of any cost: else a job could wait for ever.
    pub fn allows(&mut self, cost: u64, most: u64, now: i64) -> bool {
        self.turn(now);
        let lost = self.lost();
        most == 0 || cost == 0 || lost == 0 || lost.saturating_add(cost) <= most
    }

    /// Writes a plan's cost down. There is room.
    pub fn spend(&mut self, cost: u64, now: i64) {
        self.turn(now);
        self.refused = None;
        let minute = self.minute;
        if let Some(slot) = self.slot(minute) {
            *slot = slot.saturating_add(cost);
        }
    }

    /// What was written down and is not lost after all; the youngest goes first.
    pub fn refund(&mut self, cost: u64) {
        let mut left = cost;
        for passed in 0..60_i64 {
            let minute = self.minute.saturating_sub(passed);
            if let Some(slot) = self.slot(minute) {
                let back = left.min(*slot);
                *slot = slot.saturating_sub(back);
                left = left.saturating_sub(back);
            }
        }
    }

    /// Writes down that a preemptor was refused; whether it is the first one since there was room.
    pub fn refuse(&mut self, job: u32) -> bool {
        let is_first = self.refused.is_none_or(|first| first == job);
        self.refused.get_or_insert(job);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_so_much_and_no_more() {
        let mut budget = Budget::new();
        // Ten a minute, of at most 50 an hour.
        for minute in 0..60_i64 {
            let now = 600_000 + minute * 60;
            if budget.allows(10, 50, now) {
                budget.spend(10, now);
            }
        }
        assert_eq!(budget.lost(), 50);
        // The first ten are an hour ago.
        assert!(!budget.allows(10, 50, 600_000 + 3599));
        assert!(budget.allows(10, 50, 600_000 + 3600));
        assert!(!budget.allows(11, 50, 600_000 + 3600));
        assert!(budget.allows(u64::MAX, 0, 600_000 + 3600));
        assert!(budget.allows(0, 1, 600_000 + 3600));
    }

    #[test]
    fn a_dear_plan_goes_into_an_empty_hour() {
        let mut budget = Budget::new();
        assert!(budget.allows(900, 50, 0));
        budget.spend(900, 0);
        assert!(!budget.allows(1, 50, 3599));
        assert!(budget.allows(900, 50, 3600));
    }

    #[test]
    fn what_is_not_lost_comes_back() {
        let mut budget = Budget::new();
        budget.spend(10, 0);
        budget.spend(5, 60);
        budget.refund(8);
        assert_eq!(budget.lost(), 7);
        // Of the first minute 7 are left.
        assert!(!budget.allows(1, 7, 3540));
        assert!(budget.allows(7, 7, 3600));
        budget.refund(100);
        assert_eq!(budget.lost(), 0);
    }

    #[test]
    fn the_clock_may_jump() {
        let mut budget = Budget::new();
        budget.spend(10, 1_000_000);
        assert!(!budget.allows(1, 10, 1_000_000 - 1800));
        assert!(budget.allows(1, 10, 1_000_000 - 7200));
        budget.spend(10, 1_000_000 - 7200);
        assert!(!budget.allows(1, 10, 1_000_000 - 7200));
        assert!(budget.allows(1, 10, i64::MAX));
        assert!(budget.allows(1, 10, i64::MIN));
    }

    #[test]
    fn the_first_that_is_refused_is_known() {
        let mut budget = Budget::new();
        assert!(budget.refuse(7) && !budget.refuse(8) && budget.refuse(7));
        budget.spend(1, 0);
        assert!(budget.refuse(8));
    }
}
