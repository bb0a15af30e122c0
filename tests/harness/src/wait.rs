//! Waiting for a condition, never for a time.

use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks until the probe gives a value. Its error says what was seen instead; `fatal` may end the
/// wait early, `logs` is asked for when it fails.
pub(crate) fn until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> Result<T, String>,
    mut fatal: impl FnMut() -> Option<String>,
    logs: impl FnOnce() -> String,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let seen = match probe() {
            Ok(value) => return Ok(value),
            Err(seen) => seen,
        };
        let ended = fatal();
        if ended.is_some() || start.elapsed() >= deadline {
            let seen = match ended {
                Some(ended) => format!("{seen}\n{ended}"),
                None => seen,
            };
            let waited = start.elapsed().as_secs_f64();
            return Err(Error::Deadline {
                what: what.to_owned(),
                waited,
                seen,
                logs: logs(),
            });
        }
        thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_awaited_and_last_seen() {
        let mut looks = 0;
        let probe = || -> Result<(), String> {
            looks += 1;
            Err(format!("look {looks}"))
        };
        let error =
            until("godot", Duration::ZERO, probe, || None, || "log end".into()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("godot") && text.contains("look 1") && text.contains("log end"),
            "{text}"
        );
    }

    #[test]
    fn a_dead_daemon_ends_the_wait() {
        let probe = || -> Result<(), String> { Err("nothing".into()) };
        let fatal = || Some("slurmctld ended".to_owned());
        let error = until("x", Duration::from_secs(600), probe, fatal, String::new).unwrap_err();
        assert!(error.to_string().contains("slurmctld ended"));
    }
}
