//! Each plugin opened as Slurm opens it: a hundred times over, called with NULL, and with a build that
//! panics in every hook.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Release, Root};
use suites::plugins::{self, Plugin};
use suites::sandbox::Sandbox;

struct Loader {
    sandbox: Sandbox,
    libslurmfull: String,
}

impl Loader {
    fn new(root: &Root) -> Self {
        Self {
            sandbox: Sandbox::new(root.path()).with(&built("sgpu-loader")),
            libslurmfull: format!("{}/slurm-wlm/libslurmfull.so", root.libdir()),
        }
    }

    /// What the loader prints; it must end well.
    fn run(&self, daemon: &str, plugin: &Path, action: &[&str]) -> Vec<String> {
        let (stdout, _) = self.run_under(&[], daemon, plugin, action);
        stdout.lines().map(str::to_owned).collect()
    }

    /// Standard output and error of the loader as a client of another program.
    fn run_under(
        &self,
        outer: &[&str],
        daemon: &str,
        plugin: &Path,
        action: &[&str],
    ) -> (String, String) {
        let inside = format!("/opt/{}", plugin.file_name().unwrap().to_str().unwrap());
        let mut words = outer.to_vec();
        words.extend([
            "/opt/sgpu-loader",
            "--libslurmfull",
            &self.libslurmfull,
            "--as",
            daemon,
            inside.as_str(),
        ]);
        words.extend(action);
        let said = self.sandbox.clone().with(plugin).run(&words);
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(
            said.status.success(),
            "{words:?}: {}\n{errors}",
            said.status
        );
        (String::from_utf8(said.stdout).unwrap(), errors)
    }
}

/// A program of this workspace, beside the test that runs.
fn built(name: &str) -> PathBuf {
    let target = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let path = target.join(name);
    if !path.is_file() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "-p", "loader"])
            .status()
            .unwrap();
        assert!(status.success() && path.is_file(), "no {}", path.display());
    }
    path
}

fn for_each(check: impl Fn(&Loader, &Root, Release, &Plugin)) {
    for release in suites::spank_releases() {
        let root = Root::open(release).unwrap();
        let loader = Loader::new(&root);
        for plugin in plugins::of(release) {
            check(&loader, &root, release, &plugin);
        }
    }
}

/// What a SPANK plugin exports besides its hooks.
const VARIABLES: [&str; 2] = ["spank_plugin_version", "slurm_spank_init_failure_mode"];

fn hooks(release: Release, plugin: &Plugin) -> Vec<String> {
    plugins::expected_exports(release, plugin)
        .into_iter()
        .filter(|name| !name.starts_with("plugin_") && !VARIABLES.contains(&name.as_str()))
        .collect()
}

#[test]
fn a_hundred_times_open_and_closed() {
    for_each(|loader, root, release, plugin| {
        let path = harness::plugins(root.version()).join(plugin.file);
        for daemon in ["slurmd", "slurmstepd", "slurmctld"] {
            let said = loader.run(daemon, &path, &["cycle", "100"]);
            assert!(
                said.contains(&format!("plugin_type {}", plugin.plugin_type)),
                "{said:?}"
            );
            let version = root.version();
            let packed = u32::from(version.major) << 16
                | u32::from(version.minor) << 8
                | u32::from(version.micro);
            assert!(
                said.contains(&format!("plugin_version {packed}")),
                "{release}: {said:?}"
            );
            assert_eq!(said.last().unwrap(), "cycles 100");
        }
    });
}

#[test]
fn null_is_survived_by_every_hook() {
    for_each(|loader, root, release, plugin| {
        let path = harness::plugins(root.version()).join(plugin.file);
        let hooks = hooks(release, plugin);
        for daemon in ["slurmd", "slurmstepd", "slurmctld"] {
            let mut action = vec!["call", "--times", "3"];
            action.extend(hooks.iter().map(String::as_str));
            let said = loader.run(daemon, &path, &action);
            assert_eq!(said.len(), 3 * hooks.len(), "{said:?}");
        }
    });
}

/// The fallbacks of docs/src/safety.md, as 32-bit answers; hooks without one give nothing.
fn fallback(hook: &str) -> Option<i32> {
    match hook {
        "init" | "fini" | "gpu_p_reconfig" => Some(0),
        _ if hook.starts_with("slurm_spank_") => Some(0),
        "gpu_p_get_system_gpu_list" | "gpu_p_test_cpu_conv" => Some(0), // NULL
        "gpu_p_energy_read"
        | "gpu_p_usage_read"
        | "acct_gather_energy_p_update_node_energy"
        | "acct_gather_energy_p_get_data"
        | "acct_gather_energy_p_set_data" => Some(-1),
        _ => None,
    }
}

#[test]
fn a_panic_in_every_hook_leaves_the_process_alive_with_the_declared_fallback() {
    for_each(|loader, root, release, plugin| {
        let path = harness::dist()
            .join(format!("{}-fault", root.version()))
            .join(plugin.file);
        let hooks = hooks(release, plugin);
        let mut action = vec!["call", "--times", "5"];
        action.extend(hooks.iter().map(String::as_str));
        let said = loader.run("slurmd", &path, &action);
        assert_eq!(said.len(), 5 * hooks.len(), "{said:?}");
        for line in said {
            let (hook, answer) = line.split_once(' ').unwrap();
            if let Some(expected) = fallback(hook) {
                let answer: usize = answer.parse().unwrap();
                // A C int fills the lower half of the register.
                let answer =
                    i32::from_ne_bytes((answer as u64).to_ne_bytes()[..4].try_into().unwrap());
                assert_eq!(answer, expected, "{release} {}: {line}", plugin.file);
            }
        }
    });
}

/// Memory errors of ours, and blocks that nobody points to any more. What Slurm's own library does is not
/// ours: only records with the plugin in their stack count.
#[test]
fn valgrind_finds_no_error_of_ours() {
    const VALGRIND: [&str; 3] = [
        "valgrind",
        "--leak-check=full",
        "--show-leak-kinds=definite",
    ];
    for_each(|loader, root, release, plugin| {
        let path = harness::plugins(root.version()).join(plugin.file);
        let hooks = hooks(release, plugin);
        let mut action = vec!["call", "--times", "2"];
        action.extend(hooks.iter().map(String::as_str));
        for daemon in ["slurmd", "slurmstepd"] {
            let (_, report) = loader.run_under(&VALGRIND, daemon, &path, &action);
            assert!(
                report.contains("HEAP SUMMARY"),
                "valgrind did not run: {report}"
            );
            // `==12== ` begins each line, and a line of nothing else ends a record.
            let lines = report
                .lines()
                .filter_map(|line| line.strip_prefix("==")?.split_once("=="));
            let text: String = lines
                .map(|(_, line)| format!("{}\n", line.trim()))
                .collect();
            let ours: Vec<_> = text
                .split("\n\n")
                .filter(|record| record.contains("at 0x") && record.contains(plugin.file))
                .collect();
            let records = ours.join("\n\n");
            assert!(
                ours.is_empty(),
                "{release} {} in {daemon}:\n{records}",
                plugin.file
            );
        }
    });
}
