//! The cheapest victims for a preemptor.
//!
//! Where it fits without victims there are none, and neither are there where it does not fit even with all.
//! Else each node has its price, that of the cheapest jobs there that make room, and the cheapest nodes are
//! taken one after the other. A job on several nodes is paid for once. At the end those go free that turn
//! out unneeded.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::cover::{Board, Fate, Search, at_least};
use super::loss::{CLASSES, Loss, Price};
use super::request::{Gpus, Request};
use super::rules::Rules;
use super::state::{State, at};
use super::{Amount, Claims};

/// Ways to spread a number of GPUs over nodes that are tried.
const MOST_SPREADS: usize = 16;
/// So many nodes are searched in full; of more, the likely ones.
const MOST_SEARCHED: usize = 64;
/// Jobs on several nodes that are tried as the first victim.
const MOST_SEEDS: usize = 16;

/// A job to be pushed out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Victim {
    /// Slurm's number of it.
    pub job: u32,
    /// When it started: another run of the same job is not meant.
    pub start: i64,
    /// Its GPUs on all nodes.
    pub gpus: u32,
    /// What it costs, in thousandths of a GPU-second; 0 when another's plan has it already.
    pub cost: u64,
}

/// Of what there is too little on nodes where the preemptor may run, even without the jobs that may be
/// pushed out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lacking {
    /// Nodes with too few GPUs.
    pub gpus: u32,
    /// Nodes with enough GPUs and too few cores.
    pub cores: u32,
    /// Nodes with enough GPUs and cores and too little memory.
    pub memory: u32,
}

/// Where a preemptor is to run, and who has to go for it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// Nodes, and how many GPUs on each.
    pub nodes: Vec<(u32, u32)>,
    /// The dearest first.
    pub victims: Vec<Victim>,
    /// What they lose.
    pub loss: Loss,
    /// Nodes that will not do.
    pub lacking: Lacking,
}

/// What a preemptor can do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It fits on what is free.
    Free(Plan),
    /// It fits once those are gone that are going anyway.
    Coming(Plan),
    /// It fits without the plan's victims.
    Push(Plan),
    /// It does not fit, whoever goes.
    Infeasible(Lacking),
}

/// What else counts for a plan.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Unix seconds.
    pub now: i64,
    /// The site's rules.
    pub rules: &'a Rules,
    /// What other preemptors count on.
    pub claims: &'a Claims,
    /// (job, start) of other preemptors' victims that still run, by number: going already as far as this one
    /// is concerned.
    pub pledged: &'a [(u32, i64)],
    /// Whether to count on what is coming free.
    pub trust_coming: bool,
}

/// One node on the way into a plan; the smallest is taken first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Offer {
    loss: Loss,
    /// GPUs that stay free: full nodes leave larger holes elsewhere.
    spare: u32,
    node: u32,
    /// Whether `loss` is what it costs, or the least that it can cost.
    is_exact: bool,
    stamp: u32,
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |offer: &Self| (offer.spare, offer.node, offer.is_exact);
        self.loss
            .cmp(&other.loss)
            .then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A set of nodes and victims.
#[derive(Clone, Debug, Default)]
struct Choice {
    nodes: Vec<u32>,
    victims: Vec<u32>,
    loss: Loss,
}

/// Finds plans, and keeps the memory that it takes.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    fates: Vec<Fate>,
    prices: Vec<Price>,
    /// [`Planner::prices`], those of jobs on several nodes spread over these.
    spread: Vec<Price>,
    wide: Vec<u32>,
    classes: usize,
    /// The nodes that are looked at.
    pool: Vec<u32>,
    soon: Vec<u32>,
    /// What is there for the preemptor on each node, with what has been taken so far.
    there: Vec<Amount>,
    /// What others claim there.
    claimed: Vec<Amount>,
    pledged: Vec<u32>,
    fits: Vec<(u32, u32)>,
    stamps: Vec<u32>,
    heap: BinaryHeap<Reverse<Offer>>,
    offers: Vec<Offer>,
    search: Search,
}

impl Planner {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a preemptor can do.
    pub fn plan(&mut self, state: &State, request: &Request, context: &Context<'_>) -> Outcome {
        self.claim(state, request, context.claims);
        self.there.clear();
        self.there.extend(state.nodes().iter().map(|node| {
            if node.usable {
                node.idle(request.kind)
            } else {
                Amount::NONE
            }
        }));
        if let Some(nodes) = self.fitting(state, request) {
            return Outcome::Free(without_victims(nodes));
        }
        self.judge(state, request, context);
        if context.trust_coming {
            for (there, node) in self.there.iter_mut().zip(state.nodes()) {
                if node.usable {
                    *there = there.plus(node.coming(request.kind));
                }
            }
            if let Some(nodes) = self.fitting(state, request) {
                return Outcome::Coming(without_victims(nodes));
            }
        }
        // Other preemptors' victims are on their way as well, but it takes somebody to push them.
        let pledged = std::mem::take(&mut self.pledged);
        for job in &pledged {
            self.take(state, request, *job);
        }
        let mut lacking = Lacking::default();
        let best = self.best(state, request, &mut lacking);
        let outcome = match best {
            Some(choice) => Outcome::Push(self.finish(state, request, choice, &pledged, lacking)),
            None => Outcome::Infeasible(lacking),
        };
        self.pledged = pledged;
        outcome
    }

    /// Whether a plan still does: its nodes are usable, and what is there, what is coming and what its victims
    /// have is enough.
    pub(crate) fn holds(
        &mut self,
        state: &State,
        request: &Request,
        context: &Context<'_>,
        nodes: &[(u32, u32)],
        is_victim: impl Fn(u32, i64) -> bool,
    ) -> bool {
        self.claim(state, request, context.claims);
        self.there.clear();
        self.there.extend(
            state
                .nodes()
                .iter()
                .map(|node| node.idle(request.kind).plus(node.coming(request.kind))),
        );
        self.judge(state, request, context);
        let gone = (0_u32..).zip(state.jobs()).filter(|(number, job)| {
            let is_candidate = self.fates.get(at(*number)) == Some(&Fate::Candidate);
            is_candidate && is_victim(job.id, job.start)
        });
        let gone: Vec<u32> = gone.map(|(number, _)| number).collect();
        for job in gone {
            self.take(state, request, job);
        }
        let nodes: Vec<u32> = nodes.iter().map(|(node, _)| *node).collect();
        self.fits_on(state, request, &nodes)
    }

    /// What others claim of each node.
    fn claim(&mut self, state: &State, request: &Request, claims: &Claims) {
        self.claimed.clear();
        self.claimed.resize(state.nodes().len(), Amount::NONE);
        for claim in claims.against(request.job, request.priority) {
            let other_kind =
                matches!((claim.kind, request.kind), (Some(one), Some(other)) if one != other);
            for (node, amount) in &claim.nodes {
                if let Some(sum) = self.claimed.get_mut(at(*node)) {
                    let gpus = if other_kind { 0 } else { amount.gpus };
                    *sum = sum.plus(Amount { gpus, ..*amount });
                }
            }
        }
    }

    /// Each job's fate and price. Those that end by themselves are as good as gone.
    fn judge(&mut self, state: &State, request: &Request, context: &Context<'_>) {
        let Context {
            now,
            rules,
            pledged,
            trust_coming,
            ..
        } = *context;
        self.classes = state.places().len();
        let jobs = || state.jobs().iter().zip(state.sizes());
        self.prices.clear();
        self.prices.extend(jobs().map(|(job, size)| {
            let place = state.places().of(job.class);
            super::loss::price(job, *size, place, rules, now)
        }));
        let Self { fates, soon, .. } = self;
        let wait = u64::from(rules.wait_short_seconds);
        soon.clear();
        fates.clear();
        fates.extend((0..).zip(state.jobs()).map(|(number, job)| {
            if trust_coming && job.end.abs_diff(now) <= wait {
                soon.push(number);
                Fate::Gone
            } else if job.exempt {
                Fate::Stays
            } else {
                Fate::Candidate
            }
        }));
        for job in std::mem::take(&mut self.soon) {
            self.take(state, request, job);
        }
        self.pledged.clear();
        if !pledged.is_empty() {
            let running = (0..).zip(state.jobs()).zip(&self.fates);
            self.pledged.extend(
                running
                    .filter(|((_, job), fate)| {
                        **fate == Fate::Candidate
                            && pledged.binary_search(&(job.id, job.start)).is_ok()
                    })
                    .map(|((number, _), _)| number),
            );
        }
    }

    /// What the request and others' claims take of a node for so many GPUs.
    fn want(&self, state: &State, request: &Request, node: u32, gpus: u32) -> Option<Amount> {
        let place = at(node);
        let node = state.nodes().get(place).filter(|node| node.usable)?;
        let claimed = self.claimed.get(place).copied().unwrap_or_default();
        let wanted = request.of_node(node, gpus);
        // What a node has not even when empty it never gives.
        node.whole(request.kind)
            .covers(wanted)
            .then(|| wanted.plus(claimed))
    }

    fn there(&self, node: u32) -> Amount {
        self.there.get(at(node)).copied().unwrap_or_default()
    }

    /// How many GPUs a node gives as it is.
    fn yield_of(&self, state: &State, request: &Request, node: u32, most: u32) -> u32 {
        let claimed = self.claimed.get(at(node)).copied().unwrap_or_default();
        match state.nodes().get(at(node)) {
            Some(host) if host.usable && self.there(node).covers(claimed) => {
                request.yield_of(host, self.there(node).minus(claimed), most)
            }
            _ => 0,
        }
    }

    /// Nodes with GPUs on which the request fits as they are.
    fn fitting(&mut self, state: &State, request: &Request) -> Option<Vec<(u32, u32)>> {
        let (least, most) = request.node_range();
        let mut fits = std::mem::take(&mut self.fits);
        fits.clear();
        let nodes = (0_u32..).zip(state.nodes()).filter(|(_, node)| node.usable);
        match request.gpus {
            Gpus::PerNode(gpus) => {
                fits.extend(nodes.filter_map(|(node, _)| {
                    let there = self.there(node);
                    // Most nodes are full.
                    if there.gpus < gpus {
                        return None;
                    }
                    let want = self.want(state, request, node, gpus)?;
                    there
                        .covers(want)
                        .then(|| (there.gpus.saturating_sub(want.gpus), node))
                }));
                fits.sort_unstable();
            }
            Gpus::Total(gpus) => {
                fits.extend(nodes.filter_map(|(node, _)| {
                    let gives = self.yield_of(state, request, node, gpus);
                    (gives > 0).then_some((gives, node))
                }));
                fits.sort_unstable_by_key(|(gives, node)| (Reverse(*gives), *node));
            }
        }
        let found = match request.gpus {
            Gpus::PerNode(gpus) if fits.len() >= at(least) => Some(
                fits.iter()
                    .take(at(least))
                    .map(|(_, node)| (*node, gpus))
                    .collect(),
            ),
            Gpus::Total(gpus) if fits.len() >= at(least) => {
                fits.truncate(at(most));
                share_out(&fits, least, gpus)
            }
            _ => None,
        };
        self.fits = fits;
        found
    }

    /// Counts a job as gone.
    fn take(&mut self, state: &State, request: &Request, job: u32) {
        if let Some(fate) = self.fates.get_mut(at(job)) {
            *fate = Fate::Gone;
        }
        for share in state.shares_of(job) {
            if let Some(there) = self.there.get_mut(at(share.node)) {
                *there = there.plus(share.amount(request.kind));
            }
        }
    }

    /// Counts a job as one that may stay after all.
    fn put_back(&mut self, state: &State, request: &Request, job: u32) {
        if let Some(fate) = self.fates.get_mut(at(job)) {
            *fate = Fate::Candidate;
        }
        for share in state.shares_of(job) {
            if let Some(there) = self.there.get_mut(at(share.node)) {
                *there = there.minus(share.amount(request.kind));
            }
        }
    }

    /// The best of all ways that are tried.
    fn best(&mut self, state: &State, request: &Request, lacking: &mut Lacking) -> Option<Choice> {
        self.spread_prices(state, request);
        self.pool.clear();
        let usable = (0_u32..).zip(state.nodes()).filter(|(_, node)| node.usable);
        self.pool.extend(usable.map(|(node, _)| node));
        let is_small = self.pool.len() <= MOST_SEARCHED;
        let mut best = None;
        match request.gpus {
            Gpus::PerNode(gpus) => {
                let nodes = at(request.nodes.max(1));
                if nodes > 1 && !is_small {
                    self.shorten(state, request, nodes, &[gpus], lacking);
                }
                let mut seen = Lacking::default();
                let counted = if nodes > 1 && !is_small {
                    &mut seen
                } else {
                    lacking
                };
                self.attempt(state, request, &[], &[(nodes, gpus)], &mut best, counted);
            }
            Gpus::Total(gpus) => {
                let free = self.best_as_they_are(state, request, gpus);
                let (least, most) = request.node_range();
                let usable = state.nodes().iter().filter(|node| node.usable);
                let largest = usable.map(|node| node.whole(request.kind).gpus).max();
                let largest = largest.unwrap_or(0);
                if !is_small {
                    let each = gpus.div_ceil(least).min(largest);
                    let mut amounts = [each, gpus.div_ceil(most), 1].to_vec();
                    amounts.dedup();
                    self.shorten(state, request, at(most), &amounts, lacking);
                }
                for (kept, steps) in spreads(request, gpus, &free, largest) {
                    let mut seen = Lacking::default();
                    let kept = free.get(..kept).unwrap_or_default();
                    self.attempt(state, request, kept, &steps, &mut best, &mut seen);
                    if is_small {
                        *lacking = seen;
                    }
                }
                let is_lowest = |choice: &Choice| {
                    let lowest = self.classes.saturating_sub(1);
                    let mut higher = choice.loss.by_class.iter().take(lowest);
                    higher.all(|cost| *cost == 0)
                };
                if is_small || !best.as_ref().is_some_and(is_lowest) {
                    let found = self.all_out(state, request, gpus);
                    if let Some(found) = found
                        && best.as_ref().is_none_or(|best| found.loss < best.loss)
                    {
                        best = Some(found);
                    }
                }
            }
        }
        best
    }

    /// Keeps those nodes in the pool that are likely to be taken, for each number of GPUs and kind of price.
    fn shorten(
        &mut self,
        state: &State,
        request: &Request,
        nodes: usize,
        amounts: &[u32],
        lacking: &mut Lacking,
    ) {
        let keep = nodes.saturating_add(MOST_SEARCHED / 2);
        let mut kept: Vec<u32> = Vec::new();
        let pool = std::mem::take(&mut self.pool);
        let mut offers = std::mem::take(&mut self.offers);
        let ways = if self.wide.is_empty() { 1 } else { 2 };
        for way in 0..ways {
            for gpus in amounts {
                let mut seen = Lacking::default();
                offers.clear();
                offers.extend(
                    pool.iter().filter_map(|node| {
                        self.offer(state, request, *node, *gpus, false, &mut seen)
                    }),
                );
                if way == 0 {
                    *lacking = seen;
                }
                if offers.len() > keep {
                    offers.select_nth_unstable(keep);
                    offers.truncate(keep);
                }
                kept.extend(offers.iter().map(|offer| offer.node));
            }
            if ways > 1 {
                std::mem::swap(&mut self.prices, &mut self.spread);
            }
        }
        self.wide.truncate(MOST_SEEDS / 8);
        for job in &self.wide {
            kept.extend(state.shares_of(*job).iter().map(|share| share.node));
        }
        kept.sort_unstable();
        kept.dedup();
        self.pool = pool;
        self.pool.clear();
        self.pool.extend_from_slice(&kept);
        self.offers = offers;
    }

    /// The nodes that give most GPUs as they are: (GPUs, node).
    fn best_as_they_are(&self, state: &State, request: &Request, gpus: u32) -> Vec<(u32, u32)> {
        let mut free: Vec<(u32, u32)> = (0_u32..)
            .zip(state.nodes())
            .map(|(node, _)| (self.yield_of(state, request, node, gpus), node))
            .filter(|(gives, _)| *gives > 0)
            .collect();
        free.sort_unstable_by_key(|(gives, node)| (Reverse(*gives), *node));
        free.truncate(at(request.node_range().1));
        free
    }

    /// Prices for the choice of nodes: what a job on several nodes costs is worth it for all of them.
    fn spread_prices(&mut self, state: &State, request: &Request) {
        self.wide.clear();
        self.spread.clear();
        if request.node_range().1 < 2 {
            return;
        }
        for (job, fate) in (0_u32..).zip(&self.fates) {
            if *fate == Fate::Candidate && state.shares_of(job).len() > 1 {
                self.wide.push(job);
            }
        }
        if self.wide.is_empty() {
            return;
        }
        self.spread.extend_from_slice(&self.prices);
        for job in &self.wide {
            let nodes = state
                .shares_of(*job)
                .iter()
                .filter(|share| state.nodes().get(at(share.node)).is_some_and(|n| n.usable))
                .count();
            let nodes = nodes.clamp(1, at(request.node_range().1));
            let nodes = u64::try_from(nodes).unwrap_or(1);
            if let Some(price) = self.spread.get_mut(at(*job)) {
                price.cost = price.cost.checked_div(nodes).unwrap_or(0).max(1);
                price.run = price.run.checked_div(nodes).unwrap_or(0);
            }
        }
        // The likeliest to be good first victims.
        let prices = &self.spread;
        self.wide.sort_unstable_by_key(|job| {
            let price = prices.get(at(*job)).copied().unwrap_or_default();
            (Reverse(price.place), price.cost, price.run)
        });
        self.wide.truncate(MOST_SEEDS);
    }

    /// Tries a spread of GPUs over nodes: by what each node costs alone, by spread prices, and with each of
    /// the jobs on several nodes as the first victim.
    fn attempt(
        &mut self,
        state: &State,
        request: &Request,
        kept: &[(u32, u32)],
        steps: &[(usize, u32)],
        best: &mut Option<Choice>,
        lacking: &mut Lacking,
    ) {
        let mut keep = |found: Option<Choice>| {
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.loss < best.loss)
            {
                *best = Some(found);
            }
        };
        let found = self.choose(state, request, kept, steps, None, lacking);
        let is_feasible = found.is_some();
        keep(found);
        let is_simple = steps.iter().map(|(nodes, _)| nodes).sum::<usize>() < 2;
        if self.wide.is_empty() || !is_feasible || is_simple {
            return;
        }
        let mut unused = Lacking::default();
        std::mem::swap(&mut self.prices, &mut self.spread);
        let found = self.choose(state, request, kept, steps, None, &mut unused);
        std::mem::swap(&mut self.prices, &mut self.spread);
        keep(found.map(|found| self.priced(found)));
        let wide = std::mem::take(&mut self.wide);
        for seed in &wide {
            let found = self.choose(state, request, kept, steps, Some(*seed), &mut unused);
            keep(found);
        }
        self.wide = wide;
    }

    /// A choice with its true loss.
    fn priced(&self, mut choice: Choice) -> Choice {
        choice.loss = self.loss_of(&choice.victims);
        choice
    }

    fn loss_of(&self, victims: &[u32]) -> Loss {
        victims.iter().fold(Loss::NONE, |loss, job| {
            loss.with(&self.prices.get(at(*job)).copied().unwrap_or_default())
        })
    }

    /// Takes nodes step by step, the cheapest first, and gives back the jobs that are not needed. All is as
    /// before when it returns.
    fn choose(
        &mut self,
        state: &State,
        request: &Request,
        kept: &[(u32, u32)],
        steps: &[(usize, u32)],
        seed: Option<u32>,
        lacking: &mut Lacking,
    ) -> Option<Choice> {
        let mut choice = Choice {
            nodes: kept.iter().map(|(_, node)| *node).collect(),
            ..Choice::default()
        };
        choice.victims.extend(seed);
        if let Some(job) = seed {
            self.take(state, request, job);
        }
        let is_chosen = steps.iter().all(|(nodes, gpus)| match nodes {
            1 => self.step(state, request, *gpus, &mut choice, lacking),
            _ => self.steps(state, request, *nodes, *gpus, &mut choice, lacking),
        });
        if is_chosen {
            self.drop_unneeded(state, request, &mut choice);
            choice.loss = self.loss_of(&choice.victims);
        }
        for job in &choice.victims {
            self.put_back(state, request, *job);
        }
        is_chosen.then_some(choice)
    }

    /// Takes the nodes that can give most GPUs, all jobs on them first, class by class until it is enough, and
    /// gives back those that are not needed. It finds some way wherever there is one, and takes no class higher
    /// than it must.
    fn all_out(&mut self, state: &State, request: &Request, gpus: u32) -> Option<Choice> {
        let (least, _) = request.node_range();
        let mut taken: Vec<u32> = Vec::new();
        let mut found = None;
        for place in (0..CLASSES).rev() {
            let before = taken.len();
            for (job, price) in (0_u32..).zip(&self.prices) {
                if usize::from(price.place) == place
                    && self.fates.get(at(job)) == Some(&Fate::Candidate)
                {
                    taken.push(job);
                }
            }
            for job in taken.iter().skip(before) {
                self.take(state, request, *job);
            }
            if taken.len() == before {
                continue;
            }
            let nodes = self.best_as_they_are(state, request, gpus);
            found = share_out(&nodes, least, gpus);
            if found.is_some() {
                break;
            }
        }
        let mut choice = Choice::default();
        if let Some(shares) = &found {
            choice.nodes.extend(shares.iter().map(|(node, _)| *node));
            choice.victims.append(&mut taken);
            self.drop_unneeded(state, request, &mut choice);
            choice.loss = self.loss_of(&choice.victims);
        }
        for job in taken.iter().chain(&choice.victims) {
            self.put_back(state, request, *job);
        }
        found.is_some().then_some(choice)
    }

    /// What a node costs: exactly, with the jobs in `search.jobs`, or at least.
    fn offer(
        &mut self,
        state: &State,
        request: &Request,
        node: u32,
        gpus: u32,
        is_exact: bool,
        lacking: &mut Lacking,
    ) -> Option<Offer> {
        let there = self.there(node);
        let want = self.want(state, request, node, gpus)?;
        let deficit = want.minus(there);
        let mut offer = Offer {
            loss: Loss::NONE,
            spare: there.gpus.saturating_sub(want.gpus),
            node,
            is_exact: true,
            stamp: self.stamps.get(at(node)).copied().unwrap_or(0),
        };
        if deficit == Amount::NONE {
            self.search.jobs.clear();
            return Some(offer);
        }
        let board = Board {
            kind: request.kind,
            fates: &self.fates,
            prices: &self.prices,
            classes: self.classes,
        };
        let shares = state.shares_on(node);
        match at_least(&board, shares, deficit) {
            Ok(_) if is_exact => offer.loss = self.search.cheapest(&board, shares, deficit),
            Ok(loss) => {
                offer.loss = loss;
                offer.is_exact = false;
            }
            Err(lack) => {
                let count = match (lack.gpus, lack.cores) {
                    (true, _) => &mut lacking.gpus,
                    (_, true) => &mut lacking.cores,
                    _ => &mut lacking.memory,
                };
                *count = count.saturating_add(1);
                return None;
            }
        }
        Some(offer)
    }

    /// Takes the one cheapest node.
    fn step(
        &mut self,
        state: &State,
        request: &Request,
        gpus: u32,
        choice: &mut Choice,
        lacking: &mut Lacking,
    ) -> bool {
        let pool = std::mem::take(&mut self.pool);
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        let mut likeliest: Option<Offer> = None;
        for node in pool.iter().copied() {
            if !choice.nodes.contains(&node)
                && let Some(offer) = self.offer(state, request, node, gpus, false, lacking)
            {
                if likeliest.is_none_or(|likeliest| offer < likeliest) {
                    likeliest = Some(offer);
                }
                offers.push(offer);
            }
        }
        // The likeliest first: most others need no search then.
        let mut best: Option<Offer> = None;
        let mut jobs = Vec::new();
        for bound in likeliest.iter().chain(&offers) {
            if best.is_some_and(|best| *bound >= best) {
                continue;
            }
            let found = self.offer(state, request, bound.node, gpus, true, lacking);
            if let Some(exact) = found
                && best.is_none_or(|best| exact < best)
            {
                best = Some(exact);
                jobs.clear();
                jobs.extend_from_slice(&self.search.jobs);
            }
        }
        self.offers = offers;
        self.pool = pool;
        let Some(best) = best else {
            return false;
        };
        choice.nodes.push(best.node);
        for job in &jobs {
            self.take(state, request, *job);
        }
        choice.victims.append(&mut jobs);
        true
    }

    /// Takes several nodes. The price of a node falls when a job on it goes for another's sake.
    fn steps(
        &mut self,
        state: &State,
        request: &Request,
        nodes: usize,
        gpus: u32,
        choice: &mut Choice,
        lacking: &mut Lacking,
    ) -> bool {
        self.stamps.clear();
        self.stamps.resize(state.nodes().len(), 0);
        let mut offers = std::mem::take(&mut self.heap).into_vec();
        offers.clear();
        let pool = std::mem::take(&mut self.pool);
        for node in pool.iter().copied() {
            if !choice.nodes.contains(&node)
                && let Some(offer) = self.offer(state, request, node, gpus, false, lacking)
            {
                offers.push(Reverse(offer));
            }
        }
        self.pool = pool;
        let mut heap = BinaryHeap::from(offers);
        let mut unused = Lacking::default();
        let until = choice.nodes.len().saturating_add(nodes);
        while choice.nodes.len() < until {
            let Some(Reverse(offer)) = heap.pop() else {
                break;
            };
            if self.stamps.get(at(offer.node)) != Some(&offer.stamp) {
                continue;
            }
            let Some(exact) = self.offer(state, request, offer.node, gpus, true, &mut unused)
            else {
                continue;
            };
            if !offer.is_exact && heap.peek().is_some_and(|Reverse(next)| *next < exact) {
                heap.push(Reverse(exact));
                continue;
            }
            choice.nodes.push(offer.node);
            if let Some(stamp) = self.stamps.get_mut(at(offer.node)) {
                *stamp = u32::MAX;
            }
            let jobs = std::mem::take(&mut self.search.jobs);
            for job in &jobs {
                self.take(state, request, *job);
            }
            for job in &jobs {
                for share in state.shares_of(*job) {
                    let Some(stamp) = self.stamps.get_mut(at(share.node)) else {
                        continue;
                    };
                    if *stamp == u32::MAX || choice.nodes.contains(&share.node) {
                        continue;
                    }
                    *stamp = stamp.saturating_add(1);
                    if let Some(offer) =
                        self.offer(state, request, share.node, gpus, false, &mut unused)
                    {
                        heap.push(Reverse(offer));
                    }
                }
            }
            choice.victims.extend_from_slice(&jobs);
            self.search.jobs = jobs;
        }
        let is_enough = choice.nodes.len() == until;
        self.heap = heap;
        is_enough
    }

    /// Whether the request fits on the nodes as they are.
    fn fits_on(&self, state: &State, request: &Request, nodes: &[u32]) -> bool {
        match request.gpus {
            Gpus::PerNode(gpus) => nodes.iter().all(|node| {
                let want = self.want(state, request, *node, gpus);
                want.is_some_and(|want| self.there(*node).covers(want))
            }),
            Gpus::Total(gpus) => {
                let mut sum = 0_u32;
                nodes.iter().all(|node| {
                    let gives = self.yield_of(state, request, *node, gpus);
                    sum = sum.saturating_add(gives);
                    gives > 0
                }) && sum >= gpus
            }
        }
    }

    /// Leaves out nodes that are not needed, those that were taken last first, and gives back the victims that
    /// are not, dear ones first.
    fn drop_unneeded(&mut self, state: &State, request: &Request, choice: &mut Choice) {
        let (least, _) = request.node_range();
        if matches!(request.gpus, Gpus::Total(_)) {
            for place in (0..choice.nodes.len()).rev() {
                if choice.nodes.len() <= at(least) {
                    break;
                }
                let node = choice.nodes.remove(place);
                if !self.fits_on(state, request, &choice.nodes) {
                    choice.nodes.insert(place, node);
                }
            }
        }
        let prices = &self.prices;
        choice.victims.sort_unstable_by_key(|job| {
            let price = prices.get(at(*job)).copied().unwrap_or_default();
            (price.place, Reverse((price.cost, price.run)), *job)
        });
        let mut needed = Vec::with_capacity(choice.victims.len());
        let mut nodes = Vec::new();
        for job in std::mem::take(&mut choice.victims) {
            self.put_back(state, request, job);
            nodes.clear();
            let shares = state.shares_of(job).iter().map(|share| share.node);
            nodes.extend(shares.filter(|node| choice.nodes.contains(node)));
            if nodes.is_empty() {
                continue;
            }
            // All nodes count together when the GPUs do.
            let touched = match request.gpus {
                Gpus::PerNode(_) => &nodes,
                Gpus::Total(_) => &choice.nodes,
            };
            if !self.fits_on(state, request, touched) {
                self.take(state, request, job);
                needed.push(job);
            }
        }
        choice.victims = needed;
    }

    /// The plan of a choice, with those of other preemptors' victims that it needs.
    fn finish(
        &mut self,
        state: &State,
        request: &Request,
        choice: Choice,
        pledged: &[u32],
        lacking: Lacking,
    ) -> Plan {
        for job in &choice.victims {
            self.take(state, request, *job);
        }
        let mut shared = Vec::new();
        for job in pledged {
            self.put_back(state, request, *job);
            if !self.fits_on(state, request, &choice.nodes) {
                self.take(state, request, *job);
                shared.push(*job);
            }
        }
        let (least, _) = request.node_range();
        let nodes = match request.gpus {
            Gpus::PerNode(gpus) => choice.nodes.iter().map(|node| (*node, gpus)).collect(),
            Gpus::Total(gpus) => {
                let mut gives: Vec<(u32, u32)> = choice
                    .nodes
                    .iter()
                    .map(|node| (self.yield_of(state, request, *node, gpus), *node))
                    .collect();
                gives.sort_unstable_by_key(|(gives, node)| (Reverse(*gives), *node));
                share_out(&gives, least, gpus).unwrap_or_default()
            }
        };
        let victim = |job: &u32, cost| {
            let place = at(*job);
            let known = state.jobs().get(place).zip(state.sizes().get(place));
            known.map(|(job, size)| Victim {
                job: job.id,
                start: job.start,
                gpus: size.gpus,
                cost,
            })
        };
        let cost = |job: &u32| self.prices.get(at(*job)).map_or(0, |price| price.cost);
        let mut own = choice.victims;
        own.sort_unstable_by_key(|job| (Reverse(cost(job)), *job));
        let victims = own
            .iter()
            .filter_map(|job| victim(job, cost(job)))
            .chain(shared.iter().filter_map(|job| victim(job, 0)))
            .collect();
        Plan {
            nodes,
            victims,
            loss: choice.loss,
            lacking,
        }
    }
}

fn without_victims(nodes: Vec<(u32, u32)>) -> Plan {
    Plan {
        nodes,
        ..Plan::default()
    }
}

/// Shares GPUs out over (most, node), at least one each and on at least so many nodes.
fn share_out(most: &[(u32, u32)], least: u32, gpus: u32) -> Option<Vec<(u32, u32)>> {
    let mut left = gpus;
    let mut shares: Vec<(u32, u32)> = Vec::new();
    for (place, (gives, node)) in (0_u32..).zip(most) {
        // One each for the nodes still to come.
        let later = least.saturating_sub(place).saturating_sub(1);
        let here = (*gives).min(left.saturating_sub(later));
        if here == 0 {
            break;
        }
        left = left.saturating_sub(here);
        shares.push((*node, here));
    }
    (left == 0 && shares.len() >= at(least)).then_some(shares)
}

/// Ways to spread GPUs over nodes, of which the largest has so many: how many of the nodes that give some as
/// they are stay as they are, and (nodes, GPUs on each) of the others.
fn spreads(
    request: &Request,
    gpus: u32,
    free: &[(u32, u32)],
    largest: u32,
) -> Vec<(usize, Vec<(usize, u32)>)> {
    let (least, most) = request.node_range();
    let mut ways: Vec<(usize, Vec<(usize, u32)>)> = Vec::new();
    let mut last = 0;
    for nodes in least..=most {
        for kept in 0..=free.len().min(at(nodes)) {
            let given = free.iter().take(kept).map(|(gives, _)| *gives);
            let left = gpus.saturating_sub(given.fold(0, u32::saturating_add));
            let others = nodes.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
            if others == 0 || left < others {
                continue;
            }
            let each = left.div_ceil(others);
            if each > largest {
                continue;
            }
            // More nodes with as many on each are no other way.
            if kept == 0 && each == last && nodes > least {
                continue;
            }
            if kept == 0 {
                last = each;
            }
            let full = left.checked_div(each).unwrap_or(0).min(others);
            let rest = left.saturating_sub(full.saturating_mul(each));
            let singles = others
                .saturating_sub(full)
                .saturating_sub(u32::from(rest > 0));
            // Nodes that must be there and have one each, taken from the last full ones.
            let way = if singles == 0 {
                [(full, each), (1_u32.min(rest), rest)]
            } else {
                let low = left.checked_div(others).unwrap_or(0);
                let high = left.saturating_sub(low.saturating_mul(others));
                [
                    (high, low.saturating_add(1)),
                    (others.saturating_sub(high), low),
                ]
            };
            let steps = way
                .into_iter()
                .filter(|(nodes, gpus)| *nodes > 0 && *gpus > 0)
                .map(|(nodes, gpus)| (at(nodes), gpus))
                .collect();
            ways.push((kept, steps));
            if ways.len() >= MOST_SPREADS {
                return ways;
            }
        }
    }
    ways
}
