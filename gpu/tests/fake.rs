//! Discovery and single calls against the fake NVML library (tests/fake-nvml).

mod support;

use std::fs;
use std::time::{Duration, Instant};

use gpu::nvml::{Clock, DiscoverError, DiscoverOptions, Worker, discover};
use gpu::type_name::{MigNaming, gres_type, mig_files, mig_gres_type, mig_unique_id};
use gpu::{FaultKind, MigState, RemoteEnd, links};
use support::{Fake, H100, LONG, SHORT, hang};

#[test]
fn eight_h100() {
    let fake = Fake::new(H100);
    let inventory = fake.discover();
    assert_eq!(inventory.driver_version, "570.124.06");
    assert_eq!(inventory.faults().count(), 0);
    assert_eq!(inventory.notes, []);
    assert_eq!(inventory.gpus.len(), 8);
    for (gpu, index) in inventory.healthy().zip(0u32..) {
        assert_eq!((gpu.index, gpu.minor), (index, Some(index)));
        assert_eq!(gres_type(&gpu.name), "nvidia_h100_80gb_hbm3");
        assert!(gpu.uuid.starts_with("GPU-"), "{}", gpu.uuid);
        assert_eq!(gpu.mig, MigState::Disabled);
        let near = if index < 4 { "0-63" } else { "64-127" };
        assert_eq!(gpu.cpu_affinity.as_ref().unwrap().to_string(), near);
        assert_eq!(gpu.nvlinks.len(), 18);
        assert!(
            gpu.nvlinks
                .iter()
                .all(|link| matches!(link.remote, RemoteEnd::Switch(_)))
        );
        assert_eq!(gpu.notes, []);
        assert_eq!(gpu.memory_mib, Some(81559));
    }
    let (vectors, rule) = links::inventory_links(&inventory, |_, _| None);
    assert_eq!(rule, links::LinkRule::NvSwitch);
    assert_eq!(links::format(&vectors[2]), "18,18,-1,18,18,18,18,18");
}

#[test]
fn no_call_is_made_twice() {
    let fake = Fake::new(H100);
    fake.discover();
    for call in ["nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2"] {
        assert_eq!(fake.count(call), 1, "{call}");
    }
    for call in [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
    ] {
        assert_eq!(fake.count(call), 8, "{call}");
    }
    // One link of each GPU tells that all of them end at switches.
    assert_eq!(fake.count("nvmlDeviceGetNvLinkRemotePciInfo_v2"), 8);
    assert!(fake.count("nvmlDeviceGetNvLinkRemoteDeviceType") <= 8);
    assert_eq!(fake.count("nvmlDeviceGetSupportedMemoryClocks"), 0);
}

#[test]
fn mig_devices() {
    let fake = Fake::new("board = \"a100-mig-mixed\"\n");
    let minors = fake.path("proc/driver/nvidia-caps");
    fs::create_dir_all(&minors).unwrap();
    fs::write(
        minors.join("mig-minors"),
        "config 1\nmonitor 2\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\ngpu0/gi3/access 30\n\
         gpu0/gi3/ci0/access 31\ngpu0/gi9/access 84\ngpu0/gi9/ci0/access 85\n",
    )
    .unwrap();
    let inventory = fake.discover();
    let cut = inventory.gpus[0].as_ref().unwrap();
    let whole = inventory.gpus[1].as_ref().unwrap();
    assert_eq!(whole.mig, MigState::Disabled);
    let instances = cut.mig.instances().unwrap();
    let mut found: Vec<(u32, &str)> = instances
        .iter()
        .map(|instance| (instance.gpu_instance_id, instance.profile.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (2, "3g.40gb"),
            (3, "2g.20gb"),
            (9, "1g.10gb"),
            (10, "1g.10gb")
        ]
    );
    let by_gi = |gi| {
        instances
            .iter()
            .find(|instance| instance.gpu_instance_id == gi)
            .unwrap()
    };
    let large = by_gi(2);
    for naming in [MigNaming::Attributes, MigNaming::DeviceName] {
        assert_eq!(
            mig_gres_type(&cut.name, by_gi(9), naming),
            "nvidia_a100_1g.10gb"
        );
    }
    // 40192 MiB: 39.25 GiB, which 22.05 rounds down.
    assert_eq!(
        mig_gres_type(&cut.name, large, MigNaming::Attributes),
        "nvidia_a100_3g.39gb"
    );
    assert_eq!(
        mig_gres_type(&cut.name, large, MigNaming::DeviceName),
        "nvidia_a100_3g.40gb"
    );
    assert_eq!(
        mig_files(cut, large).unwrap(),
        "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22"
    );
    assert!(mig_unique_id(&inventory.driver_version, &cut.uuid, large).starts_with("MIG-"));
    assert_eq!(large.memory_mib, Some(40192));
    // One instance has no capability devices: it is kept, and a note says so.
    assert_eq!(mig_files(cut, by_gi(10)), None);
    assert_eq!(cut.notes.len(), 1);
}

#[test]
fn a_board_without_nvlink() {
    let fake = Fake::new("board = \"8xl40s\"\n");
    let inventory = fake.discover();
    assert!(
        inventory
            .healthy()
            .all(|gpu| gpu.nvlinks.is_empty() && gpu.notes.is_empty())
    );
    let (vectors, rule) = links::inventory_links(&inventory, |_, _| None);
    assert_eq!(rule, links::LinkRule::Nothing);
    assert_eq!(links::format(&vectors[0]), "-1,0,0,0,0,0,0,0");
}

#[test]
fn one_sick_gpu_hides_no_other() {
    let fake = Fake::new(&format!(
        "{H100}[[device]]\nindex = 2\nlost = true\n\
         [[fault]]\ncall = \"nvmlDeviceGetUUID\"\ndevice = 5\nmode = \"error\"\n\
         [[fault]]\ncall = \"nvmlDeviceGetCpuAffinity\"\ndevice = 6\nmode = \"error\"\n"
    ));
    let inventory = fake.discover();
    assert_eq!(inventory.healthy().count(), 6);
    let faults: Vec<_> = inventory.faults().collect();
    assert_eq!(
        (faults[0].index, &faults[0].kind),
        (2, &FaultKind::Nvml(15))
    );
    assert_eq!(
        (faults[1].index, &faults[1].kind),
        (5, &FaultKind::Nvml(999))
    );
    assert_eq!(faults[1].call, "nvmlDeviceGetUUID");
    assert!(faults[1].pci.is_some());
    let limping = inventory.gpus[6].as_ref().unwrap();
    assert_eq!(limping.cpu_affinity, None);
    assert_eq!(
        limping.notes[0].to_string(),
        "nvmlDeviceGetCpuAffinity: Unknown Error"
    );
    let (vectors, _) = links::inventory_links(&inventory, |_, _| None);
    assert_eq!(links::format(&vectors[0]), "-1,18,0,18,18,0,18,18");
}

#[test]
fn no_driver() {
    let fake = Fake::new(&format!("init_error = \"driver_not_loaded\"\n{H100}"));
    let error = discover(&Worker::new(), &fake.options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nvmlInit_v2: Driver Not Loaded (NVML code 9)"
    );
}

#[test]
fn a_gpu_that_hangs_is_named() {
    let fake = Fake::new(&format!("{H100}{}", hang("nvmlDeviceGetName", 3)));
    let worker = Worker::new();
    let options = DiscoverOptions {
        gpu_deadline: SHORT,
        ..fake.options()
    };
    let inventory = discover(&worker, &options).unwrap();
    let fault = inventory.faults().next().unwrap();
    assert_eq!(inventory.healthy().count(), 7);
    assert_eq!((fault.index, fault.call), (3, "nvmlDeviceGetName"));
    assert_eq!(fault.kind, FaultKind::Hung(SHORT));
    assert!(fault.uuid.is_some());
    assert_eq!(worker.wedged().unwrap().device, Some(3));
    // The same worker asks nothing more until the call returns.
    assert!(worker.run(LONG, |_| ()).is_err());
    fake.play(H100);
    let start = Instant::now();
    while worker.wedged().is_some() {
        assert!(start.elapsed() < LONG, "the call has not returned");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(discover(&worker, &options).unwrap().healthy().count(), 8);
}

#[test]
fn two_hung_gpus_are_enough() {
    let fake = Fake::new(&format!(
        "{H100}{}{}",
        hang("nvmlDeviceGetName", 1),
        hang("nvmlDeviceGetMigMode", 4)
    ));
    let options = DiscoverOptions {
        gpu_deadline: SHORT,
        ..fake.options()
    };
    let start = Instant::now();
    let inventory = discover(&Worker::new(), &options).unwrap();
    assert!(start.elapsed() < LONG);
    assert_eq!(inventory.gpus.len(), 8);
    assert_eq!(
        inventory.healthy().map(|gpu| gpu.index).collect::<Vec<_>>(),
        [0, 2, 3]
    );
    let kinds: Vec<_> = inventory.faults().map(|fault| &fault.kind).collect();
    assert_eq!(*kinds[1], FaultKind::Hung(SHORT));
    assert_eq!(*kinds[4], FaultKind::NotAsked { hung: vec![1, 4] });
    fake.play(H100);
}

#[test]
fn init_that_hangs() {
    let fake = Fake::new(&format!(
        "{H100}[[fault]]\ncall = \"nvmlInit\"\nmode = \"hang\"\n"
    ));
    let options = DiscoverOptions {
        init_deadline: SHORT,
        ..fake.options()
    };
    match discover(&Worker::new(), &options) {
        Err(DiscoverError::Hung(hung)) => {
            assert_eq!((hung.call, hung.fresh), ("nvmlInit_v2", true))
        }
        other => panic!("{other:?}"),
    }
    fake.play(H100);
}

#[test]
fn clocks() {
    let fake = Fake::new(&format!("unprivileged_changes = true\n{H100}"));
    let session = fake.session();
    let device = session.device_by_index(1).unwrap();
    assert_eq!(device.supported_memory_clocks().unwrap(), [2619, 1593]);
    let graphics = device.supported_graphics_clocks(2619).unwrap();
    assert_eq!(
        (graphics.first(), graphics.last()),
        (Some(&1980), Some(&345))
    );
    device.set_applications_clocks(1593, 345).unwrap();
    assert_eq!(device.applications_clock(Clock::Graphics), Ok(345));
    assert_eq!(device.applications_clock(Clock::Memory), Ok(1593));
    device.reset_applications_clocks().unwrap();
    assert_ne!(device.applications_clock(Clock::Graphics), Ok(345));
}

#[test]
fn by_uuid_and_by_address() {
    let fake = Fake::new(H100);
    let session = fake.session();
    let device = session.device_by_index(5).unwrap();
    let (uuid, pci) = (device.uuid().unwrap(), device.pci().unwrap());
    assert_eq!(session.device_by_uuid(&uuid).unwrap().ask_index(), Ok(5));
    assert_eq!(session.device_by_pci(&pci).unwrap().ask_index(), Ok(5));
    assert!(session.device_by_uuid("GPU-none").is_err());
}
