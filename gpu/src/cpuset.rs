//! Sets of CPUs.

use std::ffi::c_ulong;
use std::fmt;
use std::str::FromStr;

/// Highest CPU number that a set takes, and more than any kernel supports. It bounds what a
/// hostile list can make us allocate.
pub const MAX_CPU: u32 = 0xffff;

const WORD_BITS: u32 = u64::BITS;

/// A set of CPU numbers.
///
/// Reads and prints the kernel's lists (`0-31,64-95`), converts from and to NVML's bit masks.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// Bit n of word w is CPU 64 w + n; the last word is not zero.
    words: Vec<u64>,
}

/// A text that is no CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CPU list: {text:?}: {reason}")]
pub struct ParseCpuSetError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// CPUs `first` to `last`, both included.
    #[must_use]
    pub fn from_range(first: u32, last: u32) -> Self {
        let mut set = Self::new();
        set.insert_range(first, last.min(MAX_CPU));
        set
    }

    /// From NVML's mask: CPU n is bit n mod B of word n / B, where words have B bits.
    #[must_use]
    #[allow(clippy::unnecessary_cast)] // a c_ulong has 32 bits on some systems
    pub fn from_nvml_mask(mask: &[c_ulong]) -> Self {
        let limit = (MAX_CPU / WORD_BITS).saturating_add(1) as usize;
        let per_word = (WORD_BITS / c_ulong::BITS).max(1) as usize;
        let join = |parts: &[c_ulong]| {
            parts.iter().rev().fold(0u64, |sum, part| {
                sum.wrapping_shl(c_ulong::BITS) | (*part as u64)
            })
        };
        let mut set = Self {
            words: mask.chunks(per_word).take(limit).map(join).collect(),
        };
        set.trim();
        set
    }

    /// NVML's mask in `words` words; CPUs beyond it are left out.
    #[must_use]
    pub fn to_nvml_mask(&self, words: usize) -> Vec<c_ulong> {
        let mut mask = vec![0; words];
        for cpu in self.iter() {
            if let Some(word) = mask.get_mut((cpu / c_ulong::BITS) as usize) {
                *word |= (1 as c_ulong).wrapping_shl(cpu % c_ulong::BITS);
            }
        }
        mask
    }

    /// Adds a CPU; numbers above [`MAX_CPU`] are ignored, and `false` says so.
    pub fn insert(&mut self, cpu: u32) -> bool {
        if cpu > MAX_CPU {
            return false;
        }
        let at = (cpu / WORD_BITS) as usize;
        if at >= self.words.len() {
            self.words.resize(at.saturating_add(1), 0);
        }
        if let Some(word) = self.words.get_mut(at) {
            *word |= bit(cpu);
        }
        true
    }

    /// Adds CPUs `first` to `last`, both included, as far as [`MAX_CPU`].
    fn insert_range(&mut self, first: u32, last: u32) {
        let last = last.min(MAX_CPU);
        if first > last {
            return;
        }
        let (low, high) = ((first / WORD_BITS) as usize, (last / WORD_BITS) as usize);
        if high >= self.words.len() {
            self.words.resize(high.saturating_add(1), 0);
        }
        for at in low..=high {
            let mut ones = u64::MAX;
            if at == low {
                ones &= u64::MAX.wrapping_shl(first % WORD_BITS);
            }
            if at == high {
                ones &= u64::MAX.wrapping_shr(63u32.wrapping_sub(last % WORD_BITS));
            }
            if let Some(word) = self.words.get_mut(at) {
                *word |= ones;
            }
        }
    }

    /// Is the CPU in the set?
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.words
            .get((cpu / WORD_BITS) as usize)
            .is_some_and(|word| word & bit(cpu) != 0)
    }

    /// Has it no CPU?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many CPUs it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().fold(0usize, |sum, word| {
            sum.saturating_add(word.count_ones() as usize)
        })
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        let base = u32::try_from(self.words.len().checked_sub(1)?)
            .ok()?
            .checked_mul(WORD_BITS)?;
        base.checked_add(63u32.checked_sub(word.leading_zeros())?)
    }

    /// CPUs in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// CPUs in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        Self { words }
    }

    /// CPUs in this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        let mut set = Self { words };
        set.trim();
        set
    }

    /// Are all CPUs of this set in the other?
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words
            .iter()
            .enumerate()
            .all(|(at, word)| word & !other.words.get(at).copied().unwrap_or(0) == 0)
    }

    /// The CPUs in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words
            .iter()
            .zip((0u32..).step_by(WORD_BITS as usize))
            .flat_map(|(word, base)| {
                let mut left = *word;
                std::iter::from_fn(move || {
                    if left == 0 {
                        return None;
                    }
                    let at = left.trailing_zeros();
                    left &= left.wrapping_sub(1);
                    base.checked_add(at)
                })
            })
    }

    /// The runs of neighbouring CPUs in rising order, as (first, last).
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut cpus = self.iter().peekable();
        std::iter::from_fn(move || {
            let first = cpus.next()?;
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| Some(*next) == last.checked_add(1)) {
                last = next;
            }
            Some((first, last))
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn bit(cpu: u32) -> u64 {
    1u64.wrapping_shl(cpu % WORD_BITS)
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

/// Reads the kernel's list format: numbers and ranges with commas between, blanks and a newline
/// around allowed, empty text is the empty set; a range may carry the kernel's `:used/group`.
impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |reason| ParseCpuSetError {
            text: text.chars().take(80).collect(),
            reason,
        };
        let mut set = Self::new();
        let list = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
        if list.is_empty() {
            return Ok(set);
        }
        for part in list.split(',') {
            let part = part.trim();
            let (range, stride) = match part.split_once(':') {
                None => (part, None),
                Some((range, stride)) => (range, Some(stride)),
            };
            let (first, last) = match range.split_once('-') {
                None => {
                    let cpu = number(range).map_err(fail)?;
                    (cpu, cpu)
                }
                Some((first, last)) => (number(first).map_err(fail)?, number(last).map_err(fail)?),
            };
            if first > last {
                return Err(fail("a range runs backwards"));
            }
            let Some(stride) = stride else {
                set.insert_range(first, last);
                continue;
            };
            let (used, group) = stride
                .split_once('/')
                .ok_or_else(|| fail("a stride needs a /"))?;
            let (used, group) = (number(used).map_err(fail)?, number(group).map_err(fail)?);
            if used == 0 || group == 0 || used > group {
                return Err(fail("a stride must be used/group with 0 < used <= group"));
            }
            for start in (first..=last).step_by(group as usize) {
                set.insert_range(
                    start,
                    start.saturating_add(used).saturating_sub(1).min(last),
                );
            }
        }
        Ok(set)
    }
}

fn number(text: &str) -> Result<u32, &'static str> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a CPU number is missing or no number");
    }
    match text.parse::<u32>() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        _ => Err("a CPU number is out of range"),
    }
}

/// The kernel's list format, `0-31,64-95`; the empty set prints as nothing.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.ranges().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            if first == last {
                write!(f, "{first}")?;
            } else {
                write!(f, "{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn reads_kernel_lists() {
        assert_eq!(set("0-3,8").iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(set(" 0-31,64-95\n").len(), 64);
        assert_eq!(set("3,1,2,2").to_string(), "1-3");
        assert_eq!(set("0-10:2/4").to_string(), "0-1,4-5,8-9");
        assert!(set("").is_empty());
        assert!(set("\n").is_empty());
        assert_eq!(set("63-64").ranges().collect::<Vec<_>>(), [(63, 64)]);
        assert_eq!(
            (set("5-70").first(), set("5-70").last()),
            (Some(5), Some(70))
        );
    }

    #[test]
    fn rejects_what_is_none() {
        for text in [
            ",",
            "1,",
            "a",
            "3-1",
            "1-",
            "-1",
            "+1",
            "0-99999999999",
            "65536",
            "1:2",
            "0-9:0/2",
            "0-9:3/2",
        ] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn nvml_masks() {
        assert_eq!(
            CpuSet::from_nvml_mask(&[0b1011, 0, 1, 0]).to_string(),
            "0-1,3,128"
        );
        assert!(CpuSet::from_nvml_mask(&[0; 128]).is_empty());
        assert_eq!(CpuSet::from_nvml_mask(&[c_ulong::MAX]).to_string(), "0-63");
        assert_eq!(set("0-1,64").to_nvml_mask(1), [3]);
    }

    fn list() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0u32..300, 0..60)
    }

    proptest! {
        #[test]
        fn print_and_parse(cpus in list()) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set.clone()));
            prop_assert_eq!(set.len(), cpus.len());
            prop_assert_eq!(CpuSet::from_nvml_mask(&set.to_nvml_mask(8)), set.clone());
            prop_assert_eq!(set.last(), cpus.last().copied());
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), cpus);
        }

        #[test]
        fn set_operations(a in list(), b in list()) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            let expect = |cpus: BTreeSet<u32>| cpus.into_iter().collect::<CpuSet>();
            prop_assert_eq!(x.intersection(&y), expect(&a & &b));
            prop_assert_eq!(x.union(&y), expect(&a | &b));
            prop_assert_eq!(x.difference(&y), expect(&a - &b));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        }

        #[test]
        fn ranges_are_what_inserts_make(first in 0u32..200, last in 0u32..200) {
            prop_assert_eq!(CpuSet::from_range(first, last), (first..=last).collect::<CpuSet>());
        }

        #[test]
        fn never_panics(text in "[0-9,:/ -]{0,30}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
