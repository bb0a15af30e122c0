//! Takes over the cfgs of the Slurm release.
fn main() {
    slurm_headers_cfg::emit();
}
