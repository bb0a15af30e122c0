//! `gpu_p_test_cpu_conv`: Slurm's own test of the conversion from NVML's CPU masks. A line of
//! fake_gpus.conf may name a pattern such as `~three` in the place of a CPU range.

use std::ffi::{c_char, c_ulong};
use std::fmt::Write;
use std::ptr::null_mut;

use gpu::CpuSet;
use slurm_plugin::memory::SlurmString;
use slurm_plugin::{cstr, log};

/// The mask that Slurm's own driver asks NVML for, in words of `unsigned long`: 32,768 CPUs.
const WORDS: usize = 0x8000 / c_ulong::BITS as usize;

/// Gives the CPU range of a pattern, for Slurm to free, and prints the mask, as Slurm's own driver
/// does; an unknown pattern gives an empty string.
///
/// # Safety
/// `pattern` is NULL or a live string.
pub unsafe fn test_cpu_conv(pattern: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's contract.
    let Some(pattern) = (unsafe { cstr::text(pattern) }) else {
        return null_mut();
    };
    let Some(mask) = mask(&pattern) else {
        log::error(format_args!("unknown CPU test pattern {pattern}"));
        return SlurmString::new("").into_raw();
    };
    print(&mask);
    SlurmString::new(&CpuSet::from_nvml_mask(&mask).to_string()).into_raw()
}

fn mask(pattern: &str) -> Option<Vec<c_ulong>> {
    let first = |word: c_ulong| {
        let mut mask = vec![0; WORDS];
        if let Some(slot) = mask.first_mut() {
            *slot = word;
        }
        mask
    };
    Some(match pattern.strip_prefix('~')? {
        "zero" => first(0),
        "one" => first(1),
        "three" => first(3),
        "half" => first(0xff00),
        "max" => vec![c_ulong::MAX; WORDS],
        words if words.starts_with('X') => {
            let full = words.len().min(WORDS);
            (0..WORDS)
                .map(|word| if word < full { c_ulong::MAX } else { 0 })
                .collect()
        }
        _ => return None,
    })
}

/// Slurm's test suite reads this from standard output.
fn print(mask: &[c_ulong]) {
    let mut line = String::with_capacity(mask.len());
    for word in mask {
        // Writing into a string does not fail.
        let _ = match *word {
            c_ulong::MAX => write!(line, "X"),
            word if word > 9 => write!(line, "({word})"),
            word => write!(line, "{word}"),
        };
    }
    println!("{line}");
}
