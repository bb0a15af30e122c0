//! `--gpu-freq`: what a user asks for and which clocks of a GPU come nearest. Words and rounding are
//! srun's (`man srun`, `--gpu-freq`) and those of Slurm's own driver.

use std::fmt;

/// One clock as a user may ask for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clock {
    /// The lowest there is.
    Low,
    /// The middle of the list.
    Medium,
    /// The next to the highest.
    HighM1,
    /// The highest there is.
    High,
    /// The nearest available one that is no lower, in MHz.
    Mhz(u32),
}

impl Clock {
    fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "low" => Self::Low,
            "medium" => Self::Medium,
            "highm1" => Self::HighM1,
            "high" => Self::High,
            number => Self::Mhz(number.parse().ok().filter(|mhz| *mhz > 0)?),
        })
    }

    /// The clock of `available` (MHz, in any order) that this one stands for; `None` if there are none.
    ///
    /// A number outside the list becomes the nearest end, one between two clocks the higher of them.
    #[must_use]
    pub fn nearest(self, available: &[u32]) -> Option<u32> {
        let mut falling = available.to_vec();
        falling.sort_unstable_by(|a, b| b.cmp(a));
        let (highest, lowest) = (*falling.first()?, *falling.last()?);
        Some(match self {
            Self::Low => lowest,
            Self::Medium => *falling.get(falling.len().saturating_sub(1) / 2)?,
            Self::HighM1 => *falling.get(1).unwrap_or(&highest),
            Self::High => highest,
            Self::Mhz(mhz) => falling
                .iter()
                .rev()
                .copied()
                .find(|clock| *clock >= mhz)
                .unwrap_or(highest),
        })
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Low => f.write_str("low"),
            Self::Medium => f.write_str("medium"),
            Self::HighM1 => f.write_str("highm1"),
            Self::High => f.write_str("high"),
            Self::Mhz(mhz) => write!(f, "{mhz}"),
        }
    }
}

/// What one `--gpu-freq` asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Request {
    /// The graphics (SM) clock.
    pub graphics: Option<Clock>,
    /// The memory clock.
    pub memory: Option<Clock>,
    /// Whether the step's standard error says which clocks were set.
    pub verbose: bool,
    /// Words that mean nothing here, for the log.
    pub unknown: Vec<String>,
}

impl Request {
    /// Reads `high,memory=low,verbose` or the like.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut request = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let read = match word.split_once('=') {
                Some((key, value)) if key.eq_ignore_ascii_case("memory") => {
                    Clock::parse(value).map(|clock| request.memory = Some(clock))
                }
                Some(_) => None,
                None if word.eq_ignore_ascii_case("verbose") => {
                    request.verbose = true;
                    Some(())
                }
                None => Clock::parse(word).map(|clock| request.graphics = Some(clock)),
            };
            if read.is_none() {
                request.unknown.push(word.to_owned());
            }
        }
        request
    }

    /// The gpu part of a step's `tres_freq`, `gpu:high,memory=low;…`; `None` if it has none.
    #[must_use]
    pub fn of_tres_freq(tres_freq: &str) -> Option<Self> {
        tres_freq
            .split(';')
            .find_map(|part| part.trim().strip_prefix("gpu:"))
            .map(Self::parse)
    }

    /// Fills what is not asked for from `GpuFreqDef` of slurm.conf.
    #[must_use]
    pub fn or(self, default: &Self) -> Self {
        Self {
            graphics: self.graphics.or(default.graphics),
            memory: self.memory.or(default.memory),
            verbose: self.verbose || default.verbose,
            unknown: self.unknown,
        }
    }

    /// Whether no clock is to be set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graphics.is_none() && self.memory.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // A few of the clocks that NVML lists for an H100.
    const CLOCKS: [u32; 5] = [1980, 1965, 1200, 705, 210];

    #[test]
    fn words_stand_for_places_in_the_list() {
        assert_eq!(Clock::Low.nearest(&CLOCKS), Some(210));
        assert_eq!(Clock::Medium.nearest(&CLOCKS), Some(1200));
        assert_eq!(Clock::HighM1.nearest(&CLOCKS), Some(1965));
        assert_eq!(Clock::High.nearest(&CLOCKS), Some(1980));
        assert_eq!(Clock::HighM1.nearest(&[1593]), Some(1593));
    }

    #[test]
    fn numbers_round_up_and_stop_at_the_ends() {
        assert_eq!(Clock::Mhz(1200).nearest(&CLOCKS), Some(1200));
        assert_eq!(Clock::Mhz(706).nearest(&CLOCKS), Some(1200));
        assert_eq!(Clock::Mhz(100).nearest(&CLOCKS), Some(210));
        assert_eq!(Clock::Mhz(9999).nearest(&CLOCKS), Some(1980));
        assert_eq!(Clock::Mhz(9999).nearest(&[]), None);
    }

    #[test]
    fn a_request_is_read_as_srun_writes_it() {
        let request = Request::of_tres_freq("gpu:Low,memory=1593,verbose").unwrap();
        assert_eq!(request.graphics, Some(Clock::Low));
        assert_eq!(request.memory, Some(Clock::Mhz(1593)));
        assert!(request.verbose && request.unknown.is_empty());
        assert_eq!(Request::of_tres_freq("cpu:high"), None);
        assert_eq!(
            Request::of_tres_freq("cpu:low;gpu:high").unwrap().graphics,
            Some(Clock::High)
        );
    }

    #[test]
    fn what_is_not_asked_for_comes_from_the_default_and_nonsense_is_named() {
        let request = Request::parse("memory=low,fast,power=9,0").or(&Request::parse("high"));
        assert_eq!(
            (request.graphics, request.memory),
            (Some(Clock::High), Some(Clock::Low))
        );
        assert_eq!(request.unknown, ["fast", "power=9", "0"]);
        assert!(Request::parse("verbose").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_any_answer_is_a_clock_of_the_list(
            text in ".{0,60}", clocks in proptest::collection::vec(1u32..4000, 1..40),
        ) {
            let request = Request::parse(&text);
            for clock in [request.graphics, request.memory].into_iter().flatten() {
                prop_assert!(clocks.contains(&clock.nearest(&clocks).unwrap()));
            }
        }
    }
}
