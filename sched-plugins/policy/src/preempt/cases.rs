//! States and the right decisions, each worked out by hand.
//!
//! Nodes 0 to 3 have 8 GPUs and 64 cores. Jobs start `age` seconds ago. A GPU-second costs 1,000.

use super::*;

const NOW: i64 = 1_700_000_000;
/// A job pushes others out whose class is lower.
const LOW: u32 = 10;

fn rules() -> Rules {
    Rules::new(&sgpu_config::Preempt::default(), 40)
}

/// A cluster in the making: what is not taken is free.
struct Cluster {
    nodes: Vec<Node>,
    jobs: Vec<(Job, Vec<Share>)>,
}

impl Cluster {
    fn new() -> Self {
        let mut node = Node {
            usable: true,
            total: Host {
                cores: 64,
                memory: 512,
            },
            ..Node::default()
        };
        node.gpus[0] = Pool {
            kind: 1,
            total: 8,
            free: 8,
            coming: 0,
        };
        node.free = node.total;
        Self {
            nodes: vec![node; 4],
            jobs: Vec::new(),
        }
    }

    /// (GPUs, cores) of a node are taken by a job.
    fn run(&mut self, id: u32, age: i64, node: u32, gpus: u16, cores: u32) -> &mut Job {
        let host = &mut self.nodes[node as usize];
        host.gpus[0].free -= gpus;
        host.free.cores -= cores;
        let job = Job {
            id,
            class: LOW,
            start: NOW - age,
            end: i64::MAX,
            ..Job::default()
        };
        let share = Share {
            node,
            kind: 1,
            gpus,
            cores,
            memory: 0,
        };
        self.jobs.push((job, vec![share]));
        &mut self.jobs.last_mut().unwrap().0
    }

    /// A job that runs on several nodes is on this one, too.
    fn also(&mut self, id: u32, node: u32, gpus: u16, cores: u32) {
        let host = &mut self.nodes[node as usize];
        host.gpus[0].free -= gpus;
        host.free.cores -= cores;
        let (_, shares) = self.jobs.iter_mut().find(|(job, _)| job.id == id).unwrap();
        shares.push(Share {
            node,
            kind: 1,
            gpus,
            cores,
            memory: 0,
        });
    }

    /// A job was told to go: what it has is coming free.
    fn tell(&mut self, id: u32) {
        let place = self.jobs.iter().position(|(job, _)| job.id == id).unwrap();
        for share in self.jobs.remove(place).1 {
            let host = &mut self.nodes[share.node as usize];
            host.gpus[0].coming += share.gpus;
            host.coming.cores += share.cores;
        }
    }

    /// What is coming free is free.
    fn settle(&mut self) {
        for host in &mut self.nodes {
            host.gpus[0].free += std::mem::take(&mut host.gpus[0].coming);
            host.free.cores += std::mem::take(&mut host.coming.cores);
        }
    }

    fn state(&self) -> State {
        let mut state = State::new();
        for node in &self.nodes {
            state.add_node(*node);
        }
        for (job, shares) in &self.jobs {
            assert!(state.add_job(*job, shares));
        }
        state.seal();
        state
    }

    fn outcome(&self, request: &Request) -> Outcome {
        let (rules, claims) = (rules(), Claims::new());
        let context = Context {
            now: NOW,
            rules: &rules,
            claims: &claims,
            pledged: &[],
            trust_coming: true,
        };
        Planner::new().plan(&self.state(), request, &context)
    }

    fn victims(&self, request: &Request) -> Vec<u32> {
        match self.outcome(request) {
            Outcome::Push(plan) => {
                let mut jobs: Vec<u32> = plan.victims.iter().map(|victim| victim.job).collect();
                jobs.sort_unstable();
                jobs
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Four jobs of 8 GPUs, the oldest on node 0: 1 to 4.
fn four_full() -> Cluster {
    let mut cluster = Cluster::new();
    for (id, age) in (1..).zip([1200, 1100, 1000, 900]) {
        cluster.run(id, age, id - 1, 8, 32);
    }
    cluster
}

fn evaluate(all: &mut Preemptors, cluster: &Cluster, request: &Request, now: i64) -> Verdict {
    all.evaluate(&cluster.state(), request, None, &rules(), now)
        .verdict
}

fn planned(all: &Preemptors, job: u32) -> Vec<u32> {
    let plan = all.plan(job).unwrap();
    plan.victims.iter().map(|victim| victim.job).collect()
}

#[test]
fn burst_four_small_jobs_take_one_victim() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    assert_eq!(
        evaluate(&mut all, &cluster, &Request::one_node(41, 1), NOW),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [4]);
    let offered = all.offered(41).unwrap();
    assert!(offered.allows(4, NOW - 900) && !offered.allows(3, NOW - 1000));
    // The next comes before the victim was told: it shares it, at no cost.
    assert_eq!(
        evaluate(&mut all, &cluster, &Request::one_node(42, 1), NOW),
        Verdict::Push
    );
    assert_eq!(planned(&all, 42), [4]);
    assert_eq!(all.plan(42).unwrap().loss, Loss::NONE);
    // The others after it was.
    cluster.tell(4);
    for job in [43, 44] {
        assert_eq!(
            evaluate(&mut all, &cluster, &Request::one_node(job, 1), NOW + 1),
            Verdict::Wait(Reason::Coming)
        );
        assert_eq!(all.plan(job).unwrap().nodes, [(3, 1)]);
    }
    // Eight fit there and no ninth.
    for job in 45..=48 {
        assert_eq!(
            evaluate(&mut all, &cluster, &Request::one_node(job, 1), NOW + 1),
            Verdict::Wait(Reason::Coming)
        );
    }
    assert_eq!(
        evaluate(&mut all, &cluster, &Request::one_node(49, 1), NOW + 1),
        Verdict::Push
    );
    assert_eq!(planned(&all, 49), [3]);
    assert_eq!(all.claims().len(), 9);
}

#[test]
fn right_size_four_gpus_for_four() {
    let mut cluster = Cluster::new();
    cluster.run(1, 1000, 0, 8, 32);
    for id in 11..=18 {
        cluster.run(id, 1000, 1, 1, 4);
    }
    cluster.run(21, 1000, 2, 4, 16);
    cluster.run(22, 1000, 2, 4, 16);
    cluster.run(31, 1000, 3, 8, 32);
    // Four jobs of one GPU lose as much as one of four: the fewer.
    let victims = cluster.victims(&Request::one_node(41, 4));
    assert!(victims == [21] || victims == [22], "{victims:?}");
    // Five GPUs: five small ones, rather than two of four.
    assert_eq!(cluster.victims(&Request::one_node(41, 5)).len(), 5);
}

#[test]
fn age_the_youngest_goes() {
    assert_eq!(four_full().victims(&Request::one_node(41, 8)), [4]);
    // And among those that lose no more by their age.
    let mut cluster = four_full();
    for (job, _) in &mut cluster.jobs {
        job.start -= 100_000;
    }
    assert_eq!(cluster.victims(&Request::one_node(41, 8)), [4]);
}

#[test]
fn a_checkpoint_beats_age() {
    let mut cluster = four_full();
    cluster.jobs[0].0.checkpoint = Some(NOW - 60);
    assert_eq!(cluster.victims(&Request::one_node(41, 8)), [1]);
    // One of the future counts as one of now, not as more.
    cluster.jobs[1].0.checkpoint = Some(NOW + 9999);
    assert_eq!(cluster.victims(&Request::one_node(41, 8)), [2]);
    match cluster.outcome(&Request::one_node(41, 8)) {
        Outcome::Push(plan) => assert_eq!(plan.loss.total(), 8 * 120 * 1000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_low_class_goes_before_a_high_one() {
    let mut cluster = four_full();
    for (job, class) in cluster.jobs.iter_mut().zip([10, 30, 20, 20]) {
        job.0.class = class;
    }
    // The oldest, but of the lowest class.
    assert_eq!(cluster.victims(&Request::one_node(41, 8)), [1]);
    let two = Request {
        nodes: 2,
        ..Request::one_node(41, 8)
    };
    assert_eq!(cluster.victims(&two), [1, 4]);
}

#[test]
fn top_up_one_victim_beside_the_idle_gpu() {
    let mut cluster = Cluster::new();
    for id in 11..=17 {
        cluster.run(id, 1000 + i64::from(id), 0, 1, 4);
    }
    for id in 1..=3 {
        cluster.run(id, 1000, id, 8, 32);
    }
    // Of the seven the youngest.
    assert_eq!(cluster.victims(&Request::one_node(41, 2)), [11]);
}

#[test]
fn cpu_bound_one_job_without_gpus() {
    let mut cluster = Cluster::new();
    for (id, age) in (1..).zip([900, 1000, 1100, 1200]) {
        cluster.run(id, age, id - 1, 0, 62);
    }
    let request = Request {
        cores: 8,
        ..Request::one_node(41, 4)
    };
    assert_eq!(cluster.victims(&request), [1]);
    // Two cores are left on each node.
    let small = Request {
        cores: 2,
        ..request
    };
    assert!(matches!(cluster.outcome(&small), Outcome::Free(_)));
}

#[test]
fn innocent_bystanders_stay() {
    let mut cluster = four_full();
    for node in 0..3 {
        cluster.nodes[node].usable = false;
    }
    for id in 11..=13 {
        cluster.run(id, 10, 3, 0, 4);
    }
    let request = Request {
        cores: 8,
        ..Request::one_node(41, 8)
    };
    assert_eq!(cluster.victims(&request), [4]);
    // 64 - 32 - 12 are free, and 32 from the job: 52 in all. One bystander has to go for 56.
    let more = Request {
        cores: 56,
        ..request
    };
    assert_eq!(cluster.victims(&more).len(), 2);
}

#[test]
fn in_flight_waits_for_what_another_has_pushed_out() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    let (one, two) = (Request::one_node(41, 1), Request::one_node(42, 2));
    assert_eq!(evaluate(&mut all, &cluster, &one, NOW), Verdict::Push);
    cluster.tell(4);
    assert_eq!(
        evaluate(&mut all, &cluster, &two, NOW + 1),
        Verdict::Wait(Reason::Coming)
    );
    // Six are left. Eight fit only when the first has gone, and its claim with it.
    let eight = Request::one_node(43, 8);
    let six = Request::one_node(44, 5);
    assert_eq!(
        evaluate(&mut all, &cluster, &six, NOW + 2),
        Verdict::Wait(Reason::Coming)
    );
    all.forget(44);
    all.forget(42);
    all.forget(41);
    assert!(all.claims().is_empty());
    assert_eq!(
        evaluate(&mut all, &cluster, &eight, NOW + 3),
        Verdict::Wait(Reason::Coming)
    );
    all.retain(|job| job != 43);
    assert!(all.claims().is_empty() && all.plan(43).is_none());
}

#[test]
fn a_higher_priority_does_not_give_way() {
    let mut cluster = four_full();
    cluster.tell(1);
    let mut all = Preemptors::new();
    let first = Request {
        priority: 5,
        ..Request::one_node(41, 8)
    };
    let higher = Request {
        priority: 6,
        ..Request::one_node(42, 8)
    };
    for request in [first, higher] {
        assert_eq!(
            evaluate(&mut all, &cluster, &request, NOW),
            Verdict::Wait(Reason::Coming)
        );
    }
    // The first has to look elsewhere now.
    assert_eq!(evaluate(&mut all, &cluster, &first, NOW + 1), Verdict::Push);
}

#[test]
fn never_worth_it() {
    let mut cluster = four_full();
    cluster.jobs[2].0.end = NOW + 40;
    let request = Request::one_node(41, 8);
    // One ends by itself in 40 s.
    assert!(matches!(cluster.outcome(&request), Outcome::Coming(_)));
    // None ends soon, but backfill has the request start in 95 s.
    cluster.jobs[2].0.end = NOW + 600;
    let mut all = Preemptors::new();
    let mut ask = |expected: i64, now: i64| {
        let state = cluster.state();
        all.evaluate(&state, &request, Some(expected), &rules(), now)
            .verdict
    };
    assert_eq!(ask(NOW + 95, NOW), Verdict::Wait(Reason::Soon(95)));
    assert_eq!(ask(NOW + 95, NOW + 20), Verdict::Wait(Reason::Soon(75)));
    // A start that is put off for longer than the gain is none.
    assert_eq!(ask(NOW + 200, NOW + 121), Verdict::Push);
    // One that is over, or far off, says nothing.
    let mut all = Preemptors::new();
    let state = cluster.state();
    for (job, expected) in [(51, NOW - 1), (52, NOW + 121)] {
        let request = Request::one_node(job, 8);
        let answer = all.evaluate(&state, &request, Some(expected), &rules(), NOW);
        assert_eq!(answer.verdict, Verdict::Push);
    }
}

#[test]
fn exempt_and_infeasible_have_no_victims() {
    let mut cluster = four_full();
    for (job, _) in &mut cluster.jobs {
        job.exempt = true;
    }
    let request = Request::one_node(41, 8);
    assert!(matches!(
        cluster.outcome(&request),
        Outcome::Infeasible(Lacking { gpus: 4, .. })
    ));
    // Nodes with GPUs of another kind.
    let other = Request {
        kind: Some(2),
        ..request
    };
    assert!(matches!(
        four_full().outcome(&other),
        Outcome::Infeasible(_)
    ));
    // One node more than there are, and one GPU more than a node has.
    let five = Request {
        nodes: 5,
        ..request
    };
    assert!(matches!(four_full().outcome(&five), Outcome::Infeasible(_)));
    let nine = Request::one_node(41, 9);
    assert!(matches!(four_full().outcome(&nine), Outcome::Infeasible(_)));
    // Half of what it needs can be had: nobody goes.
    let mut half = four_full();
    for (job, _) in half.jobs.iter_mut().take(3) {
        job.exempt = true;
    }
    let two = Request {
        nodes: 2,
        ..request
    };
    assert!(matches!(half.outcome(&two), Outcome::Infeasible(_)));
    let mut all = Preemptors::new();
    for second in 0..50 {
        let verdict = evaluate(&mut all, &half, &two, NOW + second);
        assert!(matches!(verdict, Verdict::Wait(Reason::Infeasible(_))));
        assert!(!all.offered(41).unwrap().allows(1, NOW - 1200));
    }
}

#[test]
fn whole_nodes_need_all_to_go() {
    let mut cluster = Cluster::new();
    cluster.run(1, 100, 0, 2, 8);
    cluster.run(2, 100, 0, 0, 8);
    for id in 3..=5 {
        cluster.run(id, 1000, id - 2, 8, 32);
    }
    let alone = Request {
        exclusive: true,
        ..Request::one_node(41, 1)
    };
    assert_eq!(cluster.victims(&alone), [1, 2]);
}

#[test]
fn a_job_on_several_nodes_is_paid_for_once() {
    let mut cluster = Cluster::new();
    // One job on two nodes, and one each on the others: cheaper by node, dearer together.
    cluster.run(1, 500, 0, 8, 32);
    cluster.also(1, 1, 8, 32);
    cluster.run(2, 400, 2, 8, 32);
    cluster.run(3, 800, 3, 8, 32);
    let two = Request {
        nodes: 2,
        ..Request::one_node(41, 8)
    };
    // 16 * (500 + 120) = 9920 against 8 * (520 + 920) = 11520.
    assert_eq!(cluster.victims(&two), [1]);
    assert_eq!(cluster.victims(&Request::one_node(41, 8)), [2]);
    let three = Request { nodes: 3, ..two };
    assert_eq!(cluster.victims(&three), [1, 2]);
}

#[test]
fn gpus_in_all_are_spread_as_is_cheapest() {
    let mut cluster = four_full();
    cluster.nodes[0].usable = false;
    // Six of node 1 are free, of the others none.
    cluster.jobs.remove(1);
    cluster.nodes[1].gpus[0].free = 6;
    let total = |gpus, nodes, most_nodes| Request {
        gpus: Gpus::Total(gpus),
        nodes,
        most_nodes,
        ..Request::one_node(41, 0)
    };
    assert!(matches!(cluster.outcome(&total(6, 1, 4)), Outcome::Free(_)));
    match cluster.outcome(&total(8, 1, 4)) {
        Outcome::Push(plan) => {
            let mut nodes = plan.nodes.clone();
            nodes.sort_unstable();
            assert_eq!(plan.victims.len(), 1);
            assert_eq!(plan.victims[0].job, 4);
            assert_eq!(nodes.iter().map(|(_, gpus)| gpus).sum::<u32>(), 8);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        cluster.outcome(&total(15, 1, 1)),
        Outcome::Infeasible(_)
    ));
}

#[test]
fn a_plan_stays_until_its_victims_are_gone() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    let request = Request {
        nodes: 2,
        ..Request::one_node(41, 8)
    };
    assert_eq!(evaluate(&mut all, &cluster, &request, NOW), Verdict::Push);
    assert_eq!(planned(&all, 41), [3, 4]);
    // Another became cheaper meanwhile: that does not count.
    cluster.jobs[0].0.checkpoint = Some(NOW);
    let answer = all.evaluate(&cluster.state(), &request, None, &rules(), NOW + 30);
    assert_eq!((answer.verdict, answer.is_new), (Verdict::Push, false));
    assert_eq!(planned(&all, 41), [3, 4]);
    // One is told, then the other; both are gone.
    cluster.tell(4);
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 31),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [3, 4]);
    cluster.tell(3);
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 32),
        Verdict::Wait(Reason::Coming)
    );
    cluster.settle();
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 40),
        Verdict::Wait(Reason::Free)
    );
    assert_eq!(all.counters().plans, 1);
    assert_eq!(all.counters().victims, 2);
}

#[test]
fn another_run_of_a_victim_is_none() {
    let cluster = four_full();
    let mut all = Preemptors::new();
    evaluate(&mut all, &cluster, &Request::one_node(41, 8), NOW);
    let offered = all.offered(41).unwrap();
    assert_eq!(offered.rank(4, NOW - 900), Some(0));
    assert!(!offered.allows(4, NOW - 10));
}

#[test]
fn a_node_that_fails_ends_a_plan() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    let request = Request::one_node(41, 8);
    evaluate(&mut all, &cluster, &request, NOW);
    cluster.nodes[3].usable = false;
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 1),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [3]);
}

#[test]
fn a_plan_that_nobody_carries_out_is_over() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    let request = Request::one_node(41, 8);
    evaluate(&mut all, &cluster, &request, NOW);
    cluster.jobs[0].0.checkpoint = Some(NOW);
    // Slurm's 40 s and a minute.
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 100),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [4]);
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 101),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [1]);
    // The clock goes back: a little changes nothing, much does.
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 50),
        Verdict::Push
    );
    assert_eq!(all.counters().plans, 2);
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW - 90),
        Verdict::Push
    );
    assert_eq!(all.counters().plans, 3);
}

#[test]
fn all_is_offered_when_it_should_have_started_and_has_not() {
    let mut cluster = four_full();
    let mut all = Preemptors::new();
    let request = Request::one_node(41, 8);
    evaluate(&mut all, &cluster, &request, NOW);
    cluster.tell(4);
    evaluate(&mut all, &cluster, &request, NOW + 1);
    cluster.settle();
    for second in [30, 60, 90] {
        assert_eq!(
            evaluate(&mut all, &cluster, &request, NOW + second),
            Verdict::Wait(Reason::Free)
        );
        // Once more in the same second does not count.
        assert_eq!(
            evaluate(&mut all, &cluster, &request, NOW + second),
            Verdict::Wait(Reason::Free)
        );
    }
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 120),
        Verdict::Widen
    );
    assert!(all.offered(41).unwrap().allows(1, NOW - 1200));
    assert!(all.claims().is_empty());
    // For one pass.
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 150),
        Verdict::Wait(Reason::Free)
    );
    assert_eq!(all.counters().widened, 1);
}

#[test]
fn what_never_comes_free_is_not_waited_for_for_ever() {
    let mut cluster = four_full();
    cluster.tell(1);
    let mut all = Preemptors::new();
    let request = Request::one_node(41, 8);
    for second in (0..=100).step_by(20) {
        assert_eq!(
            evaluate(&mut all, &cluster, &request, NOW + second),
            Verdict::Wait(Reason::Coming)
        );
    }
    assert_eq!(
        evaluate(&mut all, &cluster, &request, NOW + 120),
        Verdict::Push
    );
    assert_eq!(planned(&all, 41), [4]);
}

#[test]
fn no_preemptor_is_refused_for_ever() {
    // Whatever the state, all is offered or victims are named within some minutes.
    let mut full = four_full();
    for (job, _) in &mut full.jobs {
        job.exempt = true;
    }
    let mut all = Preemptors::new();
    let mut widened = 0;
    for second in (0..3600).step_by(30) {
        let verdict = evaluate(&mut all, &full, &Request::one_node(41, 8), NOW + second);
        widened += i32::from(verdict == Verdict::Widen);
    }
    // Every 120 s from the first on, after four askings and more than 100 s.
    assert!((20..=30).contains(&widened), "{widened}");
}

#[test]
fn a_requeue_storm_ends_with_the_budget() {
    // 1,000 nodes of one job of 8 GPUs, each costing 8 * (300 + 120) GPU-seconds, 14/15 of a GPU-hour.
    let mut cluster = Cluster::new();
    let node = cluster.nodes[0];
    cluster.nodes = vec![node; 1000];
    for id in 1..=1000 {
        cluster.run(id, 300, id - 1, 8, 32);
    }
    let site = sgpu_config::Preempt {
        max_lost_gpu_hours_per_hour: Some(10.0),
        ..sgpu_config::Preempt::default()
    };
    let rules = Rules::new(&site, 40);
    let mut all = Preemptors::new();
    let state = cluster.state();
    let mut pushed = 0;
    let mut first = None;
    for job in 2001..=2100 {
        let request = Request::one_node(job, 8);
        match all.evaluate(&state, &request, None, &rules, NOW).verdict {
            Verdict::Push => pushed += 1,
            Verdict::Wait(Reason::Budget { is_first }) if is_first => {
                assert_eq!(first.replace(job), None);
            }
            Verdict::Wait(Reason::Budget { .. }) => assert!(first.is_some()),
            other => panic!("{other:?}"),
        }
    }
    // Ten cost 9 1/3 GPU-hours, eleven 10 4/15.
    assert_eq!((pushed, first), (10, Some(2011)));
    assert_eq!(all.counters().refused, 90);
    // An hour later there is room again.
    let request = Request::one_node(2050, 8);
    let later = all.evaluate(&state, &request, None, &rules, NOW + 3660);
    assert_eq!(later.verdict, Verdict::Push);
}

#[test]
fn no_more_preemptors_than_there_is_room_for() {
    let mut cluster = Cluster::new();
    cluster.run(1, 100, 0, 0, 1);
    let state = cluster.state();
    let mut all = Preemptors::new();
    for job in 2..=1500 {
        let request = Request {
            priority: u64::from(job),
            ..Request::one_node(job, 1)
        };
        all.evaluate(&state, &request, None, &rules(), NOW);
    }
    assert_eq!(all.claims().len(), 1024);
    assert_eq!(all.counters().stock, 1499 - 1024);
    assert!(all.offered(1500).is_none());
}
