//! Generates the bindings from the headers that `SLURM_INCLUDE` (public) and `SLURM_SRC` with
//! `SLURM_BUILD` (internal) name. Without them the crate is empty, so that the workspace still
//! builds on a machine without Slurm.

mod allowlist;
mod discover;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use discover::Headers;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=include");
    let slurm = discover::discover()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);

    slurm_headers_cfg::declare();
    let version = slurm
        .internal
        .as_ref()
        .or(slurm.public.as_ref())
        .map(|headers| headers.version);
    if let Some(version) = version {
        slurm_headers_cfg::set(version, slurm.public.is_some(), slurm.internal.is_some());
        println!("cargo::metadata=version_number={version}");
    }
    if let Some(headers) = &slurm.public {
        println!("cargo::metadata=public=1");
        let bindings = builder("public.h", headers, &out)
            .allowlist_item("(slurm_)?spank_.*|S_[A-Z_]+|ESPANK_.*|SLURM_VERSION_NUMBER|slurm_(error|info|verbose|debug2?)");
        write(bindings, &out.join("public.rs"))?;
    }
    if let Some(headers) = &slurm.internal {
        println!("cargo::metadata=internal=1");
        let mut bindings = builder("internal.h", headers, &out);
        for item in allowlist::TYPES {
            bindings = bindings.allowlist_type(item);
        }
        for item in allowlist::FUNCTIONS {
            bindings = bindings.allowlist_function(item);
        }
        for item in allowlist::VARIABLES {
            bindings = bindings.allowlist_var(item);
        }
        for item in allowlist::OPAQUE {
            bindings = bindings.opaque_type(item);
        }
        write(bindings, &out.join("internal.rs"))?;
    }
    Ok(())
}

fn builder(header: &str, headers: &Headers, out: &Path) -> bindgen::Builder {
    let mut builder = bindgen::builder()
        .header(format!("include/{header}"))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .layout_tests(true)
        .derive_default(true)
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(out)
        .clang_arg("-D_GNU_SOURCE");
    for dir in &headers.include {
        builder = builder.clang_arg(format!("-I{}", dir.display()));
    }
    builder
}

fn write(builder: bindgen::Builder, path: &Path) -> Result<(), String> {
    let bindings = builder
        .generate()
        .map_err(|error| format!("bindgen: {error}"))?;
    fs::write(path, bindings.to_string()).map_err(|error| format!("{}: {error}", path.display()))
}
