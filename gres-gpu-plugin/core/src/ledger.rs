//! Which joules of a GPU are whose: spans of its counter.
//!
//! A batch script runs beside the steps that it starts, on the same GPUs. What a step has of a GPU lies
//! between two readings of the GPU's counter, so what is nobody's can be told exactly, whatever comes
//! first at a job's end.

use std::fmt::Write as _;

/// What somebody has of a GPU, from one counter to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// [`Sensor::gpu`](crate::energy::Sensor::gpu).
    pub gpu: u64,
    /// Its counter when it began, in joules.
    pub from: u64,
    /// Its counter when it was last read.
    pub to: u64,
}

/// What a step has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// One per GPU.
    pub spans: Vec<Span>,
    /// Whether it still has its GPUs: then all that they use is its own.
    pub runs: bool,
}

/// Spans as text, one a line.
#[must_use]
pub fn to_text(spans: &[Span]) -> String {
    spans.iter().fold(String::new(), |mut text, span| {
        // Writing to a String never fails.
        let _ = writeln!(text, "{} {} {}", span.gpu, span.from, span.to);
        text
    })
}

/// The spans that a text holds; what is none is passed over.
#[must_use]
pub fn parse(text: &str) -> Vec<Span> {
    text.lines()
        .filter_map(|line| {
            let mut numbers = line.split(' ').map(|word| word.parse().ok());
            Some(Span {
                gpu: numbers.next()??,
                from: numbers.next()??,
                to: numbers.next()??,
            })
        })
        .collect()
}

/// The joules of `own` spans that no claim covers.
#[must_use]
pub fn unclaimed(own: &[Span], claims: &[Claim]) -> u64 {
    own.iter()
        .map(|span| {
            let mut others: Vec<(u64, u64)> = claims
                .iter()
                .flat_map(|claim| {
                    let of_gpu = claim.spans.iter().filter(|other| other.gpu == span.gpu);
                    of_gpu.map(|other| {
                        let to = if claim.runs { span.to } else { other.to };
                        (other.from.max(span.from), to.min(span.to))
                    })
                })
                .filter(|(from, to)| from < to)
                .collect();
            others.sort_unstable();
            let (mut free, mut at) = (0_u64, span.from);
            for (from, to) in others {
                free = free.saturating_add(from.saturating_sub(at));
                at = at.max(to);
            }
            free.saturating_add(span.to.saturating_sub(at))
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(gpu: u64, from: u64, to: u64) -> Span {
        Span { gpu, from, to }
    }

    fn claim(runs: bool, spans: &[Span]) -> Claim {
        Claim {
            spans: spans.to_vec(),
            runs,
        }
    }

    #[test]
    fn what_no_step_has_is_the_scripts() {
        // GPU 1 from 1000 to 5000, GPU 2 from 0 to 700.
        let own = [span(1, 1000, 5000), span(2, 0, 700)];
        assert_eq!(unclaimed(&own, &[]), 4700);
        // One step, then two that share GPU 1 in part.
        let ended = claim(false, &[span(1, 1500, 2500)]);
        assert_eq!(unclaimed(&own, std::slice::from_ref(&ended)), 3700);
        let shared = [
            claim(false, &[span(1, 2000, 3000)]),
            ended,
            claim(false, &[span(2, 600, 900)]),
        ];
        assert_eq!(unclaimed(&own, &shared), 4700 - 1500 - 100);
    }

    #[test]
    fn a_step_that_runs_has_all_since_it_began() {
        let own = [span(1, 1000, 5000)];
        // Its last reading is older than the script's.
        assert_eq!(
            unclaimed(&own, &[claim(true, &[span(1, 4000, 4100)])]),
            3000
        );
        assert_eq!(
            unclaimed(&own, &[claim(false, &[span(1, 4000, 4100)])]),
            3900
        );
    }

    #[test]
    fn odd_texts_are_passed_over() {
        assert_eq!(
            parse("1 2 3\n\nx\n4 5\n6 7 99999999999999999999\n8 9 10 more\n"),
            [span(1, 2, 3), span(8, 9, 10)]
        );
    }

    proptest! {
        #[test]
        fn print_and_parse(spans in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..9)) {
            let spans: Vec<Span> = spans.into_iter().map(|(gpu, from, to)| span(gpu, from, to)).collect();
            prop_assert_eq!(parse(&to_text(&spans)), spans);
        }

        #[test]
        fn never_more_than_own(
            own in (0_u64..1000, 0_u64..1000),
            claims in proptest::collection::vec((0_u64..1000, 0_u64..1000, any::<bool>()), 0..9),
        ) {
            let own = [span(1, own.0.min(own.1), own.0.max(own.1))];
            let claims: Vec<Claim> = claims
                .into_iter()
                .map(|(a, b, runs)| claim(runs, &[span(1, a, b)]))
                .collect();
            // Counted joule by joule.
            let free = (own[0].from..own[0].to)
                .filter(|joule| {
                    !claims.iter().any(|claim| {
                        let other = claim.spans[0];
                        let to = if claim.runs { own[0].to } else { other.to };
                        (other.from..to).contains(joule)
                    })
                })
                .count();
            prop_assert_eq!(unclaimed(&own, &claims), u64::try_from(free).unwrap());
        }
    }
}
