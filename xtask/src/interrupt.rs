//! Ctrl-C and SIGTERM: a count that every wait looks at, so that children end and half-made
//! folders are removed before we leave.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Installs the handler; called once, first thing.
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
    })
    .context("cannot install the Ctrl-C handler")
}

/// Whether someone asked us to stop.
pub(crate) fn requested() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 0
}

/// Whether someone asked again: then nothing more is waited for.
pub(crate) fn insisted() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 1
}

/// An error when someone asked us to stop.
pub(crate) fn check() -> Result<()> {
    if requested() {
        bail!("interrupted");
    }
    Ok(())
}
