//! The exported symbols (`syms[]` in 22.05 `src/common/slurm_acct_gather_energy.c`, 24.11
//! `src/interfaces/acct_gather_energy.c`). The fallbacks are listed in docs/src/safety.md.

use std::ffi::{c_int, c_void};

use slurm_headers::internal::{SLURM_VERSION_NUMBER, acct_energy_type};
use slurm_plugin::{host, log};

use crate::{node, step};

slurm_plugin::plugin_identity! {
    name: "sgpu energy of NVIDIA GPUs",
    type: "acct_gather_energy/sgpu",
    version: SLURM_VERSION_NUMBER,
}

slurm_plugin::hooks! {
    /// Called when Slurm has opened the plugin.
    fn init() -> c_int, fallback 0 => {
        log::set_prefix("acct_gather_energy/sgpu");
        if host::in_slurmd_daemon() {
            node::check_configuration();
        }
        0
    }

    /// Called before Slurm closes the plugin.
    fn fini() -> c_int, fallback 0 => {
        node::close();
        0
    }

    /// Asked of slurmd before it tells slurmctld of the node's energy.
    fn acct_gather_energy_p_update_node_energy() -> c_int, fallback -1 => {
        if host::in_slurmd() {
            node::sample();
        }
        0
    }

    /// What the node or step has used.
    fn acct_gather_energy_p_get_data(
        kind: acct_energy_type::Type, data: *mut c_void,
    ) -> c_int, fallback -1 => {
        if data.is_null() {
            return -1;
        }
        if host::in_slurmd() {
            // SAFETY: not NULL; Slurm hands in what `kind` names.
            unsafe { node::get(kind, data) }
        } else if host::in_slurmstepd() {
            // SAFETY: as above.
            unsafe { step::get(kind, data) }
        } else {
            0
        }
    }

    /// Which step this is, the tick of a profile, and that slurmd has read its configuration anew.
    fn acct_gather_energy_p_set_data(
        kind: acct_energy_type::Type, data: *mut c_void,
    ) -> c_int, fallback -1 => {
        if kind == acct_energy_type::ENERGY_DATA_RECONFIG && host::in_slurmd() {
            node::reconfigured();
        } else if !data.is_null() && host::in_slurmstepd() {
            // SAFETY: not NULL; Slurm hands in what `kind` names.
            unsafe { step::set(kind, data) };
        }
        0
    }

    /// The plugin has no options in acct_gather.conf.
    fn acct_gather_energy_p_conf_options(options: *mut c_void, count: *mut c_int), fallback () => {
        let _ = (options, count);
    }

    /// Called once acct_gather.conf is read, with the number by which slurmd knows the plugin.
    fn acct_gather_energy_p_conf_set(context: c_int, table: *mut c_void), fallback () => {
        let _ = table;
        if host::in_slurmstepd() {
            step::set_context(context);
        }
    }

    /// The plugin has no values to show.
    fn acct_gather_energy_p_conf_values(data: *mut c_void), fallback () => {
        let _ = data;
    }
}
