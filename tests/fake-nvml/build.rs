//! Gives the cdylib the SONAME that programs look for.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
