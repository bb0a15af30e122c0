//! Discovery and sampling against the fake NVML library (tests/fake-nvml).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu::nvml::{
    Clock, DiscoverError, DiscoverOptions, SampleError, Sampler, SamplerOptions, Session, Trace,
    Want, Worker, discover,
};
use gpu::type_name::{MigNaming, gres_type, mig_files, mig_gres_type, mig_unique_id};
use gpu::{FaultKind, Inventory, MigState, RemoteEnd, links};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

/// A copy of the fake library with a scenario beside it.
struct Fake {
    folder: tempfile::TempDir,
}

/// The fake library: where `SGPU_FAKE_NVML_DIR` says, else where cargo put it for this test.
fn library() -> PathBuf {
    let named = std::env::var_os("SGPU_FAKE_NVML_DIR")
        .map(|folder| PathBuf::from(folder).join("libnvidia-ml.so.1"));
    let test = std::env::current_exe().unwrap();
    let beside = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libfake_nvml.so"));
    named
        .into_iter()
        .chain(beside)
        .find(|path| path.exists())
        .unwrap_or_else(|| {
            panic!(
                "no fake NVML library: run `cargo build -p fake-nvml` first, or set \
             SGPU_FAKE_NVML_DIR to the folder that has its libnvidia-ml.so.1"
            )
        })
}

impl Fake {
    fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(library(), folder.path().join("libnvidia-ml.so.1")).unwrap();
        let fake = Self { folder };
        fake.play(scenario);
        fake
    }

    /// Changes the scenario.
    fn play(&self, scenario: &str) {
        let calls = self.path("calls");
        let text = format!(
            "count_calls = {:?}\n{scenario}",
            calls.display().to_string()
        );
        let new = self.path("new.toml");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path("scenario.toml")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.path("libnvidia-ml.so.1")
    }

    /// How often a call was made.
    fn count(&self, call: &str) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls
            .lines()
            .filter(|line| line.split(' ').nth(1) == Some(call))
            .count()
    }

    fn options(&self) -> DiscoverOptions {
        DiscoverOptions {
            library: Some(self.library()),
            proc: self.path("proc"),
            sys: self.path("sys"),
            ..DiscoverOptions::default()
        }
    }

    fn discover(&self) -> Inventory {
        discover(&Worker::new(), &self.options()).unwrap()
    }

    fn sampler(&self, min_age: Duration, keep_open: bool) -> Sampler {
        Sampler::new(SamplerOptions {
            library: Some(self.library()),
            want: Want {
                energy: true,
                processes: true,
                utilization: true,
            },
            min_age,
            keep_open,
        })
    }

    fn session(&self) -> Session {
        Session::open(Some(&self.library()), &Arc::new(Trace::default())).unwrap()
    }
}

const H100: &str = "board = \"8xh100-sxm5\"\n";

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

fn hang(call: &str, device: u32) -> String {
    format!("[[fault]]\ncall = \"{call}\"\ndevice = {device}\nmode = \"hang\"\n")
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

const TWO_PROCESSES: &str = "\
    [[device]]\nindex = 0\nenergy_mj = 123456\n\
    [[process]]\ndevice = 0\npid = 4001\ngpu_memory_mib = 300\nsm_util = 40\n\
    [[process]]\ndevice = 0\npid = 4001\ngpu_memory_mib = 300\nkind = \"graphics\"\n\
    [[process]]\ndevice = 1\npid = 4002\ngpu_memory_mib = 20\n";

#[test]
fn samples() {
    let fake = Fake::new(&format!("{H100}{TWO_PROCESSES}"));
    let sample = fake.sampler(Duration::ZERO, false).sample(LONG).unwrap();
    let gpu = |index: usize| sample.gpus[index].as_ref().unwrap();
    assert_eq!(gpu(0).energy_mj, Some(123_456));
    assert!(gpu(0).power_mw.is_some());
    assert_eq!(gpu(0).processes.len(), 1);
    assert_eq!(gpu(0).processes[0].pid, 4001);
    // In both lists, counted once.
    assert_eq!(gpu(0).processes[0].memory_bytes, Some(300 << 20));
    assert_eq!(gpu(1).processes[0].memory_bytes, Some(20 << 20));
    assert_eq!((gpu(2).processes.len(), gpu(2).minor), (0, Some(2)));
}

#[test]
fn each_gpu_is_read_once_per_poll() {
    let fake = Fake::new(&format!("{H100}{TWO_PROCESSES}"));
    let sampler = fake.sampler(LONG, true);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| sampler.sample(LONG).unwrap());
        }
    });
    assert_eq!(fake.count("nvmlInit_v2"), 1);
    assert_eq!(fake.count("nvmlDeviceGetTotalEnergyConsumption"), 8);
    assert_eq!(fake.count("nvmlShutdown"), 0);
    sampler.release(LONG).unwrap();
    assert_eq!(fake.count("nvmlShutdown"), 1);
}

#[test]
fn nvml_is_open_only_while_it_is_to_be() {
    let fake = Fake::new(H100);
    let kept = fake.sampler(Duration::ZERO, true);
    kept.sample(LONG).unwrap();
    kept.sample(LONG).unwrap();
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (1, 0)
    );
    kept.release(LONG).unwrap();
    let closed = fake.sampler(Duration::ZERO, false);
    closed.sample(LONG).unwrap();
    closed.sample(LONG).unwrap();
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (3, 3)
    );
}

#[test]
fn sampling_survives_a_gpu_that_hangs() {
    let fake = Fake::new(&format!("{H100}{}", hang("nvmlDeviceGetPowerUsage", 3)));
    let sampler = fake.sampler(Duration::ZERO, true);
    match sampler.sample(SHORT) {
        Err(SampleError::Hung(hung)) => {
            assert_eq!(
                (hung.call, hung.device),
                ("nvmlDeviceGetPowerUsage", Some(3))
            );
        }
        other => panic!("{other:?}"),
    }
    let sample = sampler.sample(LONG).unwrap();
    assert_eq!(sample.gpus.iter().flatten().count(), 7);
    assert!(matches!(
        sample.gpus[3].as_ref().unwrap_err().kind,
        FaultKind::Hung(_)
    ));
    assert!(sampler.release(LONG).is_err());
    fake.play(H100);
    let start = Instant::now();
    while sampler.wedged().is_some() {
        assert!(start.elapsed() < LONG, "the call has not returned");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        sampler.sample(LONG).unwrap().gpus.iter().flatten().count(),
        8
    );
    sampler.release(LONG).unwrap();
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
