//! What the plugins use of Slurm. All else stays out of the bindings, or opaque.

/// Types, with their layout asserted.
pub(crate) const TYPES: &[&str] = &[
    "acct_energy_type",
    "acct_gather_data_t",
    "acct_gather_energy_t",
    "bitstr_t",
    "gpu_status_t",
    "gres_device_t",
    "gres_job_state_t",
    "gres_slurmd_conf_t",
    "gres_state_t",
    "gres_step_state_t",
    "log_level_t",
    "node_config_load_t",
    "slurm_conf_t",
    "slurm_err_t",
    "slurmd_conf_t",
    "stepd_step_rec_t",
];

/// Functions, under the names that the daemons export.
pub(crate) const FUNCTIONS: &[&str] = &[
    "add_gres_to_list",
    "(slurm_)?destroy_gres_slurmd_conf",
    "find_node_record2",
    "gpu_get_tres_pos",
    "gres_build_id",
    "gres_get_autodetect_flags",
    "gres_get_gres_cnt",
    "slurm_running_in_(slurmctld|slurmd|slurmstepd)",
    "(slurm_)?acct_gather_energy_destroy",
    "(slurm_)?get_log_level",
    "slurm_bit_(alloc|free|set|test|size|set_count)",
    "slurm_get_gpu_freq_def",
    "slurm_get_node_energy",
    "slurm_list_(create|destroy|append|count|iterator_create|iterator_destroy|next)",
    "slurm_log_var",
    "slurm_xcalloc",
    "slurm_xfree_ptr",
    "slurm_xfree",
    "slurm_xstrdup",
];

/// Constants. `SLURM_BIT(n)` macros come by bindgen's clang fallback.
pub(crate) const VARIABLES: &[&str] = &[
    "ESLURM_INVALID_GRES",
    "GRES_AUTODETECT_.*",
    "GRES_CONF_.*",
    "SLURM_BATCH_SCRIPT",
    "SLURM_EXTERN_CONT",
    "SLURM_INTERACTIVE_STEP",
    "SLURM_MAX_NORMAL_STEP_ID",
    "SLURM_VERSION_NUMBER",
];

/// Structs of which only pointers are passed on.
pub(crate) const OPAQUE: &[&str] = &["list", "list_t", "xlist", "listIterator", "list_itr_t"];
