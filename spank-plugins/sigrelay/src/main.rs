//! `sgpu-sigrelay`: runs a task of a job, passes signals on to it, and tells the program that checkpoints
//! when the time has come. The SPANK plugin `spank_sgpu_ckpt` puts it in front of the task's command, or
//! makes it the parent of the task:
//!
//! ```text
//! sgpu-sigrelay signal=USR1@120,scope=leader end=1800000000 file=/tmp/x/flag -- python3 train.py
//! sgpu-sigrelay signal=USR1@120,scope=leader child=4711
//! ```
//!
//! It ends as the task does, by exit code or signal. It runs as the user, in the task's process group, and
//! may run in a container that has nothing but the task: it is linked statically.
#![no_main]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod flag;
mod processes;
mod sys;
mod task;
mod watch;

use std::ffi::{CStr, c_char, c_int};

use spank_core::checkpoint::orders::{END, Orders};
use task::Task;

/// Exit code for words that are not understood.
const USAGE: i32 = 2;

/// The program. There is no `fn main`, since Rust's would change what the task inherits: SIGPIPE, for one.
///
/// # Safety
/// Called by the C library alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    // SAFETY: the C library's arguments of main, which live as long as the process.
    let words = unsafe { sys::words(count, words) };
    run(words.get(1..).unwrap_or_default())
}

fn run(words: &[&CStr]) -> i32 {
    sys::name_process(c"sgpu-sigrelay");
    let end = words
        .iter()
        .position(|word| word.to_bytes() == END.as_bytes());
    let (orders, command) = match end {
        Some(end) => (
            words.get(..end).unwrap_or_default(),
            words.get(end.saturating_add(1)..).unwrap_or_default(),
        ),
        None => (words, &[][..]),
    };
    let texts: Result<Vec<&str>, _> = orders.iter().map(|word| word.to_str()).collect();
    let orders = texts
        .map_err(|error| error.to_string())
        .and_then(Orders::parse);
    if let Ok(Orders {
        lifeline: Some(fd), ..
    }) = orders
    {
        sys::keep(fd);
    }
    match (orders, command.is_empty()) {
        (Ok(orders), false) => match Task::start(command) {
            Ok(task) => watch::to_the_end(task, &orders),
            // The task can do without a relay.
            Err(_) => sys::exec(command),
        },
        (Ok(orders), true) => match orders.child.and_then(|child| Task::adopt(child).ok()) {
            Some(task) => watch::to_the_end(task, &orders),
            None => {
                eprintln!("sgpu-sigrelay: neither a command behind {END} nor a child");
                USAGE
            }
        },
        (Err(error), false) => {
            eprintln!("sgpu-sigrelay: {error}: the task runs without checkpoint signals");
            sys::exec(command)
        }
        (Err(error), true) => {
            eprintln!("sgpu-sigrelay: {error}: started by Slurm's plugin spank_sgpu_ckpt only");
            USAGE
        }
    }
}
