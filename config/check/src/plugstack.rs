//! plugstack.conf: the lines of sgpu's plugins. What else stands there is Slurm's to judge.

use std::io;
use std::path::{Path, PathBuf};

use spank_core::{bind, checkpoint, env};

/// Where the file is.
pub(crate) const DEFAULT_PATH: &str = "/etc/slurm/plugstack.conf";
/// What the names of sgpu's plugins begin with.
const OURS: &str = "spank_sgpu_";
/// As many files within files as anybody has.
const DEEPEST: usize = 16;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its mistakes.
    pub(crate) faults: Vec<String>,
    /// What is right, and worth a look.
    pub(crate) notes: Vec<String>,
    /// The configuration files that it names.
    pub(crate) configs: Vec<PathBuf>,
    includes: Vec<String>,
}

/// The file, and those that it includes, in their order.
pub(crate) fn read(path: &Path) -> Vec<(PathBuf, io::Result<Found>)> {
    let mut files = Vec::new();
    add(path, &mut files, DEEPEST);
    files
}

fn add(path: &Path, files: &mut Vec<(PathBuf, io::Result<Found>)>, deeper: usize) {
    let found = sgpu_config::text(path).map(|text| parse(&text));
    let includes = found.as_ref().map_or(Vec::new(), |found| {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let pattern = |name: &String| folder.join(name).to_string_lossy().into_owned();
        found.includes.iter().map(pattern).collect()
    });
    files.push((path.to_owned(), found));
    let Some(deeper) = deeper.checked_sub(1) else {
        return;
    };
    for pattern in includes {
        for path in glob::glob(&pattern).into_iter().flatten().flatten() {
            add(&path, files, deeper);
        }
    }
}

/// `required|optional PLUGIN WORD...`, `include PATTERN`, and `#` before what is not read (`plugstack.conf` in
/// spank(7)).
fn parse(text: &str) -> Found {
    let mut found = Found::default();
    let mut seen: Vec<(String, usize)> = Vec::new();
    for (line, number) in text.split('\n').zip(1_usize..) {
        let said = line.split('#').next().unwrap_or_default();
        // As Slurm splits it: a carriage return is part of the last word.
        let mut words = said.split([' ', '\t']).filter(|word| !word.is_empty());
        let (kind, path) = match (words.next(), words.next()) {
            (Some(kind), Some(path)) => (kind, path),
            (Some(one), None) if one.contains(OURS) => {
                let fault =
                    format!("line {number}: \"required\" or \"optional\" is missing before {one}");
                found.faults.push(fault);
                continue;
            }
            _ => continue,
        };
        if kind == "include" {
            found.includes.push(path.to_owned());
            continue;
        }
        let is_ours = path.contains(OURS);
        if is_ours && kind != "required" && kind != "optional" {
            let fault = format!("line {number}: {kind:?} is none of required, optional, include");
            found.faults.push(fault);
        }
        let is_cut = path.ends_with('\r');
        if is_ours && is_cut {
            let fault = format!(
                "line {number}: a carriage return stands at its end, which Slurm takes for part of the name"
            );
            found.faults.push(fault);
        }
        let path = Path::new(path);
        let words: Vec<String> = words.map(str::to_owned).collect();
        let name = path.file_name().and_then(|name| name.to_str());
        let (faults, config) = match name {
            Some("spank_sgpu_bind.so") => {
                let read = bind::settings::Arguments::parse(&words);
                (read.faults, read.config)
            }
            Some("spank_sgpu_env.so") => {
                let read = env::Arguments::parse(&words);
                (read.faults, read.config)
            }
            Some("spank_sgpu_ckpt.so") => {
                let read = checkpoint::arguments::Arguments::parse(&words);
                (read.faults, read.config)
            }
            _ if is_ours && !is_cut => {
                let fault = format!(
                    "line {number}: {} is none of sgpu's plugins: spank_sgpu_bind.so, spank_sgpu_env.so, \
                     spank_sgpu_ckpt.so",
                    path.display()
                );
                found.faults.push(fault);
                continue;
            }
            _ => continue,
        };
        let name = name.unwrap_or_default();
        match seen.iter().find(|(other, _)| other == name) {
            Some((_, first)) => {
                let fault =
                    format!("line {number}: {name} is loaded a second time, first in line {first}");
                found.faults.push(fault);
            }
            None => seen.push((name.to_owned(), number)),
        }
        if path.is_absolute() && !path.exists() {
            let note = format!(
                "line {number}: {} is not there on this machine",
                path.display()
            );
            found.notes.push(note);
        }
        let with_line = |fault| format!("line {number}: {fault}");
        found.faults.extend(faults.into_iter().map(with_line));
        found.configs.extend(config);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_our_plugins_are_read_and_others_left_alone() {
        let found = parse(
            "# required spank_sgpu_env.so colour=red\n\
             required spank_pyxis.so colour=red\n\
             optional spank_sgpu_env.so profile=best port_range=5 # colour=red\n\
             optional spank_sgpu_bind.so mode=node config=/opt/a.toml\n\
             \n\
             optional /nonexistent/spank_sgpu_ckpt.so signal=KILL\n\
             include more/*.conf\n",
        );
        let starts = [
            "line 3: profile: \"best\"",
            "line 3: port_range: \"5\"",
            "line 6: signal: \"KILL\"",
        ];
        assert_eq!(found.faults.len(), starts.len(), "{:?}", found.faults);
        for (fault, start) in found.faults.iter().zip(starts) {
            assert!(fault.starts_with(start), "{fault}");
        }
        assert_eq!(
            found.notes,
            ["line 6: /nonexistent/spank_sgpu_ckpt.so is not there on this machine"]
        );
        assert_eq!(found.configs, [Path::new("/opt/a.toml")]);
        assert_eq!(found.includes, ["more/*.conf"]);
    }

    #[test]
    fn what_slurm_does_not_read_as_it_is_meant_is_told() {
        let found = parse(
            "\u{feff}optional spank_sgpu_env.so\noptional spank_sgpu_bind.so\r\n\
             optional spank_sgpu_ckpt.so signal=USR1\r\nplugin spank_sgpu_bind.so\n\
             /opt/spank_sgpu_env.so\noptional spank_sgpu_checkpoint.so\noptional spank_sgpu_env.so\n",
        );
        let words = [
            "line 1: \"\\u{feff}optional\"",
            "line 2: a carriage",
            "line 3: signal: ",
            "line 4: \"plugin\"",
            "line 5: \"required\" or \"optional\" is missing before /opt/spank_sgpu_env.so",
            "line 6: spank_sgpu_checkpoint.so is none of sgpu's plugins",
            "line 7: spank_sgpu_env.so is loaded a second time, first in line 1",
        ];
        assert_eq!(found.faults.len(), words.len(), "{:?}", found.faults);
        for (fault, word) in found.faults.iter().zip(words) {
            assert!(fault.starts_with(word), "{fault}");
        }
    }

    #[test]
    fn files_that_are_included_are_read_and_circles_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plugstack.conf"), "include *.conf.d/*.conf\n").unwrap();
        std::fs::create_dir(at("plugstack.conf.d")).unwrap();
        let line = "optional spank_sgpu_env.so colour=red\n";
        std::fs::write(at("plugstack.conf.d/env.conf"), line).unwrap();
        let files = read(&at("plugstack.conf"));
        assert_eq!(files.len(), 2);
        assert_eq!(files[1].0, at("plugstack.conf.d/env.conf"));
        assert_eq!(files[1].1.as_ref().unwrap().faults.len(), 1);
        std::fs::write(at("plugstack.conf"), "include plugstack.conf\n").unwrap();
        assert_eq!(read(&at("plugstack.conf")).len(), DEEPEST + 1);
        assert!(read(&at("none"))[0].1.is_err());
    }
}
