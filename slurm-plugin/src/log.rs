//! Lines in Slurm's own log.
//!
//! A message never serves as a format string: it goes out as the argument of the fixed format `%s`.
//! Control characters are replaced, so that a hostile job name can forge no second log line.

use std::fmt;
use std::sync::OnceLock;

/// Slurm's log levels, of `slurm/slurm_errno.h`'s sibling `src/common/log.h` (`log_level_t`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
#[repr(u32)]
pub enum Level {
    /// `error()`: the admin must know.
    Error = 2,
    /// `info()`: the admin will want to know.
    Info = 3,
    /// `verbose()`.
    Verbose = 4,
    /// `debug()`.
    Debug = 5,
    /// `debug2()`.
    Debug2 = 6,
}

/// The longest message that is passed on, in bytes; the rest is cut.
const LONGEST_MESSAGE_BYTES: usize = 4000;

static PREFIX: OnceLock<&'static str> = OnceLock::new();

/// Sets what each line of this plugin starts with, its type (`gpu/nvml`). The first call wins.
pub fn set_prefix(prefix: &'static str) {
    // A second call is a second load of the same plugin, with the same prefix.
    let _ = PREFIX.set(prefix);
}

/// Logs at [`Level::Error`].
pub fn error(message: impl fmt::Display) {
    write(Level::Error, message);
}

/// Logs at [`Level::Info`].
pub fn info(message: impl fmt::Display) {
    write(Level::Info, message);
}

/// Logs at [`Level::Debug`].
pub fn debug(message: impl fmt::Display) {
    write(Level::Debug, message);
}

/// Logs at [`Level::Debug2`].
pub fn debug2(message: impl fmt::Display) {
    write(Level::Debug2, message);
}

/// Logs at `level`; costs next to nothing when Slurm's log does not go that far.
pub fn write(level: Level, message: impl fmt::Display) {
    if sink::wants(level) {
        sink::write(
            level,
            &line(PREFIX.get().copied().unwrap_or("sgpu"), message),
        );
    }
}

/// Tells the user whose step this is, on the step's standard error: no error, and worded as none. The
/// daemon's log has it too.
#[cfg(slurm_public)]
pub fn tell_user(message: impl fmt::Display) {
    let line = line(PREFIX.get().copied().unwrap_or("sgpu"), message);
    if let Ok(line) = std::ffi::CString::new(line) {
        // SAFETY: takes a printf format and its arguments; the format is the fixed "%s" and its one
        // argument a NUL-terminated string that outlives the call.
        unsafe { slurm_headers::public::slurm_spank_log(c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// The line as it is written: prefix, message without control characters, no longer than
/// [`LONGEST_MESSAGE_BYTES`].
fn line(prefix: &str, message: impl fmt::Display) -> String {
    let mut text = format!("{prefix}: {message}");
    if text.len() > LONGEST_MESSAGE_BYTES {
        let cut = (0..=LONGEST_MESSAGE_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push('…');
    }
    if text.contains(char::is_control) {
        // An error of several lines, such as a file's, stays readable in one.
        let words: Vec<&str> = text.split(['\n', '\t']).map(str::trim).collect();
        text = words.join(" ").replace(char::is_control, "?");
    }
    text
}

#[cfg(slurm_internal)]
mod sink {
    use std::ffi::CString;

    use slurm_headers::internal;

    use super::Level;

    pub(super) fn wants(level: Level) -> bool {
        // SAFETY: takes no argument and reads Slurm's own log options.
        let most = unsafe { internal::slurm_get_log_level() };
        u32::try_from(most).is_ok_and(|most| most >= level as u32)
    }

    pub(super) fn write(level: Level, line: &str) {
        if let Ok(line) = CString::new(line) {
            // SAFETY: slurm_log_var takes a printf format and its arguments; the format is the fixed
            // "%s" and its one argument a NUL-terminated string that outlives the call.
            unsafe {
                internal::slurm_log_var(
                    level as internal::log_level_t::Type,
                    c"%s".as_ptr(),
                    line.as_ptr(),
                );
            }
        }
    }
}

/// With the public headers alone: the functions that Slurm exports to SPANK plugins. They look at the log's
/// level themselves.
#[cfg(all(slurm_public, not(slurm_internal)))]
mod sink {
    use std::ffi::CString;

    use slurm_headers::public;

    use super::Level;

    pub(super) fn wants(_: Level) -> bool {
        true
    }

    pub(super) fn write(level: Level, line: &str) {
        let Ok(line) = CString::new(line) else {
            return;
        };
        let write = match level {
            Level::Error => public::slurm_error,
            Level::Info => public::slurm_info,
            Level::Verbose => public::slurm_verbose,
            Level::Debug => public::slurm_debug,
            Level::Debug2 => public::slurm_debug2,
        };
        // SAFETY: each takes a printf format and its arguments; the format is the fixed "%s" and its one
        // argument a NUL-terminated string that outlives the call.
        unsafe { write(c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// Without Slurm: standard error, or whoever captures.
#[cfg(not(any(slurm_public, slurm_internal)))]
mod sink {
    use super::Level;

    pub(super) fn wants(_: Level) -> bool {
        true
    }

    pub(super) fn write(level: Level, line: &str) {
        #[cfg(test)]
        if super::captured(line) {
            return;
        }
        eprintln!("{level:?}: {line}");
    }
}

#[cfg(test)]
thread_local! {
    static CAPTURE: std::cell::RefCell<Option<Vec<String>>> = const { std::cell::RefCell::new(None) };
}

/// What `body` logs on this thread.
#[cfg(test)]
pub(crate) fn capture(body: impl FnOnce()) -> Vec<String> {
    CAPTURE.with_borrow_mut(|lines| *lines = Some(Vec::new()));
    body();
    CAPTURE.with_borrow_mut(Option::take).unwrap_or_default()
}

#[cfg(test)]
fn captured(line: &str) -> bool {
    CAPTURE.with_borrow_mut(|lines| {
        lines
            .as_mut()
            .map(|lines| lines.push(line.to_owned()))
            .is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_cannot_forge_a_line() {
        assert_eq!(
            line("gpu/nvml", "job \"a\n[fatal] b\0\""),
            "gpu/nvml: job \"a [fatal] b?\""
        );
    }

    #[test]
    fn an_endless_message_is_cut_between_characters() {
        let text = line("p", "ä".repeat(5000));
        assert!(text.len() <= LONGEST_MESSAGE_BYTES + '…'.len_utf8());
        assert!(text.ends_with("ä…"));
    }
}
