//! Takes over the cfgs of the Slurm release.
fn main() {
    slurm_headers_cfg::emit();
    // Slurm keeps SPANK plugins to the end of the process; so does the dynamic linker.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
