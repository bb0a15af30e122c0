//! A picture of a replay: GPUs in use over time, and how many jobs waited how long.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::runs::Went;
use crate::workload::{Job, Shape};

/// A policy's line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its name.
    pub policy: &'a str,
    /// What became of the jobs.
    pub went: &'a [Went],
}

/// Points of a line.
const POINTS: u32 = 400;

/// The picture, as SVG.
///
/// # Errors
/// Of the drawing library.
pub fn svg(jobs: &[Job], shape: &Shape, lines: &[Line<'_>]) -> Result<String> {
    let mut text = String::new();
    {
        let all = SVGBackend::with_string(&mut text, (900, 760)).into_drawing_area();
        draw(&all, jobs, shape, lines).map_err(|error| anyhow!("the chart: {error}"))?;
        all.present()
            .map_err(|error| anyhow!("the chart: {error}"))?;
    }
    Ok(text)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds and GPUs of a replay are far below 2^53"
)]
fn draw<D: DrawingBackend>(
    all: &DrawingArea<D, plotters::coord::Shift>,
    jobs: &[Job],
    shape: &Shape,
    lines: &[Line<'_>],
) -> Result<(), DrawingAreaErrorKind<D::ErrorType>> {
    all.fill(&WHITE)?;
    let (upper, lower) = all.split_vertically(380);
    let ends = lines.iter().flat_map(|line| line.went);
    let end = ends
        .filter_map(|went| went.runs.last())
        .map(|run| run.end_s);
    let hours = end.max().unwrap_or(1) as f64 / 3600.0;
    let mut use_of_time = chart(&upper, "share of GPUs in use", 0.0..hours, 0.0..1.02)?;
    use_of_time
        .configure_mesh()
        .x_desc("hours since the first submission")
        .draw()?;
    let longest = lines
        .iter()
        .flat_map(|line| line.went)
        .map(wait_minutes)
        .fold(1.0, f64::max);
    let mut waits = chart(
        &lower,
        "share of jobs that waited no longer",
        (0.1..longest * 1.1).log_scale(),
        0.0..1.02,
    )?;
    waits.configure_mesh().x_desc("minutes waited").draw()?;
    for (number, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let legend = move |(x, y): (i32, i32)| {
            PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
        };
        let points = (0..=POINTS).map(|point| {
            let at = hours * 3600.0 * f64::from(point) / f64::from(POINTS);
            (
                at / 3600.0,
                busy(jobs, line.went, at) / f64::from(shape.gpus()),
            )
        });
        use_of_time
            .draw_series(LineSeries::new(points, colour.stroke_width(1)))?
            .label(line.policy)
            .legend(legend);
        let mut sorted: Vec<f64> = line.went.iter().map(wait_minutes).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len().max(1) as f64;
        let points = sorted
            .into_iter()
            .zip(1_u32..)
            .map(|(wait, place)| (wait.max(0.1), f64::from(place) / count));
        waits
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(line.policy)
            .legend(legend);
    }
    waits
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.8))
        .draw()
}

type Plot<'a, D, X> = ChartContext<'a, D, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>;

fn chart<'a, D: DrawingBackend, X: plotters::coord::ranged1d::AsRangedCoord<Value = f64>>(
    area: &'a DrawingArea<D, plotters::coord::Shift>,
    title: &str,
    x: X,
    y: std::ops::Range<f64>,
) -> Result<Plot<'a, D, X::CoordDescType>, DrawingAreaErrorKind<D::ErrorType>> {
    ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(x, y)
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a replay")]
fn wait_minutes(went: &Went) -> f64 {
    let start = went.runs.first().map_or(0, |run| run.start_s);
    start.saturating_sub(went.submit_s) as f64 / 60.0
}

/// GPUs in use at a time.
#[expect(clippy::cast_precision_loss, reason = "seconds of a replay")]
fn busy(jobs: &[Job], went: &[Went], at: f64) -> f64 {
    let pairs = jobs.iter().zip(went);
    pairs
        .filter(|(_, went)| {
            let mut runs = went.runs.iter();
            runs.any(|run| run.start_s as f64 <= at && at < run.end_s as f64)
        })
        .map(|(job, _)| f64::from(job.gpus))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{End, Run};
    use crate::workload::{Class, Mix};

    #[test]
    fn each_policy_has_its_lines() {
        let job = Job {
            submit_s: 0,
            run_s: 100,
            limit_minutes: 5,
            gpus: 4,
            account: "a".into(),
            class: Class::Low,
            checkpoint_s: None,
        };
        let went = [Went {
            submit_s: 0,
            runs: vec![Run {
                start_s: 60,
                end_s: 160,
                end: End::Completed,
            }],
            checkpoints_s: vec![],
        }];
        let shape = Shape {
            nodes: 1,
            gpus_per_node: 8,
            jobs: 1,
            load: 1.0,
            mix: Mix::Trace,
            longest_s: 100,
            seed: 1,
        };
        let jobs = [job];
        assert!((busy(&jobs, &went, 59.0)).abs() < 1e-9);
        assert!((busy(&jobs, &went, 60.0) - 4.0).abs() < 1e-9);
        assert!((busy(&jobs, &went, 160.0)).abs() < 1e-9);
        let line = |policy| Line {
            policy,
            went: &went,
        };
        let svg = svg(&jobs, &shape, &[line("fair"), line("fifo")]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["fair", "fifo", "minutes waited", "share of GPUs in use"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
