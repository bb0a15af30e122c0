//! Clusters with training frameworks, and programs of theirs that `srun` starts.

use std::time::Duration;

use fake_nvml::Scenario;
use harness::{Builder, Cluster, Exec, Plugins, User};

/// What a site would set: the machines of a test cluster share one network interface, and Debian 13 builds
/// PyTorch without libuv.
const SITE: &str = "\
[env]
set = { GLOO_SOCKET_IFNAME = \"lo\", USE_LIBUV = \"0\" }
";

/// Two nodes with four GPUs each, where `spank_sgpu_env` sets what steps ask for.
pub fn site(cluster: Builder, arguments: &str) -> Builder {
    cluster
        .nodes(2)
        .scenario(Scenario::board("4xt4"))
        .plugins(Plugins::Ours)
        .gres_conf("AutoDetect=nvml")
        .node_gres("gpu:4")
        .etc_slurm(
            "plugstack.conf",
            &format!("optional /opt/sgpu/plugins/spank_sgpu_env.so {arguments}\n"),
        )
        .etc_slurm("sgpu.toml", SITE)
}

/// An srun, to which the program is still to be added.
pub fn srun<'a>(cluster: &'a Cluster, options: &[&str]) -> Exec<'a> {
    cluster
        .command("srun")
        .args(options)
        .user(User::Alice)
        .timeout(Duration::from_secs(180))
}

/// The lines that a program printed, in order.
///
/// # Panics
/// When it fails.
#[must_use]
pub fn lines(program: &Exec<'_>) -> Vec<String> {
    let said = program.run().unwrap().ok().unwrap();
    let mut lines: Vec<String> = said.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What the tasks of an srun printed that all run a Python program, in order.
///
/// # Panics
/// When one fails.
#[must_use]
pub fn python(cluster: &Cluster, options: &[&str], program: &str) -> Vec<String> {
    lines(&srun(cluster, options).args(["python3", "-c", program]))
}
