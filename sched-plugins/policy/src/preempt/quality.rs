//! Plans against the optimum, on many small states.
//!
//! The objective is [`Loss`]: the highest class first, then cost, then the time that victims have run, then
//! their number. Victims are needless as far as a plan has more of them than the optimum.

use super::cover::Fate;
use super::exact::{fits, optimum};

use super::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn small(&mut self, end: u64) -> u32 {
        u32::try_from(self.below(end)).unwrap()
    }
}

const NOW: i64 = 1_000_000;

fn pool(node: &mut Node, kind: u16) -> Option<&mut Pool> {
    node.gpus.iter_mut().find(|pool| pool.kind == kind)
}

/// Nodes that jobs were put on one by one, as far as they fitted.
fn random_state(random: &mut Random) -> State {
    let (nodes, jobs) = (1 + random.below(5), 1 + random.small(9));
    state_of(random, nodes, jobs)
}

fn state_of(random: &mut Random, many_nodes: u64, many_jobs: u32) -> State {
    let mut nodes = Vec::new();
    for _ in 0..many_nodes {
        let mut node = Node {
            usable: !random.one_in(12),
            total: Host {
                cores: 16 << random.below(2),
                memory: 100,
            },
            ..Node::default()
        };
        let total = [2, 4, 8][usize::try_from(random.below(3)).unwrap()];
        node.gpus[0] = Pool {
            kind: 1,
            total,
            free: total,
            coming: 0,
        };
        if random.one_in(3) {
            node.gpus[1] = Pool {
                kind: 2,
                total: 2,
                free: 2,
                coming: 0,
            };
        }
        node.free = node.total;
        nodes.push(node);
    }
    let mut jobs = Vec::new();
    for id in 1..=many_jobs {
        let gpus = [0, 1, 1, 2, 2, 4, 4, 8][usize::try_from(random.below(8)).unwrap()];
        let kind = if random.one_in(4) { 2 } else { 1 };
        let cores = [1, 2, 4, 12][usize::try_from(random.below(4)).unwrap()];
        let memory = random.below(30);
        let wide = if random.one_in(3) {
            2 + random.below(2)
        } else {
            1
        };
        let fitting: Vec<usize> = (0..nodes.len())
            .filter(|place| {
                let node: &mut Node = &mut nodes[*place];
                node.free.cores >= cores
                    && node.free.memory >= memory
                    && (gpus == 0 || pool(node, kind).is_some_and(|pool| pool.free >= gpus))
            })
            .collect();
        if fitting.is_empty() {
            continue;
        }
        let first = usize::try_from(random.below(997)).unwrap();
        let wide = usize::try_from(wide).unwrap().min(fitting.len());
        let mut shares = Vec::new();
        // One job in ten is on its way out already.
        let is_going = random.one_in(10);
        for step in 0..wide {
            let place = fitting[(first + step) % fitting.len()];
            let node = &mut nodes[place];
            node.free.cores -= cores;
            node.free.memory -= memory;
            if is_going {
                node.coming.cores += cores;
                node.coming.memory += memory;
            }
            if let Some(pool) = pool(node, kind)
                && gpus > 0
            {
                pool.free -= gpus;
                pool.coming += if is_going { gpus } else { 0 };
            }
            shares.push(Share {
                node: u32::try_from(place).unwrap(),
                kind,
                gpus,
                cores,
                memory,
            });
        }
        let age = i64::from(random.small(20_000));
        let job = Job {
            id,
            class: random.small(3) * 10,
            start: NOW - age,
            end: NOW + i64::from(random.small(2000)),
            checkpoint: random
                .one_in(2)
                .then(|| NOW - i64::from(random.small(4000))),
            restarts: random.small(3),
            restart_seconds: None,
            exempt: random.one_in(8),
        };
        if !is_going {
            jobs.push((job, shares));
        }
    }
    let mut state = State::new();
    for node in nodes {
        state.add_node(node);
    }
    for (job, shares) in jobs {
        assert!(state.add_job(job, &shares));
    }
    state.seal();
    state
}

fn random_request(random: &mut Random) -> Request {
    let nodes = [1, 1, 1, 2, 2, 3][usize::try_from(random.below(6)).unwrap()];
    let gpus = match random.below(6) {
        0 => Gpus::PerNode(0),
        1..4 => Gpus::PerNode([1, 2, 4, 8][usize::try_from(random.below(4)).unwrap()]),
        _ => Gpus::Total(nodes + random.small(10)),
    };
    Request {
        job: 1000,
        priority: 5,
        nodes,
        most_nodes: nodes + random.small(3),
        gpus,
        kind: [None, Some(1), Some(1), Some(2)][usize::try_from(random.below(4)).unwrap()],
        cores: 1 + random.small(12),
        memory: random.below(60),
        cores_per_gpu: random.small(3),
        memory_per_gpu: random.below(8),
        exclusive: random.one_in(10),
    }
}

fn random_claims(random: &mut Random, state: &State) -> Claims {
    let mut claims = Claims::new();
    if random.one_in(3) {
        let nodes = u64::try_from(state.nodes().len()).unwrap();
        let amount = Amount {
            gpus: random.small(3),
            cores: random.small(3),
            memory: random.below(9),
        };
        claims.put(Claim {
            job: 999,
            priority: 4 + random.below(3),
            kind: random.one_in(2).then_some(1),
            nodes: vec![(random.small(nodes), amount)],
        });
    }
    claims
}

#[test]
fn ten_thousand_small_states() {
    let rules = Rules::new(&sgpu_config::Preempt::default(), 40);
    let mut random = Random(20_260_101);
    let mut planner = Planner::new();
    let (mut pushed, mut infeasible, mut worse) = (0, 0, 0);
    let (mut best_victims, mut needless, mut best_cost, mut more_cost) = (0, 0, 0_u64, 0);
    let mut higher_class = 0;
    for case in 0..10_000 {
        let state = random_state(&mut random);
        let request = random_request(&mut random);
        let claims = random_claims(&mut random, &state);
        let context = Context {
            now: NOW,
            rules: &rules,
            claims: &claims,
            pledged: &[],
            trust_coming: true,
        };
        let best = optimum(&state, &request, &context);
        let found = planner.plan(&state, &request, &context);
        match (&best, &found) {
            (None, Outcome::Infeasible(_)) => infeasible += 1,
            (Some((loss, _)), Outcome::Free(_) | Outcome::Coming(_)) if *loss == Loss::NONE => {}
            (Some((loss, victims)), Outcome::Push(plan)) if *loss != Loss::NONE => {
                pushed += 1;
                let is_victim = |job, start| {
                    let mut victims = plan.victims.iter();
                    victims.any(|victim| (victim.job, victim.start) == (job, start))
                };
                assert!(
                    planner.holds(&state, &request, &context, &plan.nodes, is_victim),
                    "{case}"
                );
                let lost: u64 = plan.victims.iter().map(|victim| victim.cost).sum();
                assert_eq!(lost, plan.loss.total(), "{case}");
                assert_eq!(plan.victims.len(), plan.loss.jobs as usize, "{case}");
                assert!(plan.loss >= *loss, "{case}");
                worse += i32::from(plan.loss > *loss);
                let highest = |loss: &Loss| loss.by_class.iter().position(|cost| *cost > 0);
                higher_class += i32::from(highest(&plan.loss) < highest(loss));
                best_victims += victims.len();
                needless += plan.victims.len().saturating_sub(victims.len());
                best_cost += loss.total();
                more_cost += plan.loss.total().saturating_sub(loss.total());
            }
            other => panic!("case {case}: {other:?}\n{request:?}\n{state:#?}"),
        }
    }
    println!(
        "{pushed} plans, {infeasible} infeasible; {worse} worse than the optimum, {higher_class} with a higher \
         class; {needless} needless victims of {best_victims}; {more_cost} more cost of {best_cost}"
    );
    assert!(pushed > 1000 && infeasible > 1000);
    assert!(needless * 50 <= best_victims);
    assert!(worse * 50 <= pushed);
    assert_eq!(higher_class, 0);
}

#[test]
fn nobody_waits_without_end() {
    let rules = Rules::new(&sgpu_config::Preempt::default(), 40);
    let mut random = Random(7);
    for case in 0..300 {
        let state = random_state(&mut random);
        let requests: Vec<Request> = (1000..1003)
            .map(|job| Request {
                job,
                ..random_request(&mut random)
            })
            .collect();
        let mut all = Preemptors::new();
        let mut helped = [false; 3];
        // Nothing that is said ever comes true, and backfill has each start soon.
        for now in (NOW..NOW + 4 * 3600).step_by(30) {
            for (request, helped) in requests.iter().zip(&mut helped) {
                let answer = all.evaluate(&state, request, Some(now + 60), &rules, now);
                let offered = all.offered(request.job).unwrap();
                let any = |job: &Job| !job.exempt && offered.allows(job.id, job.start);
                match answer.verdict {
                    Verdict::Push => {
                        assert!(state.jobs().iter().any(any), "{case}");
                        *helped = true;
                    }
                    Verdict::Widen => *helped = true,
                    Verdict::Wait(_) => assert!(!state.jobs().iter().any(any), "{case}"),
                    Verdict::Stock => panic!("{case}"),
                }
            }
        }
        assert_eq!(helped, [true; 3], "{case}: {requests:?}\n{state:#?}");
    }
}

#[test]
fn large_states_have_a_plan_whenever_there_is_one() {
    let rules = Rules::new(&sgpu_config::Preempt::default(), 40);
    let mut random = Random(11);
    let mut planner = Planner::new();
    let (mut pushed, mut infeasible) = (0, 0);
    for case in 0..400 {
        let state = state_of(&mut random, 100, 500);
        let request = Request {
            nodes: 1 + random.small(40),
            ..random_request(&mut random)
        };
        let request = Request {
            most_nodes: request.nodes + random.small(20),
            gpus: match request.gpus {
                Gpus::Total(gpus) => Gpus::Total(request.nodes + gpus * random.small(12)),
                per_node => per_node,
            },
            ..request
        };
        let claims = random_claims(&mut random, &state);
        let context = Context {
            now: NOW,
            rules: &rules,
            claims: &claims,
            pledged: &[],
            trust_coming: true,
        };
        let with = |gone: &dyn Fn(&Job) -> bool| {
            let is_soon = |job: &Job| job.end.abs_diff(NOW) <= 60;
            let fate = |job: &Job| match is_soon(job) || gone(job) {
                true => Fate::Gone,
                false => Fate::Stays,
            };
            let fates: Vec<Fate> = state.jobs().iter().map(fate).collect();
            fits(&state, &request, &context, &fates)
        };
        match planner.plan(&state, &request, &context) {
            Outcome::Push(plan) => {
                pushed += 1;
                let is_victim = |job: &Job| plan.victims.iter().any(|v| v.job == job.id);
                assert!(!with(&|_| false) && with(&is_victim), "{case}");
                let places = plan.nodes.iter().map(|(node, _)| *node);
                let places: std::collections::BTreeSet<u32> = places.collect();
                assert_eq!(places.len(), plan.nodes.len(), "{case}");
                let gpus: u32 = plan.nodes.iter().map(|(_, gpus)| gpus).sum();
                match request.gpus {
                    Gpus::PerNode(each) => assert_eq!(gpus, each * request.nodes, "{case}"),
                    Gpus::Total(all) => assert_eq!(gpus, all, "{case}"),
                }
                // No victim is needless where all others go.
                for spared in &plan.victims {
                    let others = |job: &Job| is_victim(job) && job.id != spared.job;
                    assert!(
                        !holds_without(&mut planner, &state, &request, &context, &plan, &others),
                        "{case}"
                    );
                }
            }
            Outcome::Infeasible(_) => {
                infeasible += 1;
                assert!(!with(&|job| !job.exempt), "{case}: {request:?}");
            }
            Outcome::Free(_) | Outcome::Coming(_) => assert!(with(&|_| false), "{case}"),
        }
    }
    assert!(pushed > 50 && infeasible > 50, "{pushed} {infeasible}");
}

fn holds_without(
    planner: &mut Planner,
    state: &State,
    request: &Request,
    context: &Context<'_>,
    plan: &Plan,
    goes: &dyn Fn(&Job) -> bool,
) -> bool {
    planner.holds(state, request, context, &plan.nodes, |job, start| {
        let mut jobs = state.jobs().iter();
        jobs.any(|other| (other.id, other.start) == (job, start) && goes(other))
    })
}
