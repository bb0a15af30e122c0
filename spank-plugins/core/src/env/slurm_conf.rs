//! A value of slurm.conf, as Slurm reads the file (`src/common/parse_config.c`): keys in any case, several on
//! a line, lines that go on after a backslash, and other files by `Include`.

/// How deep files may include one another: one that includes itself ends here.
const DEEPEST: usize = 8;

/// The value of a key: of several the last, as Slurm has it. `include` reads a file by the name that stands in
/// slurm.conf; a relative one is in slurm.conf's folder.
pub(super) fn value(
    text: &str,
    key: &str,
    include: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut pairs = Vec::new();
    read(text, include, DEEPEST, &mut pairs);
    last(&pairs, key).map(str::to_owned)
}

fn last<'pairs>(pairs: &'pairs [(String, String)], key: &str) -> Option<&'pairs str> {
    let mut of_key = pairs
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(key));
    of_key.next_back().map(|(_, value)| value.as_str())
}

fn read(
    text: &str,
    include: &dyn Fn(&str) -> Option<String>,
    depth: usize,
    pairs: &mut Vec<(String, String)>,
) {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(name) = included(line) else {
            add_pairs(line, pairs);
            continue;
        };
        // %c is the cluster's name.
        let cluster = last(pairs, "ClusterName").unwrap_or_default();
        let name = name.replace("%c", &cluster.to_ascii_lowercase());
        if let Some(depth) = depth.checked_sub(1)
            && let Some(text) = include(&name)
        {
            read(&text, include, depth, pairs);
        }
    }
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    // `include = x` would be a key.
    let name = rest.split_whitespace().next()?;
    (word.eq_ignore_ascii_case("include") && !name.starts_with('=')).then_some(name)
}

/// The pairs of a line, up to what is none.
fn add_pairs(line: &str, pairs: &mut Vec<(String, String)>) {
    let mut rest = line;
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        let key = key.split_whitespace().next_back().unwrap_or_default();
        pairs.push((key.to_owned(), value.to_owned()));
        rest = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        value(text, "SrunPortRange", &|name| {
            let text = match name {
                "ports.conf" => "# ours\nSrunPortRange=60001-63000\n",
                "/etc/abc/ports" => "SrunPortRange=1-2",
                "more.conf" => "Include ports.conf\n",
                "loop.conf" => "Include loop.conf\nSrunPortRange=3-4\n",
                _ => return None,
            };
            Some(text.to_owned())
        })
    }

    #[test]
    fn as_slurm_reads_it() {
        for (text, found) in [
            ("SrunPortRange=1-2\n", "1-2"),
            ("  srunportrange = 1-2 # comment\n", "1-2"),
            ("SlurmdPort=5 SrunPortRange=\"1-2\" SlurmctldPort=6", "1-2"),
            ("SlurmdPort=5 \\\nSrunPortRange=1-2\n", "1-2"),
            ("SrunPortRange=1-2\nSrunPortRange=3-4\n", "3-4"),
            ("ClusterName=a\nInclude ports.conf\n", "60001-63000"),
            ("include\tmore.conf # two deep", "60001-63000"),
            ("ClusterName=ABC\nInclude /etc/%c/ports", "1-2"),
            ("Include ports.conf\nSrunPortRange=5-6\n", "5-6"),
            ("Include loop.conf\n", "3-4"),
        ] {
            assert_eq!(of(text).as_deref(), Some(found), "{text}");
        }
        for text in [
            "",
            "#SrunPortRange=1-2\n",
            "XSrunPortRange=1-2\n",
            "Include nothing.conf\n",
            "Include",
            "Includes ports.conf\n",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
