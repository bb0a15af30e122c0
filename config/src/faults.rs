//! All mistakes of a file at once.

use crate::{File, in_one_line, line_of};

/// More mistakes than anybody reads.
const MOST: usize = 100;

/// What is wrong with a text, each in one line that names line and key; empty: nothing.
///
/// The parser stops at the first mistake. Its lines are blanked, and what is left is read again.
#[must_use]
pub fn faults(text: &str) -> Vec<String> {
    let mut rest = text.to_owned();
    let mut found = Vec::new();
    while found.len() < MOST {
        let Err(error) = toml::from_str::<File>(&rest) else {
            break;
        };
        let Some(span) = error.span() else {
            found.push((0, in_one_line(&rest, &error)));
            break;
        };
        let first = line_of(&rest, span.start);
        let last = line_of(&rest, span.end.saturating_sub(1).max(span.start));
        // What is missing may have been blanked.
        let is_ours = error.message().starts_with("missing field")
            && section(text, first) != section(&rest, first);
        if !is_ours {
            found.push((first, in_one_line(&rest, &error)));
        }
        let shorter = without(&rest, first, last);
        if shorter == rest {
            break;
        }
        rest = shorter;
    }
    found.sort();
    found.into_iter().map(|(_, fault)| fault).collect()
}

/// Whether a line is the head of a section.
fn is_head(line: &str) -> bool {
    line.trim_start().starts_with('[') && !line.contains('=')
}

/// The lines of the section whose head is at a line.
fn section(text: &str, head: usize) -> Vec<&str> {
    let lines = text.lines().skip(head);
    lines.take_while(|line| !is_head(line)).collect()
}

/// The text with some lines blank. With a section's head goes the section: its keys would be another's.
fn without(text: &str, first: usize, last: usize) -> String {
    let mut in_section = false;
    let mut kept = String::new();
    for (line, number) in text.lines().zip(1..) {
        let is_wrong = (first..=last).contains(&number);
        in_section = if is_wrong {
            in_section || is_head(line)
        } else {
            in_section && !is_head(line)
        };
        if !is_wrong && !in_section {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_told_once_with_its_line() {
        let text = r#"
[bind]
mode = "nearest"
network = "yes"

[evn]
profile = "torch"

[env]
profile = "best"
port_range = [
    9,
    8,
]
set = { NCCL_DEBUG = "WARN" }

[checkpoint]
signal = "KILL@60"
mark_every_minimum = 60

[[class]]
nodes = "gpu[1"
bind.mode = "node"

[[class]]
nodes = "gpu[1-4]"
checkpoint.sginal = "USR1"
"#;
        let faults = faults(text);
        let wanted = [
            ("line 3: ", "nearest"),
            ("line 4: ", "boolean"),
            ("line 6: ", "evn"),
            ("line 10: ", "best"),
            ("line 11: ", "port_range = [9, 8]"),
            ("line 18: ", "KILL"),
            ("line 22: ", "gpu[1"),
            ("line 27: ", "sginal"),
        ];
        assert_eq!(faults.len(), wanted.len(), "{faults:#?}");
        for (fault, (line, word)) in faults.iter().zip(wanted) {
            assert!(
                fault.starts_with(line) && fault.contains(word),
                "{line}{word}: {fault}"
            );
        }
    }

    #[test]
    fn a_good_file_has_none_and_a_torn_one_an_end() {
        assert_eq!(super::faults("[bind]\nmode = \"node\"\n"), [""; 0]);
        assert_eq!(super::faults(""), [""; 0]);
        assert!(!super::faults("[bind\nmode = \"node\n[[[\n= =\n").is_empty());
        assert!(!super::faults("x = \"\"\"\nnever\n").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_gone_through(text in "[\\[\\]a-z=\"\n{}., ]{0,80}") {
            proptest::prop_assert!(super::faults(&text).len() <= MOST);
        }
    }
}
