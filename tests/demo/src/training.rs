//! Distributed training: what the SPANK plugins give each task.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use harness::{Cluster, User};

use crate::show;

/// What the demo's cluster has in plugstack.conf.
pub(crate) const PLUGSTACK: &str = "\
optional /opt/sgpu/plugins/spank_sgpu_bind.so
optional /opt/sgpu/plugins/spank_sgpu_env.so
optional /opt/sgpu/plugins/spank_sgpu_ckpt.so
";

/// In the place of a training program: says who and where it is. The kernel says which CPUs it may use.
const LOOK: &str = "echo \"$RANK $WORLD_SIZE $SLURMD_NODENAME $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT \
    $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) $SGPU_BIND\"";

/// Saves when it is told to, and ends.
const SAVE: &str = "\
begun=$(date +%s)
trap 'echo \"told after $(($(date +%s) - begun))\"; exit 0' USR1
while :; do sleep 0.2; done";

/// The chapter.
pub(crate) fn tell(cluster: &Cluster) -> Result<()> {
    show::chapter("Distributed training");
    ranks(cluster)?;
    checkpoint(cluster)
}

fn ranks(cluster: &Cluster) -> Result<()> {
    let options = [
        "-N2",
        "--ntasks-per-node=2",
        "--gpus-per-node=2",
        "--dist-env=torch",
        "--gpu-numa-bind",
        "--gpu-numa-mem=preferred",
    ];
    let mut rows = Vec::new();
    for line in srun(cluster, &options, LOOK)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[rank, size, node, local, master, cores, ..] = words.as_slice() else {
            anyhow::bail!("a task says {line:?}");
        };
        let bound = |what: &str| {
            let word = words.iter().find_map(|word| word.strip_prefix(what));
            word.unwrap_or("-").to_owned()
        };
        rows.push(vec![
            format!("{rank} of {size}"),
            node.to_owned(),
            local.to_owned(),
            master.to_owned(),
            bound("gpus="),
            cores.to_owned(),
            bound("mem=preferred:"),
        ]);
    }
    rows.sort();
    ensure!(
        rows.len() == 4,
        "4 tasks were started, {} spoke",
        rows.len()
    );
    println!("\nWhat each task finds:");
    show::table(
        &[
            "RANK",
            "NODE",
            "LOCAL",
            "MASTER",
            "GPU",
            "CORES",
            "MEMORY NODE",
        ],
        &rows,
    );
    println!(
        "\nGPUs 0 to 3 of a node are near its cores 0 to 63, and the tasks share those without overlap. (Tasks here \
         have this\nmachine's own few cores, and its memory nodes: `-` where its kernel has none.)"
    );
    Ok(())
}

fn checkpoint(cluster: &Cluster) -> Result<()> {
    let options = ["--time=1", "--gpus=1", "--checkpoint-signal=USR1@50"];
    let said = srun(cluster, &options, SAVE)?;
    let ran = said
        .trim()
        .strip_prefix("told after ")
        .with_context(|| format!("the program was not told: {said:?}"))?;
    println!(
        "\nIts limit is one minute. The program got SIGUSR1 when it had run {ran} s, saved and ended."
    );
    Ok(())
}

fn srun(cluster: &Cluster, options: &[&str], script: &str) -> Result<String> {
    let mut shown = options.to_vec();
    shown.push("train.sh");
    show::command("srun", &shown);
    let said = cluster
        .command("srun")
        .args(options)
        .args(["sh", "-c", script])
        .user(User::Alice)
        .timeout(Duration::from_secs(120))
        .run()?
        .ok()?;
    Ok(said.stdout)
}
