//! Ctrl-C and SIGTERM: a flag that every wait looks at, so that children end and half-made
//! folders are removed before we leave.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; called once, first thing.
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| REQUESTED.store(true, Ordering::SeqCst))
        .context("cannot install the Ctrl-C handler")
}

/// Whether someone asked us to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// An error when someone asked us to stop.
pub(crate) fn check() -> Result<()> {
    if requested() {
        bail!("interrupted");
    }
    Ok(())
}
