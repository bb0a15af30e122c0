//! Links of the repository's Markdown files, made to work where the files lie otherwise.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Where files of the repository go: path there, path here.
pub(crate) type Moves = BTreeMap<PathBuf, PathBuf>;

/// The text of `file`, with links to files that move along pointing to their new places. A link to a
/// file that does not leaves its words; links to the web stay.
pub(crate) fn relink(text: &str, file: &Path, moves: &Moves) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, label, target, after)) = next_link(rest) {
        out.push_str(before);
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let there = inside(file.parent().unwrap_or(Path::new("")), path);
        if target.contains("://") || path.is_empty() {
            out.push_str(&format!("[{label}]({target})"));
        } else if let (Some(to), Some(here)) = (moves.get(&there), moves.get(file)) {
            let anchor = if anchor.is_empty() {
                String::new()
            } else {
                format!("#{anchor}")
            };
            out.push_str(&format!("[{label}]({}{anchor})", between(here, to)));
        } else {
            out.push_str(label);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The links of a text.
#[cfg(test)]
pub(crate) fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, _, target, after)) = next_link(rest) {
        found.push(target);
        rest = after;
    }
    found
}

/// The next `[label](target)`: what is before it, its parts, what is after it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let (head, tail) = (text.get(..middle)?, text.get(middle + 2..)?);
    let (before, label) = head.rsplit_once('[')?;
    let (target, after) = tail.split_once(')')?;
    Some((before, label, target, after))
}

/// A path relative to a folder of the repository, without `..`.
fn inside(folder: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(name) => out.push(name),
            _ => {}
        }
    }
    out
}

/// A link from one file to another.
fn between(from: &Path, to: &Path) -> String {
    let folder = from.parent().unwrap_or(Path::new(""));
    match to.strip_prefix(folder) {
        Ok(below) => below.display().to_string(),
        Err(_) => {
            let ups = "../".repeat(folder.components().count());
            format!("{ups}{}", to.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_their_files() {
        let moves = Moves::from([
            ("README.md".into(), "README.md".into()),
            ("docs/src/a.md".into(), "doc/a.md".into()),
            ("docs/src/b.md".into(), "doc/b.md".into()),
        ]);
        let text = |file: &str, text: &str| relink(text, Path::new(file), &moves);
        assert_eq!(
            text(
                "README.md",
                "see [a](docs/src/a.md#x), [`t`](tests/t.md) and [w](https://w)"
            ),
            "see [a](doc/a.md#x), `t` and [w](https://w)"
        );
        assert_eq!(
            text(
                "docs/src/a.md",
                "[b](b.md), [top](../../README.md), [here](#here)."
            ),
            "[b](b.md), [top](../README.md), [here](#here)."
        );
        assert_eq!(text("docs/src/a.md", "a[0] (no link)"), "a[0] (no link)");
    }
}
