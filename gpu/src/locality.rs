//! Which CPUs are near a GPU.

use crate::cpuset::CpuSet;

/// What is known about a GPU's place.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalityFacts<'a> {
    /// NVML's affinity; `None` when the call failed.
    pub nvml: Option<&'a CpuSet>,
    /// sysfs `numa_node`; `None` when it is -1 or cannot be read.
    pub numa_node: Option<u32>,
    /// sysfs `local_cpulist`; `None` when it cannot be read.
    pub local_cpulist: Option<&'a CpuSet>,
}

/// Who told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalitySource {
    /// NVML's affinity.
    Nvml,
    /// sysfs, since NVML's call failed.
    SysfsNvmlFailed,
    /// sysfs, since NVML names no CPU that is online.
    SysfsNvmlEmpty,
    /// sysfs, since NVML names the whole machine.
    SysfsNvmlWhole,
    /// Nobody: NVML names the whole machine and sysfs knows no better.
    NobodyNvmlWhole,
    /// Nobody: neither NVML nor sysfs names any CPU.
    Nobody,
}

impl LocalitySource {
    /// A sentence for the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Nvml => "NVML's affinity",
            Self::SysfsNvmlFailed => "sysfs, since NVML's affinity call failed",
            Self::SysfsNvmlEmpty => "sysfs, since NVML names no online CPU",
            Self::SysfsNvmlWhole => "sysfs, since NVML names the whole machine",
            Self::NobodyNvmlWhole => "NVML names the whole machine and sysfs knows no better",
            Self::Nobody => "neither NVML nor sysfs names a CPU",
        }
    }
}

/// The CPUs near a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// CPUs by the machine's numbers, online ones only; `None`: any CPU is as good as any other.
    pub cpus: Option<CpuSet>,
    /// Who told.
    pub source: LocalitySource,
}

/// Decides which CPUs are near a GPU. `online` is the set of CPUs that are online; an empty one
/// means that it is not known, and nothing is cut off or compared with it.
///
/// NVML's affinity is taken when it names some but not all of the online CPUs. Else (with
/// sub-NUMA clustering, on Grace, in a VM, or after a failure) sysfs is asked. What sysfs
/// says counts when the device has a NUMA node or when `local_cpulist` names a part of the machine;
/// a device without NUMA node and all CPUs, or none, in `local_cpulist` is one of which the
/// firmware says nothing.
#[must_use]
pub fn near_cpus(facts: LocalityFacts<'_>, online: &CpuSet) -> Locality {
    let cut = |set: &CpuSet| {
        if online.is_empty() {
            set.clone()
        } else {
            set.intersection(online)
        }
    };
    let whole = |set: &CpuSet| !online.is_empty() && set == online;

    let nvml = facts.nvml.map(&cut);
    if let Some(cpus) = nvml.as_ref().filter(|set| !set.is_empty() && !whole(set)) {
        return Locality {
            cpus: Some(cpus.clone()),
            source: LocalitySource::Nvml,
        };
    }
    let sysfs = facts
        .local_cpulist
        .map(&cut)
        .filter(|set| !set.is_empty() && (facts.numa_node.is_some() || !whole(set)))
        .filter(|_| facts.numa_node.is_some() || !online.is_empty());
    let source = match (&nvml, &sysfs) {
        (None, Some(_)) => LocalitySource::SysfsNvmlFailed,
        (Some(set), Some(_)) if set.is_empty() => LocalitySource::SysfsNvmlEmpty,
        (Some(_), Some(_)) => LocalitySource::SysfsNvmlWhole,
        (Some(set), None) if !set.is_empty() => LocalitySource::NobodyNvmlWhole,
        (_, None) => LocalitySource::Nobody,
    };
    Locality {
        cpus: sysfs,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        nvml: Option<&'static str>,
        node: Option<u32>,
        list: Option<&'static str>,
        expect: Option<&'static str>,
        source: LocalitySource,
    }

    #[test]
    fn who_tells() {
        use LocalitySource::*;
        let case = |nvml, node, list, expect, source| Case {
            nvml,
            node,
            list,
            expect,
            source,
        };
        let cases = [
            case(Some("0-31"), Some(1), Some("32-63"), Some("0-31"), Nvml),
            case(Some("0-31,64-95"), None, None, Some("0-31"), Nvml),
            case(None, Some(1), Some("32-63"), Some("32-63"), SysfsNvmlFailed),
            case(
                Some(""),
                Some(1),
                Some("32-63"),
                Some("32-63"),
                SysfsNvmlEmpty,
            ),
            case(
                Some("64-95"),
                Some(1),
                Some("32-63"),
                Some("32-63"),
                SysfsNvmlEmpty,
            ),
            case(
                Some("0-63"),
                Some(3),
                Some("48-63"),
                Some("48-63"),
                SysfsNvmlWhole,
            ),
            case(
                Some("0-63"),
                None,
                Some("48-63"),
                Some("48-63"),
                SysfsNvmlWhole,
            ),
            case(
                Some("0-127"),
                Some(0),
                Some("0-63"),
                Some("0-63"),
                SysfsNvmlWhole,
            ),
            case(Some("0-63"), None, Some("0-63"), None, NobodyNvmlWhole),
            case(Some("0-63"), None, None, None, NobodyNvmlWhole),
            case(Some("0-63"), Some(0), Some(""), None, NobodyNvmlWhole),
            case(None, None, Some("0-63"), None, Nobody),
            case(None, None, Some(""), None, Nobody),
            case(Some(""), None, None, None, Nobody),
            case(None, None, None, None, Nobody),
        ];
        let online: CpuSet = "0-63".parse().unwrap();
        for (n, case) in cases.iter().enumerate() {
            let parse = |text: Option<&str>| text.map(|text| text.parse::<CpuSet>().unwrap());
            let (nvml, list) = (parse(case.nvml), parse(case.list));
            let found = near_cpus(
                LocalityFacts {
                    nvml: nvml.as_ref(),
                    numa_node: case.node,
                    local_cpulist: list.as_ref(),
                },
                &online,
            );
            assert_eq!(found.cpus, parse(case.expect), "case {n}");
            assert_eq!(found.source, case.source, "case {n}");
        }
    }

    #[test]
    fn online_unknown() {
        let all: CpuSet = "0-63".parse().unwrap();
        let facts = LocalityFacts {
            nvml: Some(&all),
            ..LocalityFacts::default()
        };
        assert_eq!(near_cpus(facts, &CpuSet::new()).cpus, Some(all.clone()));
        let facts = LocalityFacts {
            local_cpulist: Some(&all),
            ..LocalityFacts::default()
        };
        assert_eq!(near_cpus(facts, &CpuSet::new()).cpus, None);
    }
}
