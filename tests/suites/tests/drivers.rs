//! The same driver under Slurm's other names, `AutoDetect=` in all its values, `--gpu-freq`, and Slurm's own
//! test of CPU masks.

use fake_nvml::Scenario;
use harness::{Builder, Cluster, Plugins, Release};
use suites::gres_lines;

fn scenario() -> Scenario {
    let mut scenario = Scenario::board("8xh100-sxm5");
    scenario.uuid_seed = Some("drivers".into());
    scenario
}

fn dry(release: Release, autodetect: &str) -> Builder {
    Cluster::builder(release)
        .scenario(scenario())
        .plugins(Plugins::Ours)
        .gres_conf(autodetect)
        .node_gres("gpu:h100:8")
}

/// On a host with the driver alone 22.05 finds no `libnvidia-ml.so` and loads gpu/generic.
#[test]
fn a_driver_only_host_finds_its_gpus() {
    for release in suites::releases() {
        let whole = gres_lines(dry(release, "AutoDetect=nvml"));
        assert_eq!(whole.len(), 8, "{whole:?}");
        assert_eq!(
            gres_lines(dry(release, "AutoDetect=nvml").driver_only()),
            whole,
            "{release}"
        );
    }
}

#[test]
fn autodetect_nvidia_finds_what_nvml_does_24_11() {
    if !suites::is_under_test(Release::Slurm24_11) {
        return;
    }
    let release = Release::Slurm24_11;
    let nvml = gres_lines(dry(release, "AutoDetect=nvml"));
    assert_eq!(gres_lines(dry(release, "AutoDetect=nvidia")), nvml);
}

/// gpu/generic is loaded under every `AutoDetect` that finds no other driver; with none that asks for
/// NVIDIA's GPUs the admin's own lines must count alone.
#[test]
fn gpus_configured_by_hand_stay_as_they_are() {
    for release in suites::releases() {
        for conf in [
            "Name=gpu Type=h100 File=/dev/nvidia[0-7]",
            "AutoDetect=off\nName=gpu Type=h100 File=/dev/nvidia[0-7] Cores=0-31",
        ] {
            let without = gres_lines(dry(release, conf).plugins(Plugins::None));
            assert!(!without.is_empty());
            assert_eq!(gres_lines(dry(release, conf)), without, "{release} {conf}");
        }
    }
}

/// Slurm's own test of the conversion from NVML's masks: `~` patterns in fake_gpus.conf. `~zero` is left
/// out: it ends slurmd with Slurm's own driver.
#[test]
fn cpu_masks_convert_as_with_slurms_own_driver() {
    let patterns = ["~one", "~three", "~half", "~XX"];
    let fake: String = (0..)
        .zip(patterns)
        .map(|(gpu, pattern)| format!("h100|128|{pattern}|(null)|/dev/nvidia{gpu}\n"))
        .collect();
    for release in suites::releases() {
        let [stock, ours] = [Plugins::Stock, Plugins::Ours].map(|plugins| {
            let dry = dry(release, "AutoDetect=nvml").node_gres("gpu:h100:4");
            gres_lines(dry.plugins(plugins).etc_slurm("fake_gpus.conf", &fake))
        });
        assert_eq!(stock.len(), 4);
        assert!(
            stock.iter().any(|line| line.contains("Cores=8-15")),
            "{stock:?}"
        );
        assert_eq!(ours, stock, "{release}");
    }
}

/// What `--gpu-freq` tells the user, and the clocks that the step's GPUs and the others have while it runs
/// and after it.
fn clocks(release: Release, plugins: Plugins) -> String {
    let cluster = dry(release, "AutoDetect=nvml")
        .plugins(plugins)
        .start()
        .unwrap();
    let node = cluster.nodes()[0].clone();
    let state = || {
        let path = cluster
            .path(&node, "/opt/fake-nvml/scenario.toml.state")
            .unwrap();
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let said = cluster
        .command("srun")
        .args([
            "--gres=gpu:2",
            "--gpu-freq=medium,memory=low,verbose",
            "sh",
            "-c",
        ])
        .args(["cat /opt/fake-nvml/scenario.toml.state"])
        .run()
        .unwrap()
        .ok()
        .unwrap();
    let told: Vec<_> = said
        .stderr
        .lines()
        .filter(|line| line.starts_with("GpuFreq"))
        .collect();
    let answer = format!("{told:?}\nduring:\n{}\nafter:\n{}", said.stdout, state());
    cluster.stop().unwrap();
    answer
}

#[test]
fn clocks_are_set_and_reset_as_with_slurms_own_driver() {
    for release in suites::releases() {
        let ours = clocks(release, Plugins::Ours);
        assert!(ours.contains("GpuFreq=memory_freq:"), "{ours}");
        assert_eq!(ours, clocks(release, Plugins::Stock), "{release}");
    }
}
