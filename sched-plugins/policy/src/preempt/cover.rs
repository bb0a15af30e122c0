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

/// What a search goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board<'a> {
    /// The kind of GPU that is asked for.
    pub(crate) kind: Option<u16>,
    /// By job.
    pub(crate) fates: &'a [Fate],
    /// By job.
    pub(crate) prices: &'a [Price],
    /// How many classes are told apart.
    pub(crate) classes: usize,
}

/// What the jobs of one class on a node give together, and the least that one of them costs.
#[derive(Clone, Copy, Debug)]
struct Sum {
    gives: Amount,
    cost: u64,
    each: u64,
}

impl Sum {
    const NONE: Self = Self {
        gives: Amount::NONE,
        cost: u64::MAX,
        each: u64::MAX,
    };
}

/// What making up for `deficit` on a node loses at least.
///
/// What lower classes give together does not do: of the class that does, some must go, and all of the deficit
/// costs what its cheapest GPU costs, or more.
///
/// # Errors
/// All jobs that may go do not make up for it.
pub(crate) fn at_least(
    board: &Board<'_>,
    shares: &[(u32, Share)],
    deficit: Amount,
) -> Result<Loss, Lack> {
    let mut sums = [Sum::NONE; CLASSES];
    let mut loss = Loss {
        run: u64::MAX,
        ..Loss::NONE
    };
    let (mut run_each, mut most_gpus) = (u64::MAX, 1);
    let (mut last, mut last_gpus) = (u32::MAX, 0_u32);
    for (job, share) in shares {
        if board.fates.get(at(*job)) != Some(&Fate::Candidate) {
            continue;
        }
        let gives = share.amount(board.kind).min(deficit);
        if gives == Amount::NONE {
            continue;
        }
        let Some(price) = board.prices.get(at(*job)) else {
            continue;
        };
        let Some(sum) = sums.get_mut(usize::from(price.place)) else {
            continue;
        };
        sum.gives = sum.gives.plus(gives);
        sum.cost = sum.cost.min(price.cost);
        loss.run = loss.run.min(price.run);
        if gives.gpus > 0 {
            sum.each = sum.each.min(price.each);
            run_each = run_each.min(price.run_each);
            // Several kinds of GPU on one node.
            last_gpus = if last == *job {
                last_gpus.saturating_add(gives.gpus)
            } else {
                gives.gpus
            };
            last = *job;
            most_gpus = most_gpus.max(last_gpus);
        }
    }
    let mut lower = Amount::NONE;
    let classes = sums.iter().zip(loss.by_class.iter_mut());
    for (sum, slot) in classes.take(board.classes.max(1)).rev() {
        let both = lower.plus(sum.gives);
        if !both.covers(deficit) {
            lower = both;
            continue;
        }
        let gpus = deficit.gpus.saturating_sub(lower.gpus);
        *slot = if gpus > 0 {
            sum.cost.max(sum.each.saturating_mul(gpus.into()))
        } else {
            sum.cost
        };
        if deficit.gpus > 0 {
            loss.run = loss.run.max(run_each.saturating_mul(deficit.gpus.into()));
        }
        loss.jobs = deficit.gpus.div_ceil(most_gpus).max(1);
        return Ok(loss);
    }
    Err(Lack {
        gpus: lower.gpus < deficit.gpus,
        cores: lower.cores < deficit.cores,
        memory: lower.memory < deficit.memory,
    })
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
    fn gather(&mut self, board: &Board<'_>, shares: &[(u32, Share)], deficit: Amount) {
        self.candidates.clear();
        self.deficit = deficit;
        for (job, share) in shares {
            if board.fates.get(at(*job)) != Some(&Fate::Candidate) {
                continue;
            }
            let gives = share.amount(board.kind).min(deficit);
            if gives == Amount::NONE {
                continue;
            }
            match self.candidates.last_mut() {
                // Several kinds of GPU on one node.
                Some(last) if last.job == *job => {
                    last.gives = last.gives.plus(gives).min(deficit);
                }
                _ => self.candidates.push(Candidate {
                    job: *job,
                    gives,
                    price: board.prices.get(at(*job)).copied().unwrap_or_default(),
                }),
            }
        }
    }

    /// The cheapest jobs of a node that make up for `deficit`: what they lose. They are in `jobs`.
    pub(crate) fn cheapest(
        &mut self,
        board: &Board<'_>,
        shares: &[(u32, Share)],
        deficit: Amount,
    ) -> Loss {
        self.gather(board, shares, deficit);
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
        let prices: Vec<Price> = rows.iter().map(|row| price(row.3, row.4, row.0)).collect();
        let fates = vec![Fate::Candidate; rows.len()];
        let board = Board {
            kind: None,
            fates: &fates,
            prices: &prices,
            classes: CLASSES,
        };
        let bound = at_least(&board, &shares, deficit).ok()?;
        let loss = search.cheapest(&board, &shares, deficit);
        assert!(bound <= loss, "{bound:?} {loss:?}");
        Some((search, loss))
    }

    fn price(place: u8, cost: u64, gpus: u16) -> Price {
        let each = |all: u64| all / u64::from(gpus.max(1));
        Price {
            place,
            cost,
            run: cost / 2,
            each: each(cost),
            run_each: each(cost / 2),
        }
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
                        loss.with(&price(row.3, row.4, row.0))
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
