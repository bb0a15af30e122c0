//! A cluster's own clock, faster than the machine's: libfaketime in every program.
//!
//! libfaketime counts a program's time from the program's own start. All of a cluster's programs share one start:
//! `faketime` puts it into shared memory, which a holder keeps for as long as the cluster lives.

use std::fs;

use crate::files::make;
use crate::root::Ids;
use crate::{Cluster, Error, Result};

/// Where machines see the shared memory.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";
/// Where the holder writes the shared memory's name, in the folder that all machines see.
const NAME: &str = "/opt/sgpu/clock";
/// And its own number: it ends, and `faketime`, which waits for it, then takes the shared memory down.
const PID: &str = "/run/clock.pid";

/// A cluster's clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// How many of its seconds pass in one of the machine's.
    pub(crate) speed: u32,
    /// When it starts, as `faketime` reads it: `2026-01-01 00:00:00`, in UTC.
    pub(crate) start: String,
}

impl Cluster {
    /// Starts the clock, if the cluster has one of its own. All programs after it run by it.
    pub(crate) fn start_clock(&self) -> Result<()> {
        let Some(clock) = &self.builder.clock else {
            return Ok(());
        };
        make(
            &self.cage.path(&self.controller, SHARED_MEMORY)?,
            Ids::ROOT,
            0o1777,
        )?;
        // The daemons of other users read it too.
        let hold = format!(
            "chmod 666 {SHARED_MEMORY}/*faketime* && echo \"$FAKETIME_SHARED\" >{NAME}.new && \
             mv {NAME}.new {NAME} && echo $$ >{PID}; \
             sleep infinity & trap \"kill $!; exit 0\" TERM; wait"
        );
        let spec = format!("@{} x{}", clock.start, clock.speed);
        let exec = self
            .command("faketime")
            .args(["-m", "-f", &spec, "sh", "-c", &hold])
            .env("TZ", "UTC")
            .env("FAKETIME_DONT_RESET", "1");
        self.launch("clock", &self.controller, exec, Some(PID.into()), false)?;
        let name = self.opt().join("clock");
        let shared = self.wait_until("the clock", self.builder.boot_deadline, || {
            fs::read_to_string(&name).map_err(|error| error.to_string())
        })?;
        let library = format!("{}/faketime/libfaketimeMT.so.1", self.root.libdir);
        let variables = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", &spec),
            ("FAKETIME_SHARED", shared.trim()),
            ("FAKETIME_DONT_RESET", "1"),
            ("TZ", "UTC"),
        ];
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        self.clock
            .set(variables.to_vec())
            .map_err(|_| Error::Unusable("the clock runs already".into()))
    }
}
