//! What preemptors count on: others leave it to them.

use super::Amount;

/// The most preemptors that claim.
pub(crate) const MOST_CLAIMS: usize = 1024;
/// The most nodes that one claims.
const MOST_NODES: usize = 4096;

/// What a preemptor counts on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// Who.
    pub job: u32,
    /// Its priority.
    pub priority: u64,
    /// The kind of GPU.
    pub kind: Option<u16>,
    /// Node by node.
    pub nodes: Vec<(u32, Amount)>,
}

/// All claims.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Claims {
    /// By job.
    claims: Vec<Claim>,
}

impl Claims {
    /// No claims.
    #[must_use]
    pub const fn new() -> Self {
        Self { claims: Vec::new() }
    }

    /// Takes in a claim instead of the job's last; `false` when there is no room.
    pub fn put(&mut self, claim: Claim) -> bool {
        let place = self.claims.binary_search_by_key(&claim.job, |c| c.job);
        if claim.nodes.len() > MOST_NODES || (place.is_err() && self.claims.len() >= MOST_CLAIMS) {
            return false;
        }
        match place {
            Ok(place) => {
                if let Some(slot) = self.claims.get_mut(place) {
                    *slot = claim;
                }
            }
            Err(place) => self.claims.insert(place, claim),
        }
        true
    }

    /// Forgets a job's claim.
    pub fn release(&mut self, job: u32) {
        if let Ok(place) = self.claims.binary_search_by_key(&job, |claim| claim.job) {
            self.claims.remove(place);
        }
    }

    /// Forgets the claims of jobs that are not to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.claims.retain(|claim| keep(claim.job));
    }

    /// The claim of a job.
    #[must_use]
    pub fn of(&self, job: u32) -> Option<&Claim> {
        let place = self.claims.binary_search_by_key(&job, |claim| claim.job);
        self.claims.get(place.ok()?)
    }

    /// The others' claims that a preemptor has to leave alone: those of jobs of at least its priority.
    pub(crate) fn against(&self, job: u32, priority: u64) -> impl Iterator<Item = &Claim> {
        self.claims
            .iter()
            .filter(move |claim| claim.job != job && claim.priority >= priority)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(job: u32, priority: u64) -> Claim {
        Claim {
            job,
            priority,
            ..Claim::default()
        }
    }

    #[test]
    fn one_for_each_job_and_not_without_end() {
        let mut claims = Claims::new();
        assert!(claims.put(claim(5, 1)) && claims.put(claim(3, 2)) && claims.put(claim(5, 9)));
        assert_eq!(claims.len(), 2);
        assert_eq!(claims.of(5), Some(&claim(5, 9)));
        let against = |job, priority| -> Vec<u32> {
            claims
                .against(job, priority)
                .map(|claim| claim.job)
                .collect()
        };
        assert_eq!(against(5, 0), [3]);
        assert_eq!(against(4, 2), [3, 5]);
        assert_eq!(against(4, 3), [5]);
        claims.release(3);
        claims.release(4);
        assert_eq!(claims.of(3), None);
        for job in 0..2000 {
            claims.put(claim(job, 0));
        }
        assert_eq!(claims.len(), MOST_CLAIMS);
        // A known job may still change its claim.
        assert!(claims.put(claim(5, 0)) && !claims.put(claim(5000, 0)));
        let mut long = claim(5, 0);
        long.nodes = vec![(0, Amount::NONE); MOST_NODES + 1];
        assert!(!claims.put(long));
        claims.retain(|job| job == 7);
        assert_eq!(claims.len(), 1);
    }
}
