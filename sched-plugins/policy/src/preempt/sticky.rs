//! One preemptor after the other, over many passes: what was planned stays until it has come true or its time
//! is over.
//!
//! Every wait has an end, but for that of a budget that others use up. A preemptor that still does not start when all should be well is offered whatever
//! Slurm allows, for one pass: what this module does not know of must not keep a job for ever.

use super::budget::Budget;
use super::claims::{Claim, Claims, MOST_CLAIMS};
use super::plan::{Context, Lacking, Outcome, Plan, Planner};
use super::rules::Rules;
use super::{Request, State};

/// The most victims of one plan.
const MOST_VICTIMS: usize = 4096;

/// Why a preemptor gets no victims.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It fits on what is free.
    Free,
    /// It fits once those are gone that are going anyway.
    Coming,
    /// It would start by itself, in so many seconds.
    Soon(u64),
    /// The hour's budget is used up.
    Budget {
        /// Whether it is the first one refused since there was room.
        is_first: bool,
    },
    /// It does not fit, whoever goes.
    Infeasible(Lacking),
}

/// What a preemptor gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nobody.
    Wait(Reason),
    /// Its plan's victims and nobody else.
    Push,
    /// Whoever Slurm allows, in order of cost, for this pass.
    Widen,
    /// Whatever Slurm does: there is no room to remember it.
    Stock,
}

/// What a preemptor gets, and whether it is news.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// What.
    pub verdict: Verdict,
    /// Whether it differs from the last time: then it is worth a line in the log.
    pub is_new: bool,
}

/// How often what was said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Plans with victims.
    pub plans: u64,
    /// Their victims.
    pub victims: u64,
    /// Plans that were kept to.
    pub kept: u64,
    /// Preemptors that were offered all.
    pub widened: u64,
    /// Preemptors left to Slurm for want of room.
    pub stock: u64,
    /// Plans that the budget refused.
    pub refused: u64,
}

/// One preemptor.
#[derive(Clone, Debug)]
struct Entry {
    job: u32,
    verdict: Option<Verdict>,
    /// Since when the verdict stands.
    since: i64,
    /// When it was last asked for.
    seen: i64,
    /// Since when it could have started, going by what was said.
    vain_since: i64,
    /// How often it was asked for since.
    vain: u32,
    /// What was coming free did not come in time: it does not count until something else has helped.
    is_wary: bool,
    plan: Plan,
    /// (job, start, rank) of the plan's victims, by job.
    order: Vec<(u32, i64, u32)>,
}

impl Entry {
    fn new(job: u32, now: i64) -> Self {
        Self {
            job,
            verdict: None,
            since: now,
            seen: now,
            vain_since: now,
            vain: 0,
            is_wary: false,
            plan: Plan::default(),
            order: Vec::new(),
        }
    }

    /// Whether the verdict is older than that; a clock that goes back makes things old, too.
    fn is_over(&self, now: i64, seconds: u32) -> bool {
        now.abs_diff(self.since) > u64::from(seconds)
    }

    fn is_pushing(&self) -> bool {
        self.verdict == Some(Verdict::Push)
    }

    /// Asked in vain, once more; whether that is often enough.
    fn count(&mut self, now: i64, rules: &Rules) -> bool {
        if self.vain == 0 {
            self.vain_since = now;
        }
        // Slurm asks several times in a moment.
        if self.vain == 0 || now != self.seen {
            self.vain = self.vain.saturating_add(1);
        }
        self.vain > rules.fallback_after
    }

    /// What it gets from now on.
    fn say(&mut self, verdict: Verdict, now: i64) -> Answer {
        let is_new = match (self.verdict, verdict) {
            (Some(Verdict::Wait(old)), Verdict::Wait(new)) => {
                std::mem::discriminant(&old) != std::mem::discriminant(&new)
            }
            (old, new) => old != Some(new) || new == Verdict::Push,
        };
        if is_new {
            self.since = now;
        }
        if matches!(
            verdict,
            Verdict::Push | Verdict::Widen | Verdict::Wait(Reason::Free)
        ) {
            self.is_wary = false;
        }
        self.seen = now;
        self.verdict = Some(verdict);
        if verdict != Verdict::Push {
            self.order.clear();
        }
        Answer { verdict, is_new }
    }
}

/// What one preemptor is offered.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    verdict: Verdict,
    order: &'a [(u32, i64, u32)],
}

impl Offered<'_> {
    /// Whether a run of a job may be pushed out for it.
    #[must_use]
    pub fn allows(&self, job: u32, start: i64) -> bool {
        match self.verdict {
            Verdict::Wait(_) => false,
            Verdict::Push => self.rank(job, start).is_some(),
            Verdict::Widen | Verdict::Stock => true,
        }
    }

    /// Its place in the plan, from 0 on.
    #[must_use]
    pub fn rank(&self, job: u32, start: i64) -> Option<u32> {
        rank(self.order, job, start)
    }
}

/// All preemptors that were asked for lately. Nodes must have the same numbers from pass to pass.
#[derive(Clone, Debug, Default)]
pub struct Preemptors {
    /// By job.
    entries: Vec<Entry>,
    claims: Claims,
    budget: Budget,
    planner: Planner,
    pledged: Vec<(u32, i64)>,
    counters: Counters,
}

impl Preemptors {
    /// Nobody yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How often what was said.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What preemptors count on.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The plan of a preemptor, as it was made.
    #[must_use]
    pub fn plan(&self, job: u32) -> Option<&Plan> {
        self.entry(job).map(|entry| &entry.plan)
    }

    /// What a preemptor is offered; `None`: nothing is remembered of it, Slurm decides.
    #[must_use]
    pub fn offered(&self, job: u32) -> Option<Offered<'_>> {
        let entry = self.entry(job)?;
        Some(Offered {
            verdict: entry.verdict?,
            order: &entry.order,
        })
    }

    fn entry(&self, job: u32) -> Option<&Entry> {
        let place = self.entries.binary_search_by_key(&job, |entry| entry.job);
        self.entries.get(place.ok()?)
    }

    /// A preemptor started, or is gone.
    pub fn forget(&mut self, job: u32) {
        if let Ok(place) = self.entries.binary_search_by_key(&job, |entry| entry.job) {
            self.entries.remove(place);
        }
        self.claims.release(job);
    }

    /// Forgets the preemptors that are not to be kept: those that no longer wait.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.entries.retain(|entry| keep(entry.job));
        let Self {
            entries, claims, ..
        } = self;
        claims.retain(|job| {
            entries
                .binary_search_by_key(&job, |entry| entry.job)
                .is_ok()
        });
    }

    /// What a preemptor gets now. `expected` is when Slurm's backfill has it start.
    pub fn evaluate(
        &mut self,
        state: &State,
        request: &Request,
        expected: Option<i64>,
        rules: &Rules,
        now: i64,
    ) -> Answer {
        // Whoever was not asked for in so long does not wait any more.
        let settle = u64::from(rules.settle_seconds);
        let is_fresh = |entry: &Entry| now.abs_diff(entry.seen) <= settle.saturating_mul(2);
        if self.entries.iter().any(|entry| !is_fresh(entry)) {
            let stale: Vec<u32> = self
                .entries
                .iter()
                .filter(|entry| !is_fresh(entry))
                .map(|entry| entry.job)
                .collect();
            self.retain(|job| stale.binary_search(&job).is_err());
        }
        let job = request.job;
        let place = self.entries.binary_search_by_key(&job, |entry| entry.job);
        let mut entry = match place {
            Ok(place) => self.entries.remove(place),
            Err(_) => Entry::new(job, now),
        };
        let answer = if self.entries.len() < MOST_CLAIMS {
            self.decide(&mut entry, state, request, expected, rules, now)
        } else {
            None
        };
        let Some(answer) = answer else {
            self.claims.release(job);
            self.counters.stock = self.counters.stock.saturating_add(1);
            return Answer {
                verdict: Verdict::Stock,
                is_new: true,
            };
        };
        let place = self.entries.partition_point(|other| other.job < job);
        self.entries.insert(place, entry);
        answer
    }

    /// `None` when there is no room for it.
    fn decide(
        &mut self,
        entry: &mut Entry,
        state: &State,
        request: &Request,
        expected: Option<i64>,
        rules: &Rules,
        now: i64,
    ) -> Option<Answer> {
        self.pledged.clear();
        let others = self.entries.iter().filter(|entry| entry.is_pushing());
        for other in others {
            let victims = other.order.iter();
            self.pledged
                .extend(victims.map(|(job, start, _)| (*job, *start)));
        }
        self.pledged.sort_unstable();
        self.pledged.dedup();

        let is_waiting = entry.verdict == Some(Verdict::Wait(Reason::Coming));
        entry.is_wary |= is_waiting && entry.is_over(now, rules.settle_seconds);
        let context = Context {
            now,
            rules,
            claims: &self.claims,
            pledged: &self.pledged,
            trust_coming: !entry.is_wary,
        };
        if entry.is_pushing() {
            let is_over = entry.is_over(now, rules.settle_seconds);
            let running = running(state, entry);
            if running.0 > 0
                && !is_over
                && self
                    .planner
                    .holds(state, request, &context, &entry.plan.nodes, |job, start| {
                        rank(&entry.order, job, start).is_some()
                    })
            {
                self.counters.kept = self.counters.kept.saturating_add(1);
                entry.seen = now;
                return Some(Answer {
                    verdict: Verdict::Push,
                    is_new: false,
                });
            }
            // Those that were not pushed out in time are not lost yet.
            self.budget.refund(running.1);
            if running.0 > 0 && is_over && entry.count(now, rules) {
                return Some(self.widen(entry, now));
            }
        }
        let outcome = self.planner.plan(state, request, &context);
        let (plan, verdict) = match outcome {
            Outcome::Free(plan) => {
                if entry.count(now, rules) {
                    return Some(self.widen(entry, now));
                }
                (plan, Verdict::Wait(Reason::Free))
            }
            Outcome::Coming(plan) => (plan, Verdict::Wait(Reason::Coming)),
            Outcome::Infeasible(lacking) => {
                // It may be that Slurm knows better, but only who has waited long may take all.
                let is_often = entry.count(now, rules);
                let waited = now.abs_diff(entry.vain_since);
                if is_often && waited > u64::from(rules.settle_seconds) {
                    return Some(self.widen(entry, now));
                }
                self.claims.release(request.job);
                entry.plan = Plan {
                    lacking,
                    ..Plan::default()
                };
                return Some(entry.say(Verdict::Wait(Reason::Infeasible(lacking)), now));
            }
            Outcome::Push(plan) => match self.refusal(entry, &plan, expected, rules, now) {
                Some(reason) => {
                    self.claims.release(request.job);
                    entry.plan = plan;
                    return Some(entry.say(Verdict::Wait(reason), now));
                }
                None => (plan, Verdict::Push),
            },
        };
        let claimed = self.claims.put(claim(state, request, &plan));
        if !claimed || plan.victims.len() > MOST_VICTIMS {
            return None;
        }
        entry.plan = plan;
        let answer = entry.say(verdict, now);
        if verdict == Verdict::Push {
            self.budget.spend(entry.plan.loss.total(), now);
            self.counters.plans = self.counters.plans.saturating_add(1);
            let victims = u64::try_from(entry.plan.victims.len()).unwrap_or(0);
            self.counters.victims = self.counters.victims.saturating_add(victims);
            entry.order.clear();
            // The cheapest first.
            let order = (0..).zip(entry.plan.victims.iter().rev());
            entry
                .order
                .extend(order.map(|(rank, victim)| (victim.job, victim.start, rank)));
            entry.order.sort_unstable();
        }
        Some(answer)
    }

    /// All that Slurm allows, for one pass; then it begins anew.
    fn widen(&mut self, entry: &mut Entry, now: i64) -> Answer {
        self.claims.release(entry.job);
        self.counters.widened = self.counters.widened.saturating_add(1);
        entry.vain = 0;
        entry.say(Verdict::Widen, now)
    }

    /// Why a plan is not worth it.
    fn refusal(
        &mut self,
        entry: &Entry,
        plan: &Plan,
        expected: Option<i64>,
        rules: &Rules,
        now: i64,
    ) -> Option<Reason> {
        let gain = u64::from(rules.min_gain_seconds);
        if let Some(seconds) =
            expected.and_then(|start| u64::try_from(start.saturating_sub(now)).ok())
        {
            // A start that is put off again and again is none.
            let was_soon = matches!(entry.verdict, Some(Verdict::Wait(Reason::Soon(_))));
            let is_slipping = was_soon && now.abs_diff(entry.since) > gain;
            if seconds > 0 && seconds <= gain && !is_slipping {
                return Some(Reason::Soon(seconds));
            }
        }
        let cost = plan.loss.total();
        if self.budget.allows(cost, rules.hourly_budget, now) {
            return None;
        }
        self.counters.refused = self.counters.refused.saturating_add(1);
        let is_first = self.budget.refuse(entry.job);
        Some(Reason::Budget { is_first })
    }
}

/// What a plan takes of its nodes.
fn claim(state: &State, request: &Request, plan: &Plan) -> Claim {
    let amount = |(node, gpus): &(u32, u32)| {
        let host = state.nodes().get(super::state::at(*node))?;
        Some((*node, request.of_node(host, *gpus)))
    };
    Claim {
        job: request.job,
        priority: request.priority,
        kind: request.kind,
        nodes: plan.nodes.iter().filter_map(amount).collect(),
    }
}

/// How many of a plan's victims still run, and what they cost.
fn running(state: &State, entry: &Entry) -> (usize, u64) {
    let mut found = (0_usize, 0_u64);
    let running = state
        .jobs()
        .iter()
        .filter_map(|job| rank(&entry.order, job.id, job.start));
    for rank in running {
        let victim = entry.plan.victims.iter().rev().nth(super::state::at(rank));
        found.0 = found.0.saturating_add(1);
        found.1 = found
            .1
            .saturating_add(victim.map_or(0, |victim| victim.cost));
    }
    found
}

/// The place of a run of a job in a plan, from 0 on.
fn rank(order: &[(u32, i64, u32)], job: u32, start: i64) -> Option<u32> {
    let place = order.binary_search_by_key(&(job, start), |(job, start, _)| (*job, *start));
    order.get(place.ok()?).map(|(_, _, rank)| *rank)
}
