//! Which process of Slurm this is, and what it knows of its node.

use std::ffi::CStr;
use std::path::Path;

use slurm_headers::internal;

use crate::cstr;
use crate::memory::SlurmString;

/// Whether this is slurmctld.
#[must_use]
pub fn in_slurmctld() -> bool {
    // SAFETY: takes no argument; Slurm compares the name of its own program.
    unsafe { internal::slurm_running_in_slurmctld() }
}

/// Whether this is slurmd.
#[must_use]
pub fn in_slurmd() -> bool {
    // SAFETY: as above.
    unsafe { internal::slurm_running_in_slurmd() }
}

/// Whether this is slurmstepd.
#[must_use]
pub fn in_slurmstepd() -> bool {
    // SAFETY: as above.
    unsafe { internal::slurm_running_in_slurmstepd() }
}

/// The name of this node in slurm.conf, in slurmd and slurmstepd.
#[must_use]
pub fn node_name() -> Option<String> {
    let conf = daemon_conf()?;
    // SAFETY: the daemon's configuration lives as long as the daemon, and node_name is NULL or a
    // string set before any plugin is asked for anything.
    unsafe { cstr::text((*conf).node_name) }.map(|name| name.into_owned())
}

/// Whether the RPC that has just failed on this thread was refused by slurmd for want of room, and is worth
/// another try.
#[must_use]
pub fn was_refused() -> bool {
    std::io::Error::last_os_error()
        .raw_os_error()
        .is_some_and(crate::compat::is_refusal)
}

/// `JobAcctGatherType` of slurm.conf; `None` when it is not set or not known.
#[must_use]
pub fn job_acct_gather_type() -> Option<String> {
    // SAFETY: a variable of libslurmfull (src/common/read_config.c), which the daemons fill before they load
    // plugins.
    let gather = unsafe { internal::slurm_conf.job_acct_gather_type };
    // SAFETY: the field is NULL or a string.
    unsafe { cstr::text(gather) }.map(|gather| gather.into_owned())
}

/// Whether a step of a job runs on this node, in slurmd and slurmstepd: by the socket that its slurmstepd
/// keeps (`stepd_connect` in src/common/stepd_api.c).
#[must_use]
pub fn runs_step(job: u32, step: u32) -> bool {
    let Some(conf) = daemon_conf() else {
        return false;
    };
    // SAFETY: as for node_name; slurmstepd has it from slurmd.
    let spool = unsafe { cstr::text((*conf).spooldir) };
    let (Some(spool), Some(node)) = (spool, node_name()) else {
        return false;
    };
    Path::new(&*spool)
        .join(format!("{node}_{job}.{step}"))
        .exists()
}

/// `Gres=` of this node in slurm.conf, in slurmd while it reads its configuration: empty when slurm.conf
/// gives it none, `None` when it is not known.
#[must_use]
pub fn configured_gres() -> Option<String> {
    let node = SlurmString::new(&node_name()?);
    // SAFETY: looks a name up in slurmd's table of nodes, and gives a record of it or NULL. slurmd itself
    // does so just before it asks its gres plugins (`_load_gres` in src/slurmd/slurmd/slurmd.c).
    let record = unsafe { internal::find_node_record2(node.as_ptr()) };
    // SAFETY: NULL or a live record of the table.
    let config = unsafe { record.as_ref()?.config_ptr };
    // SAFETY: NULL or the live configuration of that node; its gres is NULL or a string.
    let gres = unsafe { cstr::text(config.as_ref()?.gres) };
    Some(gres.map(|gres| gres.into_owned()).unwrap_or_default())
}

/// The CPUs that Slurm uses on this node, in the machine's numbers: on processors with efficiency
/// cores those are left out (24.11, unless slurm.conf says otherwise). Empty where Slurm does not
/// say.
#[must_use]
pub fn enabled_cpus() -> Vec<u32> {
    let Some(conf) = daemon_conf() else {
        return Vec::new();
    };
    // SAFETY: as for node_name; block_map is NULL or has block_map_size elements.
    unsafe {
        let (map, size) = ((*conf).block_map, (*conf).block_map_size);
        if map.is_null() {
            return Vec::new();
        }
        std::slice::from_raw_parts(map, usize::from(size))
            .iter()
            .copied()
            .map(u32::from)
            .collect()
    }
}

/// slurmd's and slurmstepd's own configuration, `slurmd_conf_t *conf`. It is looked up rather than
/// linked: slurmctld and the clients have no such symbol, and one that is missing keeps a plugin from
/// loading.
fn daemon_conf() -> Option<*const internal::slurmd_conf_t> {
    const CONF: &CStr = c"conf";
    if !in_slurmd() && !in_slurmstepd() {
        return None;
    }
    // SAFETY: dlsym takes a NUL-terminated name; RTLD_DEFAULT searches the program and its libraries.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, CONF.as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: in slurmd and slurmstepd, which this is, `conf` is a `slurmd_conf_t *`
    // (src/slurmd/slurmd/slurmd.h).
    let conf = unsafe { *symbol.cast::<*const internal::slurmd_conf_t>() };
    (!conf.is_null()).then_some(conf)
}

/// Whether this is slurmd as a daemon, and not `slurmd -G`, which only prints.
#[must_use]
pub fn in_slurmd_daemon() -> bool {
    in_slurmd()
        && daemon_conf().is_some_and(|conf| {
            // SAFETY: as for node_name; the flag is set from the command line before any plugin loads.
            unsafe { !(*conf).print_gres }
        })
}

/// Whether slurmd goes to the background only after it has listed its GPUs, by which it loses all
/// threads: 22.05 without `-D`.
#[must_use]
pub fn forks_after_discovery() -> bool {
    daemon_conf().is_some_and(|conf| {
        // SAFETY: as for node_name.
        crate::compat::forks_after_discovery(unsafe { &*conf })
    })
}

/// Has `child` called in each process that this one forks, until the plugin is unloaded.
pub fn at_fork(child: unsafe extern "C" fn()) {
    // SAFETY: the handler is a function of this library; glibc forgets it when the library is closed.
    // It can only fail for want of memory, and then nothing is called.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(child)) };
}
