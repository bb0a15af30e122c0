//! 23.02 brought `gpu_p_usage_read` and the positions of its TRES.

/// The positions of gres/gpumem and gres/gpuutil among the TRES of a process; `None` for one that is
/// not tracked.
#[cfg(slurm_ge = "23.02")]
pub(crate) fn usage_positions() -> (Option<usize>, Option<usize>) {
    let (mut memory, mut utilization) = (-1, -1);
    // SAFETY: stores into the two integers it is given, as 24.11 src/interfaces/gpu.c does.
    unsafe {
        slurm_headers::internal::gpu_get_tres_pos(&raw mut memory, &raw mut utilization);
    }
    (
        usize::try_from(memory).ok(),
        usize::try_from(utilization).ok(),
    )
}

/// The positions of gres/gpumem and gres/gpuutil: 22.05 tracks neither.
#[cfg(not(slurm_ge = "23.02"))]
pub(crate) fn usage_positions() -> (Option<usize>, Option<usize>) {
    (None, None)
}
