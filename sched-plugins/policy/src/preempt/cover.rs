//! The cheapest jobs on one node that make room for a request.

use super::Amount;
use super::loss::{CLASSES, Loss, Price};
use super::state::{Share, at};

/// More jobs on a node than are searched in full.
const MOST_SEARCHED: usize = 64;
/// How many sets of a node's jobs are looked at before the best so far is taken.
const MOST_STEPS: u32 = 1000;

/// What becomes of a job in a plan.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It stays, whatever happens.
    #[default]
    Stays,
    /// It may be pushed out.
    Candidate,
    /// It counts as gone: it ends by itself, or another's plan or this one has it.
    Gone,
}

/// One job that may go, and what that gives.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    job: u32,
    gives: Amount,
    price: Price,
}

impl Candidate {
    /// Cheap ones first.
    fn key(&self) -> (u8, u64, u64) {
        let below = u8::MAX.saturating_sub(self.price.place);
        (below, self.price.cost, self.price.run)
    }
}

/// Of which resources a node has too little, jobs pushed out or not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Lack {
    pub(crate) gpus: bool,
    pub(crate) cores: bool,
    pub(crate) memory: bool,
}

/// The search, with the memory that it uses again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    candidates: Vec<Candidate>,
    /// What the candidates from here on give together.
    rest: Vec<Amount>,
    /// What they have to give.
    deficit: Amount,
    best: Option<Loss>,
    /// The best set.
    pub(crate) jobs: Vec<u32>,
    marked: Vec<bool>,
    steps: u32,
}

impl Search {
    /// Looks up the jobs of a node that could make up for `deficit`.
    ///
    /// # Errors
    /// They cannot.
    pub(crate) fn gather(
        &mut self,
        shares: &[(u32, Share)],
        kind: Option<u16>,
        deficit: Amount,
        fates: &[Fate],
        prices: &[Price],
    ) -> Result<(), Lack> {
        self.candidates.clear();
        self.deficit = deficit;
        let mut sum = Amount::NONE;
        for (job, share) in shares {
            if fates.get(at(*job)) != Some(&Fate::Candidate) {
                continue;
            }
            let gives = share.amount(kind).min(deficit);
            if gives == Amount::NONE {
                continue;
            }
            sum = sum.plus(gives);
            match self.candidates.last_mut() {
                // Several kinds of GPU on one node.
                Some(last) if last.job == *job => {
                    last.gives = last.gives.plus(gives).min(deficit);
                }
                _ => self.candidates.push(Candidate {
                    job: *job,
                    gives,
                    price: prices.get(at(*job)).copied().unwrap_or_default(),
                }),
            }
        }
        if sum.covers(deficit) {
            return Ok(());
        }
        Err(Lack {
            gpus: sum.gpus < deficit.gpus,
            cores: sum.cores < deficit.cores,
            memory: sum.memory < deficit.memory,
        })
    }

    /// What the gathered jobs' going loses at least, by what they give and cost for it.
    pub(crate) fn at_least(&self) -> Loss {
        // All that lower classes give does not do: some of this class must go.
        let mut by_class = [Amount::NONE; CLASSES];
        let mut highest = 0_u8;
        let mut run = f64::INFINITY;
        let mut least_run = u64::MAX;
        let mut most_gpus = 1;
        for candidate in &self.candidates {
            let place = candidate.price.place;
            if let Some(sum) = by_class.get_mut(usize::from(place)) {
                *sum = sum.plus(candidate.gives);
            }
            highest = highest.max(place);
            most_gpus = most_gpus.max(candidate.gives.gpus);
            least_run = least_run.min(candidate.price.run);
            if candidate.gives.gpus > 0 {
                run = run.min(real(candidate.price.run) / f64::from(candidate.gives.gpus));
            }
        }
        let mut lower = Amount::NONE;
        let mut place = usize::from(highest);
        loop {
            let here = by_class.get(place).copied().unwrap_or_default();
            if lower.plus(here).covers(self.deficit) || place == 0 {
                break;
            }
            lower = lower.plus(here);
            place = place.saturating_sub(1);
        }
        let gpus = self.deficit.gpus.saturating_sub(lower.gpus);
        let here = self
            .candidates
            .iter()
            .filter(|candidate| usize::from(candidate.price.place) == place);
        let cost = if gpus > 0 {
            let each = here
                .filter(|candidate| candidate.gives.gpus > 0)
                .map(|candidate| real(candidate.price.cost) / f64::from(candidate.gives.gpus))
                .fold(f64::INFINITY, f64::min);
            floor(each * f64::from(gpus))
        } else {
            here.map(|candidate| candidate.price.cost)
                .min()
                .unwrap_or(0)
        };
        let mut loss = Loss {
            run: least_run,
            jobs: 1,
            ..Loss::NONE
        };
        if self.deficit.gpus > 0 {
            loss.run = loss.run.max(floor(run * f64::from(self.deficit.gpus)));
            loss.jobs = self.deficit.gpus.div_ceil(most_gpus);
        }
        if let Some(slot) = loss.by_class.get_mut(place) {
            *slot = cost;
        }
        loss
    }

    /// The cheapest of the gathered jobs that make up for the deficit: what they lose, and how many GPUs more
    /// than needed they give. They are in `jobs`.
    pub(crate) fn cheapest(&mut self) -> Loss {
        self.jobs.clear();
        self.best = None;
        self.candidates.sort_unstable_by_key(Candidate::key);
        self.greedy();
        if self.candidates.len() > MOST_SEARCHED {
            let first = (self.best, self.jobs.clone());
            self.best = None;
            let deficit = self.deficit;
            self.candidates
                .sort_by_cached_key(|candidate| worth(candidate, deficit));
            self.greedy();
            if first.0 <= self.best {
                (self.best, self.jobs) = first;
            }
        } else if self.candidates.len() > 1 {
            self.rest.clear();
            self.rest.resize(self.candidates.len(), Amount::NONE);
            let mut sum = Amount::NONE;
            for (rest, candidate) in self.rest.iter_mut().zip(&self.candidates).rev() {
                sum = sum.plus(candidate.gives);
                *rest = sum;
            }
            self.steps = 0;
            self.descend(0, self.deficit, Loss::NONE, 0);
        }
        self.best.unwrap_or_default()
    }

    /// One after the other until they do, then without those that turn out unneeded, dear ones first.
    fn greedy(&mut self) {
        let mut left = self.deficit;
        let mut given = Amount::NONE;
        self.marked.clear();
        for candidate in &self.candidates {
            let helps = candidate.gives.min(left) != Amount::NONE;
            self.marked.push(helps);
            if helps {
                left = left.minus(candidate.gives);
                given = given.plus(candidate.gives);
            }
        }
        let mut loss = Loss::NONE;
        self.jobs.clear();
        for (marked, candidate) in self.marked.iter().zip(&self.candidates).rev() {
            if !*marked {
                continue;
            }
            let without = given.minus(candidate.gives);
            if without.covers(self.deficit) {
                given = without;
            } else {
                loss = loss.with(&candidate.price);
                self.jobs.push(candidate.job);
            }
        }
        self.best = Some(loss);
    }

    /// Tries all sets that go on from candidate `from`; `inside` are those already in.
    fn descend(&mut self, from: usize, left: Amount, loss: Loss, inside: u64) {
        if left == Amount::NONE {
            if self.best.is_none_or(|best| loss < best) {
                self.best = Some(loss);
                self.jobs.clear();
                let all = self.candidates.iter().enumerate();
                self.jobs.extend(
                    all.filter(|(index, _)| inside & bit(*index) != 0)
                        .map(|(_, candidate)| candidate.job),
                );
            }
            return;
        }
        let mut index = from;
        while let (Some(candidate), Some(rest)) =
            (self.candidates.get(index).copied(), self.rest.get(index))
        {
            let more = loss.with(&candidate.price);
            // They come dearer and dearer, and those left must do.
            if !rest.covers(left) || self.best.is_some_and(|best| more >= best) {
                return;
            }
            let helps = candidate.gives.min(left) != Amount::NONE;
            // One left out that costs no more and gives no less would do as well.
            let is_worse = || {
                let before = self.candidates.iter().take(index).enumerate();
                before
                    .filter(|(earlier, _)| inside & bit(*earlier) == 0)
                    .any(|(_, earlier)| earlier.gives.covers(candidate.gives))
            };
            if helps && !is_worse() {
                self.steps = self.steps.saturating_add(1);
                if self.steps > MOST_STEPS {
                    return;
                }
                let next = index.saturating_add(1);
                self.descend(next, left.minus(candidate.gives), more, inside | bit(index));
            }
            index = index.saturating_add(1);
        }
    }
}

/// What a candidate costs for what it gives; cheap ones first.
fn worth(candidate: &Candidate, deficit: Amount) -> (u8, u64) {
    let part = |gives: u64, of: u64| gives.saturating_mul(1000).checked_div(of).unwrap_or(0);
    let gives = part(candidate.gives.gpus.into(), deficit.gpus.into())
        .saturating_add(part(candidate.gives.cores.into(), deficit.cores.into()))
        .saturating_add(part(candidate.gives.memory, deficit.memory));
    let cost = candidate.price.cost.saturating_mul(1000);
    (
        candidate.key().0,
        cost.checked_div(gives).unwrap_or(u64::MAX),
    )
}

fn bit(index: usize) -> u64 {
    u32::try_from(index)
        .ok()
        .and_then(|index| 1_u64.checked_shl(index))
        .unwrap_or(0)
}

fn real(number: u64) -> f64 {
    number as f64
}

/// A little below, so that a bound stays one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` goes to the nearest end"
)]
fn floor(number: f64) -> u64 {
    (number * (1.0 - 1e-12)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (GPUs, cores, memory, place, cost)
    type Row = (u16, u32, u64, u8, u64);

    fn search(rows: &[Row], deficit: Amount) -> Option<(Search, Loss)> {
        let mut search = Search::default();
        let shares: Vec<(u32, Share)> = (0..)
            .zip(rows)
            .map(|(job, row)| {
                let share = Share {
                    gpus: row.0,
                    cores: row.1,
                    memory: row.2,
                    ..Share::default()
                };
                (job, share)
            })
            .collect();
        let prices: Vec<Price> = rows
            .iter()
            .map(|row| Price {
                place: row.3,
                cost: row.4,
                run: row.4 / 2,
            })
            .collect();
        let fates = vec![Fate::Candidate; rows.len()];
        search
            .gather(&shares, None, deficit, &fates, &prices)
            .ok()?;
        let bound = search.at_least();
        let loss = search.cheapest();
        assert!(bound <= loss, "{bound:?} {loss:?}");
        Some((search, loss))
    }

    fn gpus(gpus: u32) -> Amount {
        Amount {
            gpus,
            ..Amount::NONE
        }
    }

    #[test]
    fn exact_sizes_and_cheap_jobs() {
        // 4 of 8, 4, 1, 1, 1, 1 GPUs; two per GPU.
        let rows = [
            (8, 8, 0, 0, 16),
            (4, 4, 0, 0, 8),
            (1, 1, 0, 0, 2),
            (1, 1, 0, 0, 2),
            (1, 1, 0, 0, 2),
            (1, 1, 0, 0, 2),
        ];
        let (found, loss) = search(&rows, gpus(4)).unwrap();
        assert_eq!((found.jobs, loss.jobs), (vec![1], 1));
        let (found, _) = search(&rows, gpus(5)).unwrap();
        assert_eq!(found.jobs.len(), 2);
        assert!(found.jobs.contains(&1));
        assert!(search(&rows, gpus(17)).is_none());
        // Cores count, too: the cheap GPU has too few.
        let rows = [(1, 1, 0, 0, 1), (1, 8, 0, 0, 5)];
        let deficit = Amount {
            gpus: 1,
            cores: 4,
            memory: 0,
        };
        assert_eq!(search(&rows, deficit).unwrap().0.jobs, [1]);
    }

    #[test]
    fn a_low_class_goes_first_whatever_it_costs() {
        let rows = [(4, 0, 0, 0, 1), (1, 0, 0, 1, 900), (1, 0, 0, 1, 900)];
        let (mut found, _) = search(&rows, gpus(2)).unwrap();
        found.jobs.sort_unstable();
        assert_eq!(found.jobs, [1, 2]);
        let (found, _) = search(&rows, gpus(3)).unwrap();
        assert_eq!(found.jobs, [0]);
    }

    #[test]
    fn many_jobs_are_gone_through_in_order() {
        let rows: Vec<Row> = (0..100_u64).map(|i| (0, 2, 5, 0, 100 - i)).collect();
        let deficit = Amount {
            gpus: 0,
            cores: 20,
            memory: 1,
        };
        let (mut found, loss) = search(&rows, deficit).unwrap();
        found.jobs.sort_unstable();
        assert_eq!(found.jobs, (90..100).collect::<Vec<u32>>());
        assert_eq!(loss.total(), 55);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn as_good_as_the_best_of_all_sets(
            rows in proptest::collection::vec((0_u16..5, 0_u32..9, 0_u64..5, 0_u8..3, 1_u64..20), 1..9),
            want in (0_u32..9, 0_u32..17, 0_u64..9),
        ) {
            let deficit = Amount { gpus: want.0, cores: want.1, memory: want.2 };
            let mut best = None;
            for set in 0_u32..1 << rows.len() {
                let inside = || rows.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, row)| row);
                let sum = inside().fold(Amount::NONE, |sum, row| {
                    sum.plus(Amount { gpus: row.0.into(), cores: row.1, memory: row.2 })
                });
                if sum.covers(deficit) {
                    let loss = inside().fold(Loss::NONE, |loss, row| {
                        loss.with(&Price { place: row.3, cost: row.4, run: row.4 / 2 })
                    });
                    best = Some(best.map_or(loss, |best: Loss| best.min(loss)));
                }
            }
            if deficit != Amount::NONE {
                prop_assert_eq!(search(&rows, deficit).map(|(_, loss)| loss), best);
            }
        }
    }
}
