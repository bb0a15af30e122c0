//! A decision in one line of the log.

use std::fmt::Write as _;

use super::plan::{Lacking, Plan};
use super::request::{Gpus, Request};
use super::sticky::{Reason, Verdict};

/// More victims than this are only counted.
const MOST_NAMED: usize = 8;

/// `preempt: job 41 needs 4 GPUs on 1 node: job 17 (4 GPUs, 12 GPU-min lost); 3 nodes lack cores`.
#[must_use]
pub fn explain(request: &Request, verdict: &Verdict, plan: Option<&Plan>) -> String {
    let mut line = format!("preempt: job {} needs {}: ", request.job, needs(request));
    // Writing to a String never fails.
    let _ = match verdict {
        Verdict::Wait(Reason::Free) => write!(line, "it fits on what is free"),
        Verdict::Wait(Reason::Coming) => write!(line, "it waits for what is coming free"),
        Verdict::Wait(Reason::Soon(seconds)) => {
            write!(line, "it would start by itself in {seconds} s")
        }
        Verdict::Wait(Reason::Budget { is_first }) => {
            let first = if *is_first {
                ", it is the first refused"
            } else {
                ""
            };
            write!(
                line,
                "this hour's budget of lost GPU-hours is used up{first}"
            )
        }
        Verdict::Wait(Reason::Infeasible(lacking)) => {
            write!(line, "it fits nowhere, whoever goes{}", lacks(lacking))
        }
        Verdict::Push => {
            let plan = plan.map(victims).unwrap_or_default();
            write!(line, "{plan}")
        }
        Verdict::Widen => write!(
            line,
            "it should have started and has not; all jobs that Slurm allows are offered once"
        ),
        Verdict::Stock => write!(line, "too many preemptors; Slurm decides"),
    };
    line
}

fn needs(request: &Request) -> String {
    let nodes = count(u64::from(request.nodes.max(1)), "node");
    let what = match request.gpus {
        Gpus::PerNode(0) => {
            let cores = count(u64::from(request.cores), "core");
            if request.nodes > 1 {
                format!("{cores} on each of {nodes}")
            } else {
                format!("{cores} on {nodes}")
            }
        }
        Gpus::PerNode(gpus) => {
            let all = u64::from(gpus).saturating_mul(u64::from(request.nodes.max(1)));
            format!("{} on {nodes}", count(all, "GPU"))
        }
        Gpus::Total(gpus) if request.most_nodes > request.nodes => {
            format!("{} on {nodes} or more", count(u64::from(gpus), "GPU"))
        }
        Gpus::Total(gpus) => format!("{} on {nodes}", count(u64::from(gpus), "GPU")),
    };
    if request.exclusive {
        format!("{what} alone")
    } else {
        what
    }
}

fn victims(plan: &Plan) -> String {
    let mut words: Vec<String> = plan
        .victims
        .iter()
        .take(MOST_NAMED)
        .map(|victim| {
            let gpus = count(u64::from(victim.gpus), "GPU");
            if victim.cost == 0 {
                format!("job {} ({gpus}, going for another)", victim.job)
            } else {
                format!("job {} ({gpus}, {} lost)", victim.job, time(victim.cost))
            }
        })
        .collect();
    let more = plan.victims.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        words.push(format!("{more} more ({} in all)", time(plan.loss.total())));
    }
    let lacks = lacks(&plan.lacking);
    format!("{}{lacks}", words.join(", "))
}

fn lacks(lacking: &Lacking) -> String {
    let what = [
        (lacking.gpus, "GPUs"),
        (lacking.cores, "cores"),
        (lacking.memory, "memory"),
    ];
    what.into_iter()
        .filter(|(nodes, _)| *nodes > 0)
        .map(|(nodes, what)| {
            let verb = if nodes == 1 { "lacks" } else { "lack" };
            format!("; {} {verb} {what}", count(u64::from(nodes), "node"))
        })
        .collect()
}

/// Thousandths of a GPU-second in GPU-minutes, small ones to a tenth.
fn time(cost: u64) -> String {
    let tenths = cost.saturating_add(3000) / 6000;
    if tenths < 100 {
        format!("{}.{} GPU-min", tenths / 10, tenths % 10)
    } else {
        format!("{} GPU-min", tenths.saturating_add(5) / 10)
    }
}

fn count(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {what}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preempt::{Loss, Victim};

    fn victim(job: u32, gpus: u32, cost: u64) -> Victim {
        Victim {
            job,
            start: 0,
            gpus,
            cost,
        }
    }

    #[test]
    fn one_line_says_it() {
        let request = Request::one_node(41, 4);
        let plan = Plan {
            victims: vec![victim(17, 4, 720_000), victim(9, 1, 0)],
            lacking: Lacking {
                gpus: 0,
                cores: 3,
                memory: 1,
            },
            ..Plan::default()
        };
        assert_eq!(
            explain(&request, &Verdict::Push, Some(&plan)),
            "preempt: job 41 needs 4 GPUs on 1 node: job 17 (4 GPUs, 12 GPU-min lost), \
             job 9 (1 GPU, going for another); 3 nodes lack cores; 1 node lacks memory"
        );
        let many = Plan {
            victims: (1..=10).map(|job| victim(job, 1, 6000)).collect(),
            loss: Loss {
                by_class: [0, 60_000, 0, 0, 0, 0],
                ..Loss::NONE
            },
            ..Plan::default()
        };
        let line = explain(&request, &Verdict::Push, Some(&many));
        assert!(line.ends_with("job 8 (1 GPU, 0.1 GPU-min lost), 2 more (1.0 GPU-min in all)"));
        let two = Request {
            nodes: 2,
            gpus: Gpus::PerNode(0),
            cores: 8,
            exclusive: true,
            ..request
        };
        assert_eq!(
            explain(&two, &Verdict::Wait(Reason::Soon(45)), None),
            "preempt: job 41 needs 8 cores on each of 2 nodes alone: it would start by itself in 45 s"
        );
        for verdict in [
            Verdict::Wait(Reason::Free),
            Verdict::Wait(Reason::Coming),
            Verdict::Wait(Reason::Budget { is_first: true }),
            Verdict::Wait(Reason::Infeasible(Lacking::default())),
            Verdict::Widen,
            Verdict::Stock,
        ] {
            let line = explain(&request, &verdict, None);
            assert!(line.len() > 50 && !line.contains('\n'), "{line}");
        }
    }
}
