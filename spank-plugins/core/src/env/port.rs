//! Where rank 0 listens: a port that all tasks of a step come to by themselves, and that neighbours do not.

use super::{Facts, slurm_conf};

/// The ports that are used when the site names none: those that Linux gives to no outgoing connection, as
/// it is set up otherwise.
pub const DEFAULT_RANGE: (u16, u16) = (61_000, 65_535);

/// Below this many a port belongs to some service.
const LOWEST: u16 = 10_000;

/// Ports that others take, both ends among them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// The kernel, for outgoing connections (`ip_local_port_range`).
    pub kernel: Option<(u16, u16)>,
    /// srun (`SrunPortRange` of slurm.conf).
    pub srun: Option<(u16, u16)>,
}

impl Taken {
    fn has(&self, port: u16) -> bool {
        [self.kernel, self.srun]
            .into_iter()
            .flatten()
            .any(|(low, high)| (low..=high).contains(&port))
    }
}

/// `/proc/sys/net/ipv4/ip_local_port_range`.
#[must_use]
pub fn kernel_range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// `SrunPortRange` of a slurm.conf; `include` reads a file that it names.
#[must_use]
pub fn srun_range(
    slurm_conf: &str,
    include: &dyn Fn(&str) -> Option<String>,
) -> Option<(u16, u16)> {
    let value = slurm_conf::value(slurm_conf, "SrunPortRange", include)?;
    let (low, high) = value.split_once('-')?;
    Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
}

/// MASTER_PORT: the user's own, else `--dist-port`, else the first that Slurm has reserved for the step,
/// else one by the numbers of job, step and restart.
pub(super) fn master_port(facts: &Facts<'_>) -> u16 {
    facts
        .own("MASTER_PORT")
        .and_then(|own| own.trim().parse().ok())
        .or(facts.options.port)
        .or_else(|| reserved(facts))
        .unwrap_or_else(|| {
            pick(
                facts.config.port_range,
                facts.taken,
                facts.common_job_id(),
                facts.step_id,
                facts.restarts(),
            )
        })
}

/// The first reserved port. Each component of a heterogeneous step has its own, so there none is common.
fn reserved(facts: &Facts<'_>) -> Option<u16> {
    if facts.is_heterogeneous() {
        return None;
    }
    let list = facts.var("SLURM_STEP_RESV_PORTS")?;
    list.split([',', '-']).next()?.trim().parse().ok()
}

/// The port of a step. The site's own range is used as it is, so that nodes with other settings of the
/// kernel agree; the default one without what others take, and if nothing is left of it, as many of the
/// highest ports that are.
fn pick(
    range: Option<(u16, u16)>,
    taken: Taken,
    job_id: u32,
    step_id: u32,
    restart_count: u32,
) -> u16 {
    let (low, high) = range.unwrap_or(DEFAULT_RANGE);
    let mut ports: Vec<u16> = (low..=high)
        .filter(|port| range.is_some() || !taken.has(*port))
        .collect();
    if ports.is_empty() {
        let span = usize::from(high.saturating_sub(low)).saturating_add(1);
        let free = (LOWEST..=u16::MAX).rev().filter(|port| !taken.has(*port));
        ports = free.take(span).collect();
    }
    let number = u64::from(job_id)
        .wrapping_mul(31)
        .wrapping_add(u64::from(step_id).wrapping_mul(977))
        .wrapping_add(u64::from(restart_count).wrapping_mul(7));
    let place = number.checked_rem(ports.len() as u64).unwrap_or(0);
    usize::try_from(place)
        .ok()
        .and_then(|place| ports.get(place).copied())
        .unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOBODY: Taken = Taken {
        kernel: None,
        srun: None,
    };
    const USUAL: Taken = Taken {
        kernel: Some((32_768, 60_999)),
        srun: None,
    };

    #[test]
    fn the_rule_by_hand() {
        // 1000 * 31 = 31,000 = 6 * 4536 + 3784.
        assert_eq!(pick(None, USUAL, 1000, 0, 0), 64_784);
        assert_eq!(pick(None, USUAL, 1001, 0, 0), 64_815);
        // 3784 + 977 = 4761 = 4536 + 225.
        assert_eq!(pick(None, USUAL, 1000, 1, 0), 61_225);
        assert_eq!(pick(None, USUAL, 1000, 0, 1), 64_791);
        // 31,000 is 31 * 1000.
        assert_eq!(pick(Some((50_000, 50_999)), NOBODY, 1000, 5, 0), 50_885);
    }

    #[test]
    fn the_default_is_moved_off_what_others_take() {
        // 62,000 ports up are left: 3536 of them. 31,000 = 8 * 3536 + 2712.
        let some = Taken {
            kernel: Some((32_768, 61_999)),
            srun: None,
        };
        assert_eq!(pick(None, some, 1000, 0, 0), 64_712);
        // srun's ports leave a hole: 61,000 to 61,999, then 63,000 up. 3784 is 63,000 + 2784.
        let srun = Taken {
            srun: Some((62_000, 62_999)),
            ..USUAL
        };
        assert_eq!(pick(None, srun, 0, 0, 150), 63_050);
        // Nothing is left: below what is taken.
        let most = Taken {
            kernel: Some((32_768, 65_535)),
            srun: None,
        };
        assert_eq!(pick(None, most, 0, 0, 1), 32_760);
        // Nothing is left anywhere.
        let all = Taken {
            kernel: Some((1024, 65_535)),
            srun: None,
        };
        assert_eq!(pick(None, all, 1000, 0, 0), 61_000);
        // The site's own range stays.
        assert_eq!(pick(Some((40_000, 40_999)), all, 0, 0, 1), 40_007);
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(kernel_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(kernel_range(""), None);
        assert_eq!(kernel_range("1 99999"), None);
        let srun = |conf| srun_range(conf, &|_| None);
        assert_eq!(
            srun("ClusterName=a\n srunportrange = 60001-63000 # for the firewall\n"),
            Some((60_001, 63_000))
        );
        assert_eq!(srun("SrunPortRange=60001\n"), None);
        assert_eq!(srun("SlurmctldPort=6817\n"), None);
    }

    proptest! {
        #[test]
        fn inside_the_range(
            job: u32, step in 0u32..0xffff_fff0, restart: u32, low in 1u16.., span in 0u16..5000,
        ) {
            let high = low.saturating_add(span);
            let port = pick(Some((low, high)), USUAL, job, step, restart);
            prop_assert!((low..=high).contains(&port));
            let port = pick(None, USUAL, job, step, restart);
            prop_assert!((61_000..=65_535).contains(&port));
        }

        #[test]
        fn neighbours_differ(job in 0u32..u32::MAX, step in 0u32..0xffff_ffef, restart in 0u32..u32::MAX) {
            let port = pick(None, USUAL, job, step, restart);
            prop_assert_ne!(port, pick(None, USUAL, job + 1, step, restart));
            prop_assert_ne!(port, pick(None, USUAL, job, step + 1, restart));
            prop_assert_ne!(port, pick(None, USUAL, job, step, restart + 1));
        }

        #[test]
        fn never_one_that_others_take(
            job: u32, step: u32, low in 1u16..60_000, srun in 60_000u16..65_000,
        ) {
            let taken = Taken { kernel: Some((low, 60_999)), srun: Some((srun, srun + 500)) };
            prop_assert!(!taken.has(pick(None, taken, job, step, 0)));
        }

        #[test]
        fn any_text_is_read(text in ".{0,80}") {
            let _ = kernel_range(&text);
            let _ = srun_range(&text, &|_| None);
        }
    }
}
