//! Figures side by side: for people, and as CSV.

use std::fmt::Write as _;

use crate::metrics::{Figures, SIZES};
use crate::trust::Pace;

/// A policy's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The policy.
    pub policy: String,
    /// The seed of the jobs.
    pub seed: u64,
    /// What it made of them.
    pub figures: Figures,
    /// slurmctld's pace.
    pub pace: Pace,
}

/// A table for people: the figures that policies are chosen by.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "policy            load   alloc  useful  wait s mean/p95     high    low    >8 GPUs p95  slowdown  \
         preempt  victim GPUs  lost GPU-h  Jain\n",
    );
    for row in rows {
        let figures = &row.figures;
        let _ = writeln!(
            text,
            "{:<17} {:.2}  {:.3}  {:.3}  {:>7.0} /{:>7.0}  {:>7.0} {:>7.0}  {:>11.0}  {:>8.2}  {:>7}  {:>11}  \
             {:>10.1}  {:.3}",
            row.policy,
            figures.load,
            figures.allocation,
            figures.useful,
            figures.wait.mean,
            figures.wait.p95,
            figures.wait_by_class[2].mean,
            figures.wait_by_class[0].mean,
            figures.wait_by_size[3].p95,
            figures.slowdown.mean,
            figures.preemptions,
            figures.victim_gpus,
            figures.lost_gpu_hours,
            figures.jain
        );
    }
    text
}

/// All figures, a row for each policy and seed.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut head = vec!["policy".to_owned(), "seed".into()];
    for row in rows.iter().take(1) {
        head.extend(columns(row).into_iter().map(|(name, _)| name));
    }
    let mut text = head.join(",") + "\n";
    for row in rows {
        let mut cells = vec![row.policy.clone(), row.seed.to_string()];
        cells.extend(
            columns(row)
                .into_iter()
                .map(|(_, value)| format!("{value:.4}")),
        );
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn columns(row: &Row) -> Vec<(String, f64)> {
    let figures = &row.figures;
    let mut all: Vec<(String, f64)> = vec![
        ("load".into(), figures.load),
        ("allocation".into(), figures.allocation),
        ("useful".into(), figures.useful),
    ];
    let mut spread = |name: &str, spread: &crate::metrics::Spread| {
        for (part, value) in [
            ("mean", spread.mean),
            ("p50", spread.p50),
            ("p95", spread.p95),
            ("p99", spread.p99),
            ("max", spread.max),
        ] {
            all.push((format!("{name}_{part}"), value));
        }
    };
    spread("wait_s", &figures.wait);
    for ((name, _), size) in SIZES.iter().zip(&figures.wait_by_size) {
        spread(&format!("wait_s_{name}_gpus"), size);
    }
    for (name, class) in ["low", "usual", "high"].iter().zip(&figures.wait_by_class) {
        spread(&format!("wait_s_{name}"), class);
    }
    spread("completion_s", &figures.completion);
    spread("bounded_slowdown", &figures.slowdown);
    spread("finish_time_fairness", &figures.fairness);
    all.extend([
        ("makespan_s".into(), figures.makespan_s as f64),
        ("preemptions".into(), figures.preemptions as f64),
        ("victim_gpus".into(), figures.victim_gpus as f64),
        ("lost_gpu_hours".into(), figures.lost_gpu_hours),
        ("jain".into(), figures.jain),
        ("starved_jobs".into(), figures.starved as f64),
        ("late_p95_s".into(), row.pace.late_p95_s as f64),
        ("main_cycle_mean_s".into(), row.pace.main_mean_s),
        ("backfill_cycle_mean_s".into(), row.pace.backfill_mean_s),
    ]);
    all
}
