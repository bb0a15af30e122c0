//! Times of the decisions: a plan on 1,000 nodes with 5,000 running jobs, and the factors of 10,000 pending ones.
//!
//! `cargo bench -p sched-policy` prints them.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sched_policy::preempt::{
    Claims, Context, Gpus, Host, Job, Node, Outcome, Planner, Pool, Request, Rules, Share, State,
};
use sched_policy::site_factor::{
    Finished, History, Holes, Mix, Pending, Settings, Tables, factor, kind_of,
};

const NOW: i64 = 1_000_000;
const NODES: u32 = 1000;
const JOBS: u32 = 5000;

/// A small number, told from another one.
fn noise(of: u32, below: u32) -> u32 {
    let mut z = u64::from(of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u32::try_from((z >> 32) % u64::from(below)).unwrap_or(0)
}

/// Full nodes of eight GPUs, each with jobs of 4, 1, 1, 1 and 1; every tenth job is half of one on the next
/// node as well. `same`: all are of one age.
fn fill(state: &mut State, same: bool) {
    state.clear();
    for _ in 0..NODES {
        let mut node = Node {
            usable: true,
            total: Host {
                cores: 64,
                memory: 512_000,
            },
            free: Host {
                cores: 24,
                memory: 112_000,
            },
            ..Node::default()
        };
        node.gpus[0] = Pool {
            kind: 1,
            total: 8,
            free: 0,
            coming: 0,
        };
        state.add_node(node);
    }
    for number in 0..JOBS {
        let node = number / 5;
        let share = |node| Share {
            node,
            kind: 1,
            gpus: if number % 5 == 0 { 4 } else { 1 },
            cores: 8,
            memory: 80_000,
        };
        let wide = [share(node), share((node + 1) % NODES)];
        let is_wide = number % 10 == 9;
        let job = Job {
            id: number + 1,
            class: noise(number, 3),
            start: NOW
                - if same {
                    50_000
                } else {
                    i64::from(noise(number, 90_000))
                },
            end: NOW + 100_000,
            checkpoint: (!same && number % 3 == 0).then_some(NOW - i64::from(noise(number, 3000))),
            ..Job::default()
        };
        state.add_job(job, &wide[..if is_wide { 2 } else { 1 }]);
    }
    state.seal();
}

fn plans(criterion: &mut Criterion) {
    let rules = Rules::new(&sgpu_config::Preempt::default(), 40);
    let claims = Claims::new();
    let context = Context {
        now: NOW,
        rules: &rules,
        claims: &claims,
        pledged: &[],
        trust_coming: true,
    };
    let mut state = State::new();
    criterion.bench_function("fill", |b| b.iter(|| fill(black_box(&mut state), false)));
    let requests = [
        ("1x4", Request::one_node(9999, 4)),
        ("1x8", Request::one_node(9999, 8)),
        (
            "8x8",
            Request {
                nodes: 8,
                ..Request::one_node(9999, 8)
            },
        ),
        (
            "64x8",
            Request {
                nodes: 64,
                ..Request::one_node(9999, 8)
            },
        ),
        (
            "total 16",
            Request {
                gpus: Gpus::Total(16),
                nodes: 2,
                most_nodes: 4,
                ..Request::one_node(9999, 0)
            },
        ),
    ];
    for same in [false, true] {
        fill(&mut state, same);
        for (name, request) in &requests {
            let mut planner = Planner::new();
            let name = format!("plan {name}{}", if same { ", one age" } else { "" });
            criterion.bench_function(&name, |b| {
                b.iter(|| {
                    let outcome = planner.plan(&state, black_box(request), &context);
                    assert!(matches!(outcome, Outcome::Push(_)));
                    outcome
                });
            });
        }
    }
}

/// 10,000 pending jobs of 1,000 kinds: prediction and factor of each.
fn factors(criterion: &mut Criterion) {
    let mut history = History::new();
    let name = |number: u32| format!("train_{}", "x".repeat(1 + number as usize % 20));
    let kind = |number: u32| kind_of(number % 50, "physics", &name(number), 1 << (number % 4));
    for number in 0..5000 {
        history.learn(&Finished {
            kind: kind(number),
            run_seconds: 60 + noise(number, 50_000),
            limit_seconds: Some(86_400),
            end: NOW,
        });
    }
    let mut mix = Mix::default();
    (0..500).for_each(|number| mix.arrive(1 << (number % 4), 1));
    let settings = Settings::default();
    let free = || (0..NODES).map(|node| noise(node, 9));
    let tables = Tables {
        holes: Holes::new(free(), &mix, 8),
    };
    let jobs: Vec<_> = (0..10_000)
        .map(|number| {
            let job = Pending {
                gpus: 1 << (number % 4),
                per_node: 1 << (number % 4),
                partition_gpus: 8000,
                wait_seconds: noise(number, 90_000),
                ..Pending::default()
            };
            (kind(number), job)
        })
        .collect();
    criterion.bench_function("holes", |b| b.iter(|| Holes::new(free(), &mix, 8)));
    criterion.bench_function("10,000 factors", |b| {
        b.iter(|| {
            jobs.iter().fold(0_u64, |sum, (kind, job)| {
                let job = Pending {
                    predicted_seconds: history.predict(kind, Some(86_400), NOW),
                    ..*job
                };
                sum.wrapping_add(u64::from(factor(&job, &tables, &settings)))
            })
        });
    });
}

criterion_group!(benches, plans, factors);
criterion_main!(benches);
