//! Sampling against the fake NVML library (tests/fake-nvml).

mod support;

use std::time::{Duration, Instant};

use gpu::FaultKind;
use gpu::nvml::{GpuSample, Hung, MigShare, Sample, SampleError, Sampler, Want};
use support::{Fake, H100, LONG, SHORT, hang};

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
    until_unwedged(&sampler);
    assert_eq!(
        sampler.sample(LONG).unwrap().gpus.iter().flatten().count(),
        8
    );
    sampler.release(LONG).unwrap();
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn until_unwedged(sampler: &Sampler) {
    until("the call has not returned", || sampler.wedged().is_none());
}

fn hung(sampler: &Sampler) -> Hung {
    match sampler.sample(SHORT) {
        Err(SampleError::Hung(hung)) => hung,
        other => panic!("{other:?}"),
    }
}

fn healthy(sample: &Sample) -> Vec<&GpuSample> {
    sample.gpus.iter().flatten().collect()
}

/// A fault that strikes so many calls of one GPU.
fn error(call: &str, device: u32, code: &str, times: u32) -> String {
    format!(
        "[[fault]]\ncall = \"{call}\"\ndevice = {device}\nmode = \"error\"\nerror = \"{code}\"\n\
         times = {times}\n"
    )
}

#[test]
fn a_slow_init_is_paid_for_once() {
    let fake = Fake::new(&format!("init_latency_us = 2000000\n{H100}"));
    let sampler = fake.sampler(Duration::ZERO, true);
    let first = hung(&sampler);
    assert_eq!(
        (first.call, first.device, first.fresh),
        ("nvmlInit_v2", None, true)
    );
    let start = Instant::now();
    let mut failed = 1;
    let sample = loop {
        match sampler.sample(SHORT) {
            Ok(sample) => break sample,
            Err(SampleError::Hung(hung)) => assert_eq!(hung.call, "nvmlInit_v2"),
            Err(other) => panic!("{other}"),
        }
        failed += 1;
        assert!(start.elapsed() < LONG);
    };
    // Each has waited its time: no more than 2 s of them.
    assert!((2..=7).contains(&failed), "{failed}");
    assert_eq!(healthy(&sample).len(), 8);
    assert_eq!(healthy(&sampler.sample(SHORT).unwrap()).len(), 8);
    assert_eq!(fake.count("nvmlInit_v2"), 1);
    assert_eq!(fake.count("nvmlDeviceGetTotalEnergyConsumption"), 16);
    assert_eq!(fake.count("nvmlShutdown"), 0);
    sampler.release(LONG).unwrap();
}

#[test]
fn a_slow_init_for_each_sample_still_gives_samples() {
    let fake = Fake::new(&format!("init_latency_us = 1000000\n{H100}"));
    let sampler = fake.sampler(Duration::ZERO, false);
    hung(&sampler);
    until("no sample", || sampler.latest().is_some());
    // It came too late for the first caller: the next has it.
    let late = sampler.sample(SHORT).unwrap();
    assert_eq!(healthy(&late).len(), 8);
    hung(&sampler);
    sampler.release(LONG).unwrap();
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (2, 2)
    );
}

#[test]
fn a_gpu_that_returns_late_is_asked_again() {
    let fake = Fake::new(&format!(
        "{H100}{}seconds = 1.0\n",
        hang("nvmlDeviceGetUUID", 3)
    ));
    let sampler = fake.sampler(Duration::ZERO, true);
    assert_eq!(hung(&sampler).device, Some(3));
    assert!(sampler.latest().is_none());
    let without = sampler.sample(SHORT).unwrap();
    assert_eq!(healthy(&without).len(), 7);
    until_unwedged(&sampler);
    // The thread's own session is closed, and its sample is there.
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (2, 1)
    );
    let late = sampler.latest().unwrap();
    assert!(late.at > without.at);
    assert_eq!(healthy(&late).len(), 8);
    fake.play(H100);
    let identified = fake.count("nvmlDeviceGetUUID");
    assert_eq!(healthy(&sampler.sample(LONG).unwrap()).len(), 8);
    // Within the session that has left it out.
    assert_eq!(fake.count("nvmlInit_v2"), 2);
    assert_eq!(fake.count("nvmlDeviceGetUUID"), identified + 1);
    sampler.release(LONG).unwrap();
}

#[test]
fn a_passing_error_costs_one_sample_of_one_gpu() {
    let call = "nvmlDeviceGetMinorNumber";
    let fake = Fake::new(&format!("{H100}{}", error(call, 2, "unknown", 1)));
    let sampler = fake.sampler(Duration::ZERO, true);
    let first = sampler.sample(LONG).unwrap();
    assert_eq!(healthy(&first).len(), 7);
    let fault = first.gpus[2].as_ref().unwrap_err();
    assert_eq!((fault.call, &fault.kind), (call, &FaultKind::Nvml(999)));
    let second = sampler.sample(LONG).unwrap();
    let minors: Vec<_> = healthy(&second).iter().map(|gpu| gpu.minor).collect();
    assert_eq!(minors, (0..8).map(Some).collect::<Vec<_>>());
    // That GPU alone was identified again.
    assert_eq!((fake.count("nvmlInit_v2"), fake.count(call)), (1, 9));
    sampler.release(LONG).unwrap();
}

#[test]
fn a_gpu_without_a_minor_number_is_sampled() {
    let call = "nvmlDeviceGetMinorNumber";
    let fake = Fake::new(&format!("{H100}{}", error(call, 2, "not_supported", 9)));
    let sample = fake.sampler(Duration::ZERO, false).sample(LONG).unwrap();
    assert_eq!(
        (healthy(&sample).len(), healthy(&sample)[2].minor),
        (8, None)
    );
}

#[test]
fn a_lost_gpu_does_not_reopen_nvml_each_time() {
    let fake = Fake::new(H100);
    let sampler = fake.sampler(Duration::ZERO, true);
    sampler.sample(LONG).unwrap();
    fake.play(&format!("{H100}[[device]]\nindex = 2\nlost = true\n"));
    for _ in 0..3 {
        let sample = sampler.sample(LONG).unwrap();
        assert_eq!(healthy(&sample).len(), 7);
        let fault = sample.gpus[2].as_ref().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Nvml(15));
    }
    assert_eq!(fake.count("nvmlInit_v2"), 1);
    sampler.release(LONG).unwrap();
    // Lost from the start of a session.
    for _ in 0..3 {
        assert_eq!(healthy(&sampler.sample(LONG).unwrap()).len(), 7);
    }
    assert_eq!(fake.count("nvmlInit_v2"), 2);
    sampler.release(LONG).unwrap();
}

#[test]
fn a_driver_that_was_reloaded_is_opened_at_once() {
    let fake = Fake::new(H100);
    let sampler = fake.sampler(Duration::ZERO, true);
    sampler.sample(LONG).unwrap();
    let call = "nvmlDeviceGetTotalEnergyConsumption";
    fake.play(&format!("{H100}{}", error(call, 1, "uninitialized", 1)));
    let sample = sampler.sample(LONG).unwrap();
    let fault = sample.gpus[1].as_ref().unwrap_err();
    assert_eq!((fault.call, &fault.kind), (call, &FaultKind::Nvml(1)));
    fake.play(H100);
    assert_eq!(healthy(&sampler.sample(LONG).unwrap()).len(), 8);
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (2, 1)
    );
    sampler.release(LONG).unwrap();
}

#[test]
fn mig_shares() {
    let fake = Fake::new("board = \"a100-mig-mixed\"\n");
    let sampler = fake.sampler(Duration::ZERO, true);
    let share = |gpu_instance_id, slices| MigShare {
        gpu_instance_id,
        compute_instance_id: 0,
        slices,
        of: 7,
    };
    let sample = sampler.sample(LONG).unwrap();
    let gpus = healthy(&sample);
    // 3g.40gb, 2g.20gb and two 1g.10gb.
    assert_eq!(
        gpus[0].mig_shares,
        [share(2, 3), share(3, 2), share(9, 1), share(10, 1)]
    );
    assert_eq!(gpus[1].mig_shares, []);
    // MIG is off there, and that is all that it is asked.
    assert_eq!(fake.count("nvmlDeviceGetMaxMigDeviceCount"), 1);
    assert_eq!(gpus[0].notes, []);
    // A MIG device that does not say has no share, this time.
    let call = "nvmlDeviceGetAttributes";
    fake.play(&format!(
        "board = \"a100-mig-mixed\"\n{}",
        error(call, 0, "not_supported", 1)
    ));
    let sample = sampler.sample(LONG).unwrap();
    let cut = healthy(&sample)[0];
    assert_eq!(cut.mig_shares, [share(3, 2), share(9, 1), share(10, 1)]);
    assert_eq!(
        cut.notes[0].to_string(),
        "nvmlDeviceGetAttributes_v2: Not Supported"
    );
    // The layout may change under a session.
    fake.play(
        "board = \"a100-mig-mixed\"\n[[device]]\nindex = 0\nmig = [\
         { profile = \"4g.40gb\", gi = 1, ci = 0, compute_slices = 3 },\
         { profile = \"4g.40gb\", gi = 1, ci = 1, compute_slices = 1 }]\n",
    );
    let sample = sampler.sample(LONG).unwrap();
    let second = MigShare {
        compute_instance_id: 1,
        ..share(1, 1)
    };
    assert_eq!(healthy(&sample)[0].mig_shares, [share(1, 3), second]);
    assert_eq!(fake.count("nvmlInit_v2"), 1);
    sampler.release(LONG).unwrap();
}

#[test]
fn what_a_gpu_lacks_is_not_asked_for_at_each_poll() {
    let energy = "nvmlDeviceGetTotalEnergyConsumption";
    let fake = Fake::new(&format!(
        "board = \"8xl40s\"\n{}",
        error(energy, 2, "not_supported", 99)
    ));
    let sampler = fake.sampler(Duration::ZERO, true);
    for _ in 0..3 {
        let sample = sampler.sample(LONG).unwrap();
        let gpus = healthy(&sample);
        assert!(gpus.iter().all(|gpu| gpu.notes.is_empty()));
        assert_eq!(
            (gpus[2].energy_mj, gpus[3].energy_mj.is_some()),
            (None, true)
        );
    }
    // No L40S knows MIG.
    assert_eq!(fake.count("nvmlDeviceGetMigMode"), 8);
    assert_eq!(fake.count(energy), 3 * 7 + 1);
    sampler.release(LONG).unwrap();
}

#[test]
fn calls_of_a_usage_poll() {
    let fake = Fake::new(&format!("{H100}{TWO_PROCESSES}"));
    let want = Want {
        energy: false,
        processes: true,
        utilization: true,
    };
    let sampler = fake.sampler_of(want, Duration::ZERO, false);
    sampler.sample(LONG).unwrap();
    // Start, count and shutdown; of each GPU four that say who it is and three that are wanted.
    assert_eq!(fake.calls(), 3 + 8 * (4 + 3));
}

#[test]
fn reset_while_nvml_starts() {
    let fake = Fake::new(&format!("init_latency_us = 1000000\n{H100}"));
    let sampler = fake.sampler(Duration::ZERO, true);
    hung(&sampler);
    assert!(sampler.wedged().is_some());
    assert!(sampler.release(Duration::from_millis(1)).is_err());
    sampler.reset();
    assert_eq!(sampler.wedged(), None);
    until("NVML was not closed", || fake.count("nvmlShutdown") == 1);
    assert!(sampler.latest().is_none());
    assert_eq!(healthy(&sampler.sample(LONG).unwrap()).len(), 8);
    sampler.release(LONG).unwrap();
    assert_eq!(
        (fake.count("nvmlInit_v2"), fake.count("nvmlShutdown")),
        (2, 2)
    );
}
