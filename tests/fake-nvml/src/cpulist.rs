//! The kernel's CPU lists and masks.

use std::collections::BTreeSet;

/// Reads a list such as `0-3,8`.
///
/// # Errors
/// A sentence when the text is not such a list.
pub fn parse(text: &str) -> Result<BTreeSet<usize>, String> {
    let wrong = || format!("`{text}` is not a CPU list such as 0-63");
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last > 1 << 16 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Writes a list such as `0-3,8`.
#[must_use]
pub fn format(cpus: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == cpu => run.1 = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let shown = runs.iter().map(|&(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Writes the kernel's mask over `total` CPUs: 32-bit groups, highest first.
#[must_use]
pub fn mask(cpus: &BTreeSet<usize>, total: usize) -> String {
    let groups = total.max(1).div_ceil(32);
    let group = |number: usize| {
        (0..32)
            .filter(|bit| cpus.contains(&(number * 32 + bit)))
            .fold(0_u32, |all, bit| all | 1 << bit)
    };
    let shown: Vec<String> = (0..groups)
        .rev()
        .map(|number| format!("{:08x}", group(number)))
        .collect();
    shown.join(",")
}

/// The set as `count` words of 64 bits, lowest first; CPUs beyond are left out.
#[must_use]
pub fn words(cpus: &BTreeSet<usize>, count: usize) -> Vec<u64> {
    let mut words = vec![0; count];
    for &cpu in cpus {
        if let Some(word) = words.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let cpus = parse("0-3,8,64-65").unwrap();
        assert_eq!(format(&cpus), "0-3,8,64-65");
        assert_eq!(mask(&cpus, 70), "00000003,00000000,0000010f");
        assert_eq!(words(&cpus, 2), [0x10f, 3]);
        assert_eq!(words(&cpus, 1), [0x10f]);
        assert!(parse("3-1").is_err());
        assert!(parse("x").is_err());
        assert!(parse("").unwrap().is_empty());
    }
}
