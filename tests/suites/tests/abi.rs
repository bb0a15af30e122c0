//! What Slurm's loader sees of each plugin: names, flags, and what it needs from the daemon.

use std::collections::BTreeSet;
use std::path::Path;

use harness::{Release, Root};
use suites::elf::SharedObject;
use suites::plugins::{self, Plugin};

fn for_each_plugin(check: impl Fn(Release, &Root, &Plugin, &SharedObject)) {
    for release in suites::releases() {
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

/// The checks above must be able to fail: a library that is no plugin fails them.
#[test]
fn the_reader_sees_what_is_there() {
    let root = Root::open(suites::releases()[0]).unwrap();
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
