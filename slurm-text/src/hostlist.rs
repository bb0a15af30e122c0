//! Host lists, as Slurm writes them into `SLURM_STEP_NODELIST` and reads them from slurm.conf:
//! `nodeA,nodeB[001,003-005],rack[0-1]u[1-4]`.

/// Why a text is no host list.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostlistError {
    /// There is no name in it.
    #[error("it names no host")]
    Empty,
    /// `[` without `]`, or the other way round, or one within another.
    #[error("its brackets do not match at {0:?}")]
    Brackets(String),
    /// What stands in brackets is no number and no range.
    #[error("{0:?} is no range of numbers")]
    Range(String),
    /// More hosts than any cluster has.
    #[error("it names more than {MOST_HOSTS} hosts")]
    TooMany,
}

/// More than any cluster has.
pub const MOST_HOSTS: usize = 1 << 20;

/// The hosts of a list, in its order.
///
/// # Errors
/// The text is no host list.
pub fn hosts(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut all = Vec::new();
    for item in items(list)? {
        expand(&parts(item)?, &mut all)?;
    }
    if all.is_empty() {
        return Err(HostlistError::Empty);
    }
    Ok(all)
}

/// The first host of a list.
///
/// # Errors
/// As [`hosts`]; the whole list is looked at.
pub fn first(list: &str) -> Result<String, HostlistError> {
    let mut first = None;
    for item in items(list)? {
        let parts = parts(item)?;
        first.get_or_insert_with(|| {
            parts.iter().fold(String::new(), |mut name, part| {
                match part {
                    Part::Text(text) => name.push_str(text),
                    Part::Ranges(ranges) => {
                        name.extend(ranges.first().map(|range| range.name(range.low)));
                    }
                }
                name
            })
        });
    }
    first.ok_or(HostlistError::Empty)
}

/// Whether a host is in a list.
///
/// # Errors
/// As [`hosts`].
pub fn contains(list: &str, host: &str) -> Result<bool, HostlistError> {
    let mut found = false;
    for item in items(list)? {
        found |= matches(&parts(item)?, host);
    }
    Ok(found)
}

/// A piece of a name.
enum Part<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// Numbers from `low` to `high`, of at least `width` digits.
#[derive(Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl Range {
    fn parse(text: &str) -> Result<Self, HostlistError> {
        let wrong = || HostlistError::Range(text.to_owned());
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let number = |digits: &str| {
            // `parse` would take a sign.
            digits
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| digits.parse::<u64>().ok())
                .flatten()
                .ok_or_else(wrong)
        };
        let range = Self {
            low: number(low)?,
            high: number(high)?,
            width: low.len(),
        };
        if range.low > range.high {
            return Err(wrong());
        }
        Ok(range)
    }

    fn name(&self, number: u64) -> String {
        format!("{number:0width$}", width = self.width)
    }

    /// Whether `digits` is one of the numbers as the list would write it.
    fn has(&self, digits: &str) -> bool {
        digits.parse().is_ok_and(|number: u64| {
            (self.low..=self.high).contains(&number) && self.name(number) == digits
        })
    }
}

/// Splits at commas outside of brackets.
fn items(list: &str) -> Result<Vec<&str>, HostlistError> {
    let wrong = || HostlistError::Brackets(list.to_owned());
    let mut inside = false;
    for c in list.chars() {
        match c {
            '[' if inside => return Err(wrong()),
            ']' if !inside => return Err(wrong()),
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
    }
    if inside {
        return Err(wrong());
    }
    let mut depth = false;
    let items: Vec<&str> = list
        .split(|c| {
            match c {
                '[' => depth = true,
                ']' => depth = false,
                _ => {}
            }
            c == ',' && !depth
        })
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect();
    if items.is_empty() {
        return Err(HostlistError::Empty);
    }
    Ok(items)
}

fn parts(item: &str) -> Result<Vec<Part<'_>>, HostlistError> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some((text, after)) = rest.split_once('[') {
        let (ranges, after) = after
            .split_once(']')
            .ok_or_else(|| HostlistError::Brackets(item.to_owned()))?;
        parts.push(Part::Text(text));
        let ranges = ranges
            .split(',')
            .map(Range::parse)
            .collect::<Result<_, _>>()?;
        parts.push(Part::Ranges(ranges));
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn expand(parts: &[Part<'_>], all: &mut Vec<String>) -> Result<(), HostlistError> {
    let mut names = vec![String::new()];
    for part in parts {
        match part {
            Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Part::Ranges(ranges) => {
                let mut longer = Vec::new();
                for name in &names {
                    for range in ranges {
                        for number in range.low..=range.high {
                            if longer.len().saturating_add(all.len()) >= MOST_HOSTS {
                                return Err(HostlistError::TooMany);
                            }
                            longer.push(format!("{name}{}", range.name(number)));
                        }
                    }
                }
                names = longer;
            }
        }
    }
    if all.len().saturating_add(names.len()) > MOST_HOSTS {
        return Err(HostlistError::TooMany);
    }
    all.append(&mut names);
    Ok(())
}

fn matches(parts: &[Part<'_>], host: &str) -> bool {
    match parts {
        [] => host.is_empty(),
        [Part::Text(text), rest @ ..] => host
            .strip_prefix(text)
            .is_some_and(|host| matches(rest, host)),
        [Part::Ranges(ranges), rest @ ..] => {
            let digits = host.bytes().take_while(u8::is_ascii_digit).count();
            (1..=digits).any(|length| {
                host.split_at_checked(length)
                    .is_some_and(|(number, after)| {
                        ranges.iter().any(|range| range.has(number)) && matches(rest, after)
                    })
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_that_broke_other_parsers() {
        for (list, expected) in [
            (
                "node[001-003,007]",
                &["node001", "node002", "node003", "node007"][..],
            ),
            ("nodeA,nodeB[001,003]", &["nodeA", "nodeB001", "nodeB003"]),
            ("gpu-a[12-13]", &["gpu-a12", "gpu-a13"]),
            ("linux[1,2]", &["linux1", "linux2"]),
            ("alpha,beta,gamma", &["alpha", "beta", "gamma"]),
            (
                "rack[0-1]_blade[0-1]",
                &[
                    "rack0_blade0",
                    "rack0_blade1",
                    "rack1_blade0",
                    "rack1_blade1",
                ],
            ),
            ("c1001a-s[11,17]", &["c1001a-s11", "c1001a-s17"]),
            ("n[9-10]x", &["n9x", "n10x"]),
            ("n[09-10]", &["n09", "n10"]),
            ("one", &["one"]),
        ] {
            assert_eq!(hosts(list).unwrap(), expected, "{list}");
            assert_eq!(first(list).unwrap(), expected[0], "{list}");
            for host in expected {
                assert!(contains(list, host).unwrap(), "{list} {host}");
            }
            assert!(!contains(list, "node004").unwrap());
        }
    }

    #[test]
    fn what_is_no_list() {
        for list in [
            "", ",", "n[", "n]", "n[]", "[a]", "n[1-]", "n[3-1]", "n[+1]", "n[1[2]]", "n[1-2",
            "n[1,]",
        ] {
            assert!(hosts(list).is_err(), "{list}");
            assert!(first(list).is_err(), "{list}");
            assert!(contains(list, "n1").is_err(), "{list}");
        }
        assert_eq!(hosts("n[0-99999999]"), Err(HostlistError::TooMany));
        assert_eq!(first("n[0-99999999]").unwrap(), "n0");
        assert!(contains("n[0-99999999]", "n12345678").unwrap());
    }

    #[test]
    fn padding_counts() {
        assert!(!contains("n[1-20]", "n01").unwrap());
        assert!(!contains("n[01-20]", "n1").unwrap());
        assert!(contains("n[01-20]", "n20").unwrap());
        assert!(contains("n[1-2][3-4]", "n23").unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(list in "[a-c0-3,\\[\\]-]{0,24}", host in "[a-c0-3]{0,6}") {
            if let Ok(all) = hosts(&list) {
                prop_assert_eq!(&first(&list).unwrap(), &all[0]);
                prop_assert_eq!(contains(&list, &host).unwrap(), all.contains(&host));
            }
        }
    }
}
