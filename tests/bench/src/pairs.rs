//! Whole processes in turn, so that both meet the same machine: A B, B A, A B, …

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Runs the pairs and prints one line each, milliseconds of A and of B.
pub(crate) fn run(pairs: usize, a: &str, b: &str) -> Result<()> {
    for command in [a, b] {
        // The first run of each fills caches.
        time(command)?;
    }
    for pair in 0..pairs {
        let (a, b) = if pair % 2 == 0 {
            let a = time(a)?;
            (a, time(b)?)
        } else {
            let b = time(b)?;
            (time(a)?, b)
        };
        println!("{a} {b}");
    }
    Ok(())
}

fn time(command: &str) -> Result<f64> {
    let mut words = command.split(' ');
    let program = words.next().context("an empty command")?;
    let begun = Instant::now();
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| program.to_owned())?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(status.success(), "{command}: {status}");
    Ok(milliseconds)
}
