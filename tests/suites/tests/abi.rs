//! What Slurm's loader sees of each plugin: names, flags, and what it needs from the daemon.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use harness::{Release, Root};
use suites::elf::{self, SharedObject};
use suites::plugins::{self, Plugin};

fn for_each_plugin(check: impl Fn(Release, &Root, &Plugin, &SharedObject)) {
    for release in suites::spank_releases() {
        let root = Root::open(release).unwrap();
        for plugin in plugins::of(release) {
            let path = harness::plugins(root.version()).join(plugin.file);
            check(release, &root, &plugin, &SharedObject::read(&path));
        }
    }
}

#[test]
fn exports_are_the_committed_list() {
    for_each_plugin(|release, _, plugin, object| {
        let exports: Vec<_> = object.exports.iter().cloned().collect();
        assert_eq!(
            exports,
            plugins::expected_exports(release, plugin),
            "{release} {}",
            plugin.file
        );
    });
}

#[test]
fn all_that_slurm_looks_up_is_there() {
    for_each_plugin(|release, root, plugin, object| {
        let Some(files) = plugin.syms else {
            return;
        };
        let syms = plugins::syms(&plugins::source(&root.version().to_string()), files);
        assert!(
            syms.len() > 4,
            "{release}: the list of {} was not read: {syms:?}",
            plugin.file
        );
        for symbol in syms {
            assert!(
                object.exports.contains(&symbol),
                "{release} {}: no {symbol}",
                plugin.file
            );
        }
    });
}

#[test]
fn all_that_a_plugin_needs_is_in_the_daemon() {
    for_each_plugin(|release, root, plugin, object| {
        let libdir = root.path().join(root.libdir().trim_start_matches('/'));
        let mut offered = SharedObject::read(&libdir.join("slurm-wlm/libslurmfull.so")).exports;
        for library in &object.needed {
            let path = libdir.join(library);
            let path = if path.exists() {
                path
            } else {
                root.path().join("lib64").join(library)
            };
            offered.extend(SharedObject::read(&path).exports);
        }
        let missing: BTreeSet<_> = object.undefined.difference(&offered).collect();
        assert!(missing.is_empty(), "{release} {}: {missing:?}", plugin.file);
    });
}

#[test]
fn plugins_open_lazily_and_bring_no_library_of_their_own() {
    for_each_plugin(|release, _, plugin, object| {
        assert!(!object.binds_now, "{release} {} binds at once", plugin.file);
        assert!(!object.executable_stack, "{release} {}", plugin.file);
        for library in &object.needed {
            let known = ["libc.so.6", "libgcc_s.so.1", "libm.so.6"].contains(&library.as_str())
                || library.starts_with("ld-linux");
            assert!(known, "{release} {} needs {library}", plugin.file);
        }
    });
}

/// From 25.05 on Slurm drains a node on which a required SPANK plugin cannot be started, unless the plugin says
/// that the job alone fails. Older releases have no such number and do not look.
#[test]
fn a_spank_plugin_that_cannot_be_started_is_to_fail_its_job_and_not_the_node() {
    for_each_plugin(|release, root, plugin, _| {
        if plugin.plugin_type != "spank" {
            return;
        }
        let path = harness::plugins(root.version()).join(plugin.file);
        let mode = elf::variable(&path, "slurm_spank_init_failure_mode");
        match job_failure(root) {
            Some(number) => assert_eq!(mode, number, "{release} {}", plugin.file),
            None => assert!(release < Release::Slurm26_05, "{release} has no number"),
        }
    });
}

/// ESPANK_JOB_FAILURE of a release's public headers, if they have it.
fn job_failure(root: &Root) -> Option<u32> {
    let program = tempfile::tempdir().unwrap();
    let (source, number) = (program.path().join("a.c"), program.path().join("a.out"));
    let text = "#include <stdio.h>\n#include <slurm/slurm_errno.h>\n\
                int main(void) { printf(\"%d\", (int)ESPANK_JOB_FAILURE); return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let cc = Command::new("cc")
        .arg("-I")
        .arg(root.path().join("usr/include"))
        .arg("-o")
        .args([&number, &source])
        .output()
        .unwrap();
    if !cc.status.success() {
        let why = String::from_utf8_lossy(&cc.stderr).into_owned();
        assert!(why.contains("ESPANK_JOB_FAILURE"), "{why}");
        return None;
    }
    let said = Command::new(number).output().unwrap();
    String::from_utf8(said.stdout).unwrap().parse().ok()
}

/// The checks above must be able to fail: a library that is no plugin fails them.
#[test]
fn the_reader_sees_what_is_there() {
    let root = Root::open(suites::spank_releases()[0]).unwrap();
    let libc = SharedObject::read(&Path::new(root.path()).join(format!(
        "{}/libc.so.6",
        root.libdir().trim_start_matches('/')
    )));
    assert!(libc.exports.contains("dlopen") && !libc.exports.contains("gpu_p_energy_read"));
    assert!(
        libc.needed
            .iter()
            .any(|library| library.starts_with("ld-linux"))
    );
}
