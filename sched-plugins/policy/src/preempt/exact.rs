//! The optimum for small states, by trying all sets of victims.

use super::cover::Fate;
use super::plan::Context;
use super::request::{Gpus, Request};
use super::state::at;
use super::{Amount, Loss, State, loss};

/// The least loss with which the request fits, and the victims; `None` when it does not fit at all.
///
/// Counts nothing that the planner computes: nodes and jobs are gone through anew for each set.
pub(crate) fn optimum(
    state: &State,
    request: &Request,
    context: &Context<'_>,
) -> Option<(Loss, Vec<u32>)> {
    let mut classes: Vec<u32> = state
        .jobs()
        .iter()
        .filter(|job| !job.exempt)
        .map(|job| job.class)
        .collect();
    classes.sort_unstable_by(|a, b| b.cmp(a));
    classes.dedup();
    let jobs = u32::try_from(state.jobs().len()).unwrap();
    assert!(jobs <= 16);
    let soon = |job: u32| {
        let end = state.jobs()[at(job)].end;
        end.abs_diff(context.now) <= u64::from(context.rules.wait_short_seconds)
    };
    let mut best: Option<(Loss, Vec<u32>)> = None;
    for set in 0_u32..1 << jobs {
        let victims: Vec<u32> = (0..jobs).filter(|job| set >> job & 1 == 1).collect();
        if victims
            .iter()
            .any(|job| state.jobs()[at(*job)].exempt || soon(*job))
        {
            continue;
        }
        let mut sum = Loss::NONE;
        for job in &victims {
            let (known, size) = (&state.jobs()[at(*job)], state.sizes()[at(*job)]);
            let place = classes
                .iter()
                .position(|class| *class == known.class)
                .unwrap();
            let place = u8::try_from(place).unwrap();
            sum = sum.with(&loss::price(known, size, place, context.rules, context.now));
        }
        if best.as_ref().is_some_and(|(least, _)| *least <= sum) {
            continue;
        }
        let fates: Vec<Fate> = (0..jobs)
            .map(|job| match set >> job & 1 == 1 || soon(job) {
                true => Fate::Gone,
                false => Fate::Stays,
            })
            .collect();
        if fits(state, request, context, &fates) {
            best = Some((sum, victims));
        }
    }
    best
}

/// Whether a request fits where those that are gone are gone.
pub(crate) fn fits(
    state: &State,
    request: &Request,
    context: &Context<'_>,
    fates: &[Fate],
) -> bool {
    // How many GPUs each node can give; `None`: not even none.
    let mut gives: Vec<u32> = Vec::new();
    for (number, node) in (0_u32..).zip(state.nodes()) {
        if !node.usable {
            continue;
        }
        let mut there = node.idle(request.kind).plus(node.coming(request.kind));
        for (job, fate) in (0_u32..).zip(fates) {
            if *fate == Fate::Gone {
                for share in state.shares_of(job).iter().filter(|s| s.node == number) {
                    there = there.plus(share.amount(request.kind));
                }
            }
        }
        for claim in context.claims.against(request.job, request.priority) {
            let is_other = request
                .kind
                .is_some_and(|kind| claim.kind.is_some_and(|k| k != kind));
            for (_, amount) in claim.nodes.iter().filter(|(node, _)| *node == number) {
                let mut amount = *amount;
                if is_other {
                    amount.gpus = 0;
                }
                let fits_not = there.gpus < amount.gpus
                    || there.cores < amount.cores
                    || there.memory < amount.memory;
                there = if fits_not {
                    Amount::NONE
                } else {
                    there.minus(amount)
                };
            }
        }
        let whole = node.whole(request.kind);
        let can = |gpus: u32| {
            let wanted = Amount {
                gpus,
                cores: request.cores + gpus * request.cores_per_gpu,
                memory: request.memory + u64::from(gpus) * request.memory_per_gpu,
            };
            there.covers(wanted)
                && whole.covers(wanted)
                && (!request.exclusive || there.covers(whole))
        };
        match request.gpus {
            Gpus::PerNode(gpus) => gives.extend(can(gpus).then_some(1)),
            Gpus::Total(gpus) => gives.extend((1..=gpus).rev().find(|gpus| can(*gpus))),
        }
    }
    match request.gpus {
        Gpus::PerNode(_) => gives.len() >= at(request.nodes),
        Gpus::Total(gpus) => {
            gives.sort_unstable_by(|a, b| b.cmp(a));
            let most = gives.iter().take(at(request.node_range().1));
            gives.len() >= at(request.nodes) && most.sum::<u32>() >= gpus
        }
    }
}
