//! What slurmd found, and where the driver published it.

use std::time::Duration;

use anyhow::{Context, Result};
use harness::Cluster;

use crate::show;

pub(crate) fn tell(cluster: &Cluster) -> Result<()> {
    show::chapter("Discovery");
    println!("gres.conf says `AutoDetect=nvml`, and gpu/nvml is ours. What slurmd registers:");
    let node = cluster.nodes().first().context("a node")?;
    show::command("slurmd", &["-G", "-N", node]);
    let said = cluster.slurmd_g(node)?;
    let text = format!("{}{}", said.stdout, said.stderr);
    let field = |line: &str, name: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or("-")
            .to_owned()
    };
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.contains("Gres Name=gpu"))
        .map(|line| {
            ["Index", "Type", "File", "Cores", "Links"]
                .map(|name| field(line, name))
                .to_vec()
        })
        .collect();
    show::table(
        &[
            "INDEX",
            "TYPE",
            "FILE",
            "CORES",
            "LINKS (NVLinks to each GPU)",
        ],
        &rows,
    );

    let map = gpu::index_map::DEFAULT_PATH;
    println!("\nWhich GPU stands behind each index, for whoever gets one from Slurm:");
    show::command("head", &["-3", map]);
    // A node may be idle before its slurmd has written the map.
    let said = cluster.wait_until("the published map", Duration::from_secs(10), || {
        let said = cluster.command("head").args(["-3", map]).on(node).run();
        said.and_then(harness::Output::ok)
            .map_err(|error| error.to_string())
    })?;
    print!("{}", said.stdout);

    show::command("sinfo", &["-N", "-o", "'%N %T %G'"]);
    print!(
        "{}",
        cluster.run("sinfo", ["-N", "-o", "%N %T %G"])?.ok()?.stdout
    );
    Ok(())
}
