//! `[[fault]]`: calls that fail, hang or kill the process.

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// One fault. The first entry that matches a call decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// C name of the call; without `_v2` and so on it means all versions. `"*"` means all calls.
    pub call: String,
    /// Only on this board position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    /// Only in processes with this name (`/proc/PID/comm`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// What happens.
    pub mode: FaultMode,
    /// The answer in mode `error`. Default: `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Status>,
    /// In mode `hang`: go on after so many seconds. Default: when the fault is gone from the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Let this many matching calls of a process through first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Strike only so many calls of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

/// What a fault does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultMode {
    /// Return `error`.
    Error,
    /// Do not return.
    Hang,
    /// Kill the process by SIGABRT.
    Abort,
}

impl Fault {
    /// A call that fails with `error`, on every device.
    #[must_use]
    pub fn error(call: &str, error: Status) -> Self {
        Self {
            error: Some(error),
            ..Self::new(call, FaultMode::Error)
        }
    }

    /// A call that hangs, on every device.
    #[must_use]
    pub fn hang(call: &str) -> Self {
        Self::new(call, FaultMode::Hang)
    }

    fn new(call: &str, mode: FaultMode) -> Self {
        Self {
            call: call.into(),
            device: None,
            comm: None,
            mode,
            error: None,
            seconds: None,
            after: None,
            times: None,
        }
    }

    /// Whether this fault is about this call, device and process name.
    pub(crate) fn concerns(&self, call: &str, device: Option<usize>, comm: &str) -> bool {
        let named = self.call == "*" || self.call == call || self.call == unversioned(call);
        named
            && self.device.is_none_or(|wanted| device == Some(wanted))
            && self.comm.as_deref().is_none_or(|wanted| wanted == comm)
    }
}

/// A function name without its `_v2`.
pub(crate) fn unversioned(call: &str) -> &str {
    match call.rsplit_once("_v") {
        Some((name, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => call,
    }
}
