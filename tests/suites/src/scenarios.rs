//! Boards with something else about their GPUs.

use fake_nvml::Scenario;
use fake_nvml::scenario::Device;

/// A board of so many GPUs, with keys of each that win over the board's own.
#[must_use]
pub fn every_gpu(board: &str, gpus: usize, keys: &Device) -> Scenario {
    let mut scenario = Scenario::board(board);
    scenario.device = (0..gpus)
        .map(|index| Device {
            index: Some(index),
            ..keys.clone()
        })
        .collect();
    scenario
}

/// A board of so many GPUs, all of them near the same CPUs.
#[must_use]
pub fn all_near(board: &str, gpus: usize, cpus: &str) -> Scenario {
    let cpus = Some(cpus.to_owned());
    every_gpu(
        board,
        gpus,
        &Device {
            cpus,
            ..Device::default()
        },
    )
}
