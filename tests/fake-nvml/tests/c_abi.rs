//! The library through its C functions: the protocols that bindings hide.

mod support;

use std::ffi::{CStr, c_uint};
use std::time::{Duration, Instant};

use fake_nvml::Scenario;
use fake_nvml::scenario::{Fault, Process};
use fake_nvml::status::Status;
use nvml_wrapper_sys::bindings::{
    nvmlMemory_v2_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlProcessUtilizationSample_t,
};
use support::Fake;

fn with_processes() -> Scenario {
    let mut scenario = Scenario::board("8xh100-sxm5");
    scenario.freeze_unix = Some(1_700_000_000.5);
    scenario.process = (0..3)
        .map(|number| Process {
            device: 2,
            pid: Some(1000 + number),
            gpu_memory_mib: 10,
            sm_util: 20,
            ..Process::default()
        })
        .collect();
    scenario
}

#[test]
fn nothing_before_init_and_after_shutdown() {
    let fake = Fake::load(&Scenario::board("4xt4"));
    let mut count: c_uint = 0;
    // SAFETY: the place is valid for an unsigned int; the others take nothing.
    unsafe {
        assert_eq!(
            fake.lib.nvmlDeviceGetCount_v2(&raw mut count),
            Status::UNINITIALIZED.0
        );
        assert_eq!(fake.lib.nvmlInit_v2(), 0);
        assert_eq!(fake.lib.nvmlInitWithFlags(0), 0);
        assert_eq!(fake.lib.nvmlShutdown(), 0);
        assert_eq!(fake.lib.nvmlDeviceGetCount_v2(&raw mut count), 0);
        assert_eq!(fake.lib.nvmlShutdown(), 0);
        assert_eq!(
            fake.lib.nvmlDeviceGetCount_v2(&raw mut count),
            Status::UNINITIALIZED.0
        );
        assert_eq!(CStr::from_ptr(fake.lib.nvmlErrorString(15)), c"GPU is lost");
    }
    assert_eq!(count, 4);
}

#[test]
fn no_scenario_is_no_driver() {
    let fake = Fake::load(&Scenario::board("4xt4"));
    // SAFETY: takes nothing.
    let init = || unsafe { fake.lib.nvmlInit_v2() };
    std::fs::remove_file(fake.path("scenario.toml")).unwrap();
    assert_eq!(init(), Status::DRIVER_NOT_LOADED.0);
    std::fs::write(fake.path("scenario.toml"), "boord = 1\n").unwrap();
    assert_eq!(init(), Status::UNKNOWN.0);
}

#[test]
fn null_and_foreign_pointers_are_invalid_arguments() {
    let fake = Fake::start(&Scenario::board("4xt4"));
    let device = fake.device(0);
    let none = std::ptr::null_mut::<std::ffi::c_void>();
    let foreign = std::ptr::without_provenance_mut(0x1234);
    // SAFETY: NULL is allowed and answered; a handle is never followed as an address.
    unsafe {
        let lib = &fake.lib;
        assert_eq!(
            lib.nvmlDeviceGetCount_v2(none.cast()),
            Status::INVALID_ARGUMENT.0
        );
        assert_eq!(
            lib.nvmlDeviceGetName(device, none.cast(), 96),
            Status::INVALID_ARGUMENT.0
        );
        assert_eq!(
            lib.nvmlDeviceGetTemperature(device, 0, none.cast()),
            Status::INVALID_ARGUMENT.0
        );
    }
    assert_eq!(
        fake.temperature(none.cast()),
        Err(Status::INVALID_ARGUMENT.0)
    );
    assert_eq!(fake.temperature(foreign), Err(Status::INVALID_ARGUMENT.0));
    let mut name = [1; 8];
    // SAFETY: the buffer is as long as said.
    let status = unsafe { fake.lib.nvmlDeviceGetName(device, name.as_mut_ptr(), 8) };
    assert_eq!(status, Status::INSUFFICIENT_SIZE.0);
    assert_eq!(name, [1; 8], "nothing is written");
}

#[test]
fn running_processes_in_all_versions() {
    let fake = Fake::start(&with_processes());
    let device = fake.device(2);
    let mut count: c_uint = 0;
    let mut old = [nvmlProcessInfo_v1_t {
        pid: 0,
        usedGpuMemory: 0,
    }; 4];
    let mut new = [nvmlProcessInfo_v2_t {
        pid: 0,
        usedGpuMemory: 0,
        gpuInstanceId: 0,
        computeInstanceId: 0,
    }; 4];
    // SAFETY: the buffers are at least as long as the counts say; NULL goes with 0.
    unsafe {
        let lib = &fake.lib;
        let null = std::ptr::null_mut();
        let status = lib.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, null);
        assert_eq!((status, count), (Status::INSUFFICIENT_SIZE.0, 3));
        count = 4;
        let place = old.as_mut_ptr();
        assert_eq!(
            lib.nvmlDeviceGetComputeRunningProcesses(device, &raw mut count, place),
            0
        );
        assert_eq!(count, 3);
        count = 3;
        let place = new.as_mut_ptr();
        assert_eq!(
            lib.nvmlDeviceGetComputeRunningProcesses_v2(device, &raw mut count, place),
            0
        );
        assert_eq!(count, 3);
        count = 2;
        let status = lib.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, place);
        assert_eq!((status, count), (Status::INSUFFICIENT_SIZE.0, 3));
        count = 4;
        let status = lib.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &raw mut count, place);
        assert_eq!((status, count), (0, 0));
    }
    assert_eq!(old.map(|info| info.pid), [1000, 1001, 1002, 0]);
    assert_eq!(old[1].usedGpuMemory, 10 << 20);
    assert_eq!(new.map(|info| info.pid), [1000, 1001, 1002, 0]);
    assert_eq!(
        (new[0].gpuInstanceId, new[0].computeInstanceId),
        (u32::MAX, u32::MAX)
    );
}

#[test]
fn process_utilisation_only_tells_what_is_new() {
    let fake = Fake::start(&with_processes());
    let device = fake.device(2);
    let mut count: c_uint = 0;
    let none = nvmlProcessUtilizationSample_t {
        pid: 0,
        timeStamp: 0,
        smUtil: 0,
        memUtil: 0,
        encUtil: 0,
        decUtil: 0,
    };
    let mut samples = vec![none; 100];
    let ask = |count: &mut c_uint, samples: &mut [nvmlProcessUtilizationSample_t], since| {
        let place = samples.as_mut_ptr();
        // SAFETY: the buffer is as long as the count says.
        unsafe {
            fake.lib
                .nvmlDeviceGetProcessUtilization(device, place, count, since)
        }
    };
    // SAFETY: NULL asks for the count only.
    let status = unsafe {
        let null = std::ptr::null_mut();
        fake.lib
            .nvmlDeviceGetProcessUtilization(device, null, &raw mut count, 0)
    };
    assert_eq!((status, count), (Status::INSUFFICIENT_SIZE.0, 100));
    assert_eq!(ask(&mut count, &mut samples, 0), 0);
    assert_eq!((count, samples[2].pid, samples[2].smUtil), (3, 1002, 20));
    let taken = samples[0].timeStamp;
    assert_eq!(taken, 1_700_000_000_000_000);
    count = 100;
    assert_eq!(ask(&mut count, &mut samples, taken), Status::NOT_FOUND.0);
    let mut later = with_processes();
    later.freeze_unix = Some(1_700_000_001.5);
    fake.play(&later);
    count = 100;
    assert_eq!(ask(&mut count, &mut samples, taken), 0);
    assert_eq!(samples[0].timeStamp, taken + 1_000_000);
}

#[test]
fn versioned_structs_need_their_version() {
    let fake = Fake::start(&Scenario::board("8xh200"));
    let device = fake.device(0);
    let mut memory = nvmlMemory_v2_t {
        version: 1,
        total: 0,
        reserved: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: the struct is the one that the call fills.
    unsafe {
        let status = fake.lib.nvmlDeviceGetMemoryInfo_v2(device, &raw mut memory);
        assert_eq!(status, Status::ARGUMENT_VERSION_MISMATCH.0);
        memory.version = u32::try_from(size_of::<nvmlMemory_v2_t>()).unwrap() | 2 << 24;
        assert_eq!(
            fake.lib.nvmlDeviceGetMemoryInfo_v2(device, &raw mut memory),
            0
        );
    }
    assert_eq!(memory.total, 143_771 << 20);
}

#[test]
fn a_change_reaches_open_handles() {
    let mut scenario = Scenario::board("8xh100-sxm5");
    let fake = Fake::start(&scenario);
    let device = fake.device(5);
    assert_eq!(fake.temperature(device), Ok(31));
    scenario.device_mut(5).temperature_c = Some(90);
    fake.play(&scenario);
    assert_eq!(fake.temperature(device), Ok(90));
    scenario.device_mut(5).lost = Some(true);
    fake.play(&scenario);
    assert_eq!(fake.temperature(device), Err(Status::GPU_IS_LOST.0));
    scenario.device_mut(5).lost = None;
    fake.play(&scenario);
    assert_eq!(fake.temperature(device), Ok(90));
}

#[test]
fn a_hang_ends_when_the_fault_is_gone() {
    let mut scenario = Scenario::board("8xh100-sxm5");
    scenario.fault = vec![Fault::hang("nvmlDeviceGetTemperature")];
    let fake = Fake::start(&scenario);
    let device = fake.device(0).addr();
    std::thread::scope(|scope| {
        let fake = &fake;
        let hanging =
            scope.spawn(move || fake.temperature(std::ptr::without_provenance_mut(device)));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!hanging.is_finished());
        // Other calls and other threads go on.
        fake.device(1);
        fake.play(&Scenario::board("8xh100-sxm5"));
        assert_eq!(hanging.join().unwrap(), Ok(31));
    });
}

#[test]
fn latency_and_counted_calls() {
    let mut scenario = Scenario::board("4xt4");
    scenario
        .latency
        .insert("nvmlDeviceGetTemperature".into(), 20_000);
    let fake = Fake::start(&scenario);
    scenario.count_calls = Some(fake.path("calls"));
    fake.play(&scenario);
    let device = fake.device(3);
    let begun = Instant::now();
    fake.temperature(device).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(20));
    let calls = fake_nvml::calls::read(&fake.path("calls")).unwrap();
    let told: Vec<_> = calls
        .iter()
        .map(|call| (call.call.as_str(), call.device))
        .collect();
    assert_eq!(
        told,
        [
            ("nvmlDeviceGetHandleByIndex_v2", None),
            ("nvmlDeviceGetTemperature", Some(3))
        ]
    );
    assert!(
        calls
            .iter()
            .all(|call| call.pid == std::process::id() && !call.comm.is_empty())
    );
}

#[test]
fn many_threads() {
    let scenario = Scenario::board("16xv100-sxm3");
    let fake = Fake::start(&scenario);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..200 {
                    assert!(fake.temperature(fake.device(round % 16)).is_ok());
                }
            });
        }
        for _ in 0..20 {
            fake.play(&scenario);
        }
    });
}

#[test]
fn every_name_of_the_headers_is_there() {
    let folder = support::folder();
    let path = folder.path().join("libnvidia-ml.so.1");
    // SAFETY: the library runs no code at load.
    let lib = unsafe { libloading::Library::new(path) }.unwrap();
    for name in [
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetAttributes_v2",
        "nvmlGpmSampleAlloc",
        "nvmlVgpuTypeGetName",
    ] {
        // SAFETY: the symbol is only looked for, never called.
        let found = unsafe { lib.get::<unsafe extern "C" fn()>(name) };
        assert!(found.is_ok(), "{name}");
    }
}
