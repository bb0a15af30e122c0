//! The GPUs of a cluster on which SPANK plugins are tested.

use harness::{Builder, Plugins, Release};

/// Gives each node of a cluster with a board its GPUs and our plugins. Where we have a gpu plugin it finds the
/// GPUs and publishes their map; elsewhere gres.conf lists them by hand, as a site without such a plugin does.
pub fn of_the_board(cluster: Builder, release: Release, count: u32) -> Builder {
    let found = Release::FULL.contains(&release);
    let gres_conf = if found {
        "AutoDetect=nvml".to_owned()
    } else {
        format!(
            "AutoDetect=off\nName=gpu File=/dev/nvidia[0-{}]",
            count.saturating_sub(1)
        )
    };
    cluster
        .plugins(Plugins::Ours)
        .gres_conf(&gres_conf)
        .node_gres(&format!("gpu:{count}"))
}
