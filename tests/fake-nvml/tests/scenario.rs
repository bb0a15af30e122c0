//! Scenario files: what is understood, what is refused and with which words.

use fake_nvml::scenario::{Device, Fault, FaultMode};
use fake_nvml::status::Status;
use fake_nvml::{Scenario, board};

fn refused(text: &str) -> String {
    let resolved = Scenario::parse(text).and_then(|scenario| scenario.resolve());
    resolved
        .err()
        .map(|error| error.to_string())
        .expect("refused")
}

#[test]
fn every_board_resolves() {
    for name in board::names() {
        let board = Scenario::board(name).resolve().unwrap();
        assert!(
            board.cpus() > 0 && board.hwloc_synthetic().is_some(),
            "{name}"
        );
        for gpu in &board.gpus {
            assert!(gpu.name.is_some() && gpu.memory_mib.is_some(), "{name}");
            assert!(!gpu.cpus.is_empty() && !gpu.bridges.is_empty(), "{name}");
            assert!(gpu.cpus.iter().all(|cpu| *cpu < board.cpus()), "{name}");
            let sets = gpu.clock_sets.as_deref().unwrap_or_default();
            let known = sets
                .iter()
                .flat_map(|set| set.graphics_mhz())
                .collect::<Vec<_>>();
            assert!(known.contains(&gpu.graphics_mhz.unwrap()), "{name}");
        }
        let ascending = board.gpus.windows(2).all(|pair| pair[0].pci < pair[1].pci);
        assert!(ascending, "{name}: NVML numbers devices by address");
    }
}

#[test]
fn numbers_of_devices() {
    let counts = board::names().map(|name| Scenario::board(name).resolve().unwrap().gpus.len());
    assert_eq!(counts.collect::<Vec<_>>(), [8, 8, 8, 8, 4, 8, 4, 16, 2, 2]);
}

#[test]
fn a_scenario_lies_over_its_board() {
    let scenario = Scenario::parse(
        "board = \"8xh100-sxm5\"\ngpus = 3\n[every_device]\ntemperature_c = 50\n\
         [[device]]\nindex = 1\nname = \"NVIDIA X\"\npcie.width = 8\ntemperature_c = 60\n",
    );
    let board = scenario.unwrap().resolve().unwrap();
    let names: Vec<_> = board
        .gpus
        .iter()
        .map(|gpu| gpu.name.clone().unwrap())
        .collect();
    assert_eq!(
        names,
        ["NVIDIA H100 80GB HBM3", "NVIDIA X", "NVIDIA H100 80GB HBM3"]
    );
    let degrees: Vec<_> = board
        .gpus
        .iter()
        .map(|gpu| gpu.temperature_c.unwrap())
        .collect();
    assert_eq!(degrees, [50, 60, 50]);
    let pcie = board.gpus[1].pcie.clone().unwrap();
    assert_eq!(
        (pcie.width, pcie.max_width, pcie.generation),
        (Some(8), Some(16), Some(5))
    );
}

#[test]
fn identities_depend_on_board_and_seed_only() {
    let uuids = |seed: Option<&str>| {
        let mut scenario = Scenario::board("8xh100-sxm5");
        scenario.uuid_seed = seed.map(str::to_owned);
        let board = scenario.resolve().unwrap();
        board
            .gpus
            .iter()
            .map(|gpu| gpu.uuid.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(uuids(None), uuids(None));
    assert_ne!(uuids(Some("node1")), uuids(Some("node2")));
    assert_eq!(
        uuids(None)[0].len(),
        "GPU-00000000-0000-4000-8000-000000000000".len()
    );
}

#[test]
fn a_machine_without_a_board() {
    let text = "[[device]]\nindex = 0\npci = \"01:00.0\"\nname = \"NVIDIA A10\"\n";
    let board = Scenario::parse(text).unwrap().resolve().unwrap();
    assert_eq!(board.gpus[0].pci.to_string(), "0000:01:00.0");
    assert_eq!(board.gpus[0].memory_mib, None);
    assert_eq!(Scenario::default().resolve().unwrap().gpus.len(), 0);
}

#[test]
fn toml_and_back() {
    for name in board::names() {
        let mut scenario = Scenario::board(name);
        scenario.fault = vec![
            Fault::error("nvmlDeviceGetName", Status::GPU_IS_LOST),
            Fault {
                device: Some(0),
                ..Fault::hang("*")
            },
        ];
        *scenario.device_mut(0) = Device {
            index: Some(0),
            power_schedule: Some(vec![(1.0, 2.5)]),
            lost: Some(true),
            ..Device::default()
        };
        assert_eq!(Scenario::parse(&scenario.to_toml()).unwrap(), scenario);
    }
}

#[test]
fn names_and_numbers_of_errors() {
    let fault = |error: &str| {
        let text = format!(
            "board = \"4xt4\"\n[[fault]]\ncall = \"nvmlInit\"\nmode = \"error\"\nerror = {error}\n"
        );
        Scenario::parse(&text).map(|scenario| scenario.fault[0].clone())
    };
    assert_eq!(fault("\"timeout\"").unwrap().error, Some(Status::TIMEOUT));
    assert_eq!(fault("15").unwrap().error, Some(Status::GPU_IS_LOST));
    assert_eq!(fault("15").unwrap().mode, FaultMode::Error);
    assert!(fault("\"lost\"").is_err());
}

#[test]
fn refusals_name_the_place() {
    assert!(
        refused("board = \"4xt4\"\nbord = 1\n").starts_with("scenario:2:1: unknown field `bord`")
    );
    let wrong_type =
        refused("board = \"4xt4\"\n[[device]]\nindex = 0\n  temperature_c = \"hot\"\n");
    assert!(wrong_type.starts_with("scenario:4:19: "), "{wrong_type}");
    assert!(wrong_type.contains("temperature_c"), "{wrong_type}");
    assert!(refused("board = \"9xh100\"\n").contains("board: `9xh100` is not one of"));
    let text = "board = \"4xt4\"\n[[device]]\nindex = 4\n";
    assert!(refused(text).contains("beyond the board's 4 devices"));
    assert!(refused("[[device]]\nlost = true\n").contains("device[0].index: missing"));
    let text = "board = \"4xt4\"\n[[fault]]\ncall = \"nvmlDeviceGetNane\"\nmode = \"hang\"\n";
    assert!(refused(text).contains("fault[0].call: `nvmlDeviceGetNane` is not an NVML call"));
    let text = "board = \"4xt4\"\n[[process]]\ndevice = 7\npid = 1\n";
    assert!(refused(text).contains("process[0].device: there is no device 7"));
    let text = "board = \"4xt4\"\n[[process]]\ndevice = 0\n";
    assert!(refused(text).contains("either pid or comm"));
    let text = "board = \"h100-mig-7x1g\"\n[[device]]\nindex = 0\nmig = [{ profile = \"1g.5gb\", gi = 1 }]\n";
    assert!(refused(text).contains("device[0].mig[0].profile: `1g.5gb` is not one of 1g.10gb"));
    let text = "board = \"4xt4\"\n[[device]]\nindex = 0\npci = \"x\"\n";
    assert!(refused(text).contains("device[0].pci"));
    let text = "board = \"4xt4\"\n[[device]]\nindex = 1\nminor = 0\n";
    assert!(refused(text).contains("device.minor: 0 is given twice"));
    let text = "board = \"4xt4\"\n[[device]]\nindex = 1\npower_schedule = [[2, 1], [1, 1]]\n";
    assert!(refused(text).contains("times must ascend"));
}

#[test]
fn a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, "gpus = -1\n").unwrap();
    let told = Scenario::load(&path).unwrap_err().to_string();
    assert!(
        told.starts_with(&format!("{}:1:8: ", path.display())),
        "{told}"
    );
    let scenario = Scenario::board("4xt4");
    scenario.write_atomically(&path).unwrap();
    assert_eq!(Scenario::load(&path).unwrap(), scenario);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
