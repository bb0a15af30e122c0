//! What a hook costs its step.

use std::time::Instant;

use crate::log;

/// Calls a hook and says in the log, at `debug2`, how long it took: `srun --slurmd-debug=debug2` shows it to
/// root.
pub fn timed<T>(hook: &str, body: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let answer = body();
    let took = begun.elapsed().as_micros();
    log::debug2(format_args!("{hook} took {took} us"));
    answer
}
