//! The `count_calls` file: one line a call, `pid call device comm`.
//!
//! The line is one `write` with O_APPEND, so lines of several processes do not mix. The file is
//! opened anew for each line: slurmd closes all descriptors when it forks, and a kept number
//! would then belong to something else.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::Error;

/// One NVML call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Process.
    pub pid: u32,
    /// C name, as called.
    pub call: String,
    /// Board position of the device, if the call is about one.
    pub device: Option<usize>,
    /// The process's name.
    pub comm: String,
}

/// Reads a `count_calls` file. A file that is not there yet has no calls.
///
/// # Errors
/// [`Error::File`].
pub fn read(path: &Path) -> Result<Vec<Call>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter_map(parse).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::File {
            path: path.into(),
            source,
        }),
    }
}

fn parse(line: &str) -> Option<Call> {
    let mut words = line.splitn(4, ' ');
    Some(Call {
        pid: words.next()?.parse().ok()?,
        call: words.next()?.into(),
        device: words.next()?.parse().ok(),
        comm: words.next()?.into(),
    })
}

/// Appends a line. A file that cannot be written is not the caller's problem.
pub(crate) fn append(path: &Path, call: &str, device: Option<usize>, comm: &str) {
    let device = device.map_or_else(|| "-".to_owned(), |index| index.to_string());
    let line = format!("{} {call} {device} {comm}\n", std::process::id());
    let options = || OpenOptions::new().append(true).clone();
    let file = options().open(path).or_else(|_| {
        let file = options().create(true).mode(0o666).open(path)?;
        // Other users' processes append, too, whatever the umask of the first.
        file.set_permissions(std::fs::Permissions::from_mode(0o666))?;
        Ok::<_, std::io::Error>(file)
    });
    if let Ok(mut file) = file {
        let _ = file.write_all(line.as_bytes());
    }
}
