//! The same test on Slurm's own driver (Debian's contrib package) and on ours: what `slurmd -G` prints for
//! each board, and what jobs get.

use fake_nvml::Scenario;
use harness::{Cluster, Plugins, Release};
use suites::jobs;

/// The boards, a part of their GPUs' type, and what `Links` may differ in: see docs/src/gpu-driver.md.
const BOARDS: [(&str, &str, Links); 10] = [
    ("8xa100-sxm4-80gb", "a100", Links::All(12)),
    ("8xh100-sxm5", "h100", Links::All(18)),
    ("8xh200", "h200", Links::All(18)),
    ("8xb200", "b200", Links::All(18)),
    ("16xv100-sxm3", "v100", Links::All(6)),
    ("4xgh200", "gh200", Links::Same),
    ("8xl40s", "l40s", Links::Pcie),
    ("4xt4", "t4", Links::Pcie),
    ("a100-mig-mixed", "a100", Links::Any),
    ("h100-mig-7x1g", "h100", Links::Any),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Links {
    /// As Slurm's own driver has them.
    Same,
    /// Slurm's own driver gives zeros; ours this number to each other GPU.
    All(u32),
    /// Slurm's own driver gives zeros; ours ranks the way over PCIe.
    Pcie,
    /// MIG devices have none; whole GPUs beside them are not compared.
    Any,
}

/// A line without its Links, and the Links.
fn split(line: &str) -> (String, Option<String>) {
    let (mut rest, mut links) = (Vec::new(), None);
    for word in line.split(' ') {
        match word.strip_prefix("Links=") {
            Some(value) => links = Some(value.to_owned()),
            None => rest.push(word),
        }
    }
    (rest.join(" "), links)
}

/// The board with the same UUIDs on each node.
fn scenario(board: &str) -> Scenario {
    let mut scenario = Scenario::board(board);
    scenario.uuid_seed = Some("oracle".into());
    scenario
}

fn gres_lines(release: Release, board: &str, model: &str, plugins: Plugins) -> Vec<String> {
    let scenario = scenario(board);
    let gpus = scenario.resolve().unwrap();
    let count: usize = gpus.gpus.iter().map(|gpu| gpu.mig.len().max(1)).sum();
    let lines = suites::gres_lines(
        Cluster::builder(release)
            .scenario(scenario)
            .plugins(plugins)
            .gres_conf("AutoDetect=nvml")
            .node_gres(&format!("gpu:{model}:{count}")),
    );
    assert_eq!(
        lines.len(),
        count,
        "{release} {board} {plugins:?}: {lines:?}"
    );
    lines
}

#[test]
fn slurmd_g_prints_the_same_lines() {
    for release in suites::releases() {
        for (board, model, expected) in BOARDS {
            let stock = gres_lines(release, board, model, Plugins::Stock);
            let ours = gres_lines(release, board, model, Plugins::Ours);
            for (gpu, (stock, ours)) in stock.iter().zip(&ours).enumerate() {
                let ((stock, stock_links), (ours, our_links)) = (split(stock), split(ours));
                assert_eq!(ours, stock, "{release} {board}");
                let (stock_links, our_links) = (
                    stock_links.unwrap_or_default(),
                    our_links.unwrap_or_default(),
                );
                match expected {
                    Links::Same => assert_eq!(our_links, stock_links, "{release} {board}"),
                    Links::All(links) => {
                        let vector: Vec<_> = (0..ours_count(board))
                            .map(|other| {
                                if other == gpu {
                                    "-1".into()
                                } else {
                                    links.to_string()
                                }
                            })
                            .collect();
                        assert_eq!(our_links, vector.join(","), "{release} {board}");
                    }
                    Links::Pcie => {
                        let numbers: Vec<i32> = our_links
                            .split(',')
                            .map(|number| number.parse().unwrap())
                            .collect();
                        assert_eq!(numbers[gpu], -1, "{our_links}");
                        assert!(
                            numbers.iter().any(|number| *number > 0),
                            "{release} {board}: {our_links}"
                        );
                    }
                    Links::Any => {}
                }
            }
        }
    }
}

fn ours_count(board: &str) -> usize {
    Scenario::board(board).resolve().unwrap().gpus.len()
}

/// What a job sees of its GPUs: the environment, and which device files it may open. The first is
/// stock's and the second ours.
fn what_jobs_get(
    release: Release,
    board: &str,
    gres: &str,
    requests: &[&[&str]],
) -> [Vec<String>; 2] {
    [Plugins::Stock, Plugins::Ours].map(|plugins| {
        let cluster = Cluster::builder(release)
            .scenario(scenario(board))
            .plugins(plugins)
            .gres_conf("AutoDetect=nvml")
            .node_gres(gres)
            .constrain_devices(true)
            .start()
            .unwrap();
        let seen = requests
            .iter()
            .map(|request| {
                let mut words = request.to_vec();
                words.extend(["-l", "sh", "-c", LOOK]);
                let mut lines: Vec<_> = jobs::srun(&cluster, &words)
                    .lines()
                    .map(str::to_owned)
                    .collect();
                lines.sort();
                lines.join("\n")
            })
            .collect();
        cluster.stop().unwrap();
        seen
    })
}

/// Opening a device file gives "No such device" when it is allowed (there is no driver), "Operation not
/// permitted" when not.
const LOOK: &str = "echo cuda=$CUDA_VISIBLE_DEVICES step=$SLURM_STEP_GPUS job=$SLURM_JOB_GPUS; \
    for file in /dev/nvidia[0-9]* /dev/nvidia-caps/*; do \
    [ ! -e $file ] || echo $file $(cat $file 2>&1 | sed 's/.*: //'); done";

#[test]
fn jobs_get_the_same_gpus_and_devices() {
    let whole: [&[&str]; 4] = [
        &["--gres=gpu:2"],
        &["-n4", "--gpus-per-task=1"],
        &["-n2", "--gpus=4", "--gpu-bind=closest"],
        &["-n2", "--gpus-per-task=2", "--gpu-bind=verbose,closest"],
    ];
    let mig: [&[&str]; 2] = [&["--gres=gpu:1"], &["-n2", "--gpus-per-task=1"]];
    for release in suites::releases() {
        for (board, gres, requests) in [
            ("8xa100-sxm4-80gb", "gpu:a100:8", &whole[..]),
            ("h100-mig-7x1g", "gpu:h100:7", &mig[..]),
        ] {
            let [stock, ours] = what_jobs_get(release, board, gres, requests);
            for ((request, stock), ours) in requests.iter().zip(&stock).zip(&ours) {
                eprintln!("{release} {board} {request:?}\n{ours}\n");
                assert!(ours.contains("cuda="), "{ours}");
                assert!(
                    ours.contains("not permitted"),
                    "devices are not constrained: {ours}"
                );
                assert_eq!(ours, stock, "{release} {board} {request:?}");
            }
        }
    }
}
