//! The first and only program of the guest of `tests/numa_guest.rs`. As init it runs itself once for each
//! case; a case is a task's place: it decides as `spank_sgpu_bind` does on this kernel's sysfs, binds by the
//! plugin's own system calls, touches memory, and prints what the kernel says of it.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use gpu::index_map::{IndexEntry, IndexMap};
use gpu::sysfs::Sysfs;
use spank_core::bind::settings::BindOption;
use spank_core::bind::{self, Host, Settings, StepVariables, Task, TaskVariables};

#[path = "../../../../spank-plugins/bind/src/apply.rs"]
mod apply;

const TOUCHED_BYTES: usize = 8 << 20;
const PAGE_BYTES: usize = 4096;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first() {
        Some(case) => run(case),
        None => {
            if let Err(error) = all() {
                println!("failed: {error:#}");
            }
            // SAFETY: reboot(2) takes no pointer here. The guest's, since this is its init.
            unsafe { libc::reboot(libc::RB_POWER_OFF) };
            bail!("not an init")
        }
    }
}

/// Init's part.
fn all() -> Result<()> {
    ensure!(
        std::process::id() == 1,
        "run by `cargo xtask test numa_guest`, as a guest's init"
    );
    for (kind, at) in [(c"proc", c"/proc"), (c"sysfs", c"/sys")] {
        // SAFETY: mount(2) reads NUL-terminated strings, and no data.
        let answer = unsafe {
            libc::mount(
                kind.as_ptr(),
                at.as_ptr(),
                kind.as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        ensure!(answer == 0, "mount: {}", std::io::Error::last_os_error());
    }
    for case in fs::read_to_string("/cases")?.lines() {
        let status = Command::new("/proc/self/exe").arg(case).status()?;
        ensure!(status.success(), "{case}: {status}");
    }
    println!("all cases ran");
    Ok(())
}

/// `name|mode|memory|task|tasks|CPUs granted|PCI addresses of the GPUs`
fn run(case: &str) -> Result<()> {
    let fields: Vec<&str> = case.split('|').collect();
    let [name, mode, memory, task, tasks, granted, gpus] = fields[..] else {
        bail!("{case:?} has not seven fields");
    };
    let wrong = |why: String| anyhow::anyhow!(why);
    let option: BindOption = mode.parse().map_err(wrong)?;
    let memory = memory.parse().map_err(wrong)?;
    let settings = Settings::new(&Default::default(), Some(option), Some(memory));
    let map = map(gpus)?;
    let numbers: Vec<String> = map
        .entries
        .iter()
        .map(|gpu| gpu.index.to_string())
        .collect();
    let list = Some(numbers.join(","));
    // What a control group would grant.
    apply::set_affinity(&granted.parse()?)?;
    let task = Task {
        local_id: task.parse()?,
        local_tasks: tasks.parse()?,
        affinity: gpu::affinity::of_this_process()?,
        denied: Vec::new(),
        step: StepVariables {
            gpus: list.clone(),
            ..StepVariables::default()
        },
        own: TaskVariables {
            gpus: list,
            ..TaskVariables::default()
        },
    };
    let host = Host::read(map, &Sysfs::default(), settings.mode, false);
    let report = match bind::decide(&host, &settings, &task) {
        Ok(bound) => {
            apply::set_affinity(&bound.cpus)?;
            let took = apply::set_memory(bound.memory, &bound.nodes).is_ok();
            bound.report(&gpu::affinity::of_this_process()?, took)
        }
        Err(aside) => aside.to_string(),
    };
    println!("{name}|{report}|{}|{}", allowed_cpus()?, touched()?);
    Ok(())
}

fn map(addresses: &str) -> Result<IndexMap> {
    let entries = addresses.split(',').zip(0..).map(|(address, index)| {
        Ok(IndexEntry {
            index,
            files: vec![format!("/dev/nvidia{index}")],
            minor: Some(index),
            pci: Some(address.parse()?),
            uuid: None,
            mig: None,
        })
    });
    Ok(IndexMap {
        entries: entries.collect::<Result<_>>()?,
    })
}

fn allowed_cpus() -> Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(line.context("no Cpus_allowed_list")?.trim().to_owned())
}

/// What `/proc/self/numa_maps` says of memory that was just touched: its policy, and its pages by node.
fn touched() -> Result<String> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            TOUCHED_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    ensure!(
        memory != libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    for page in (0..TOUCHED_BYTES).step_by(PAGE_BYTES) {
        // SAFETY: inside the mapping, which is writable.
        unsafe { memory.cast::<u8>().add(page).write_volatile(1) };
    }
    let maps = fs::read_to_string("/proc/self/numa_maps")?;
    let begin = format!("{:x} ", memory as usize);
    let line = maps.lines().find_map(|line| line.strip_prefix(&begin));
    let words = line.context("the mapping is not in numa_maps")?.split(' ');
    let told: Vec<&str> = words
        .enumerate()
        .filter(|(place, word)| *place == 0 || is_node(word))
        .map(|(_, word)| word)
        .collect();
    Ok(told.join(" "))
}

/// `N3=2048`.
fn is_node(word: &str) -> bool {
    word.strip_prefix('N')
        .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}
