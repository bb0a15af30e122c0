//! NVIDIA's public Python binding, nvidia-ml-py, against the library.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The binding's release; it asks for the newest version of each call.
const BINDING: &str = "nvidia-ml-py==13.615.71";

/// The folder with the binding, installed in cargo's target folder at first use.
fn binding() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvidia-ml-py");
    if folder.join("pynvml.py").exists() {
        return Ok(folder);
    }
    let install = |python: &Path| {
        let output = Command::new(python)
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(&folder)
            .arg(BINDING)
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let first = install(Path::new("python3"));
    let installed = first.or_else(|_| {
        // A python3 without pip may still make an environment that has it.
        let environment = folder.with_extension("venv");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment)
            .output();
        made.map_err(|error| error.to_string())?;
        install(&environment.join("bin/python"))
    });
    installed.map(|()| folder)
}

#[test]
fn nvidia_ml_py() {
    let binding = match binding() {
        Ok(binding) => binding,
        Err(reason) => {
            let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!ci, "{BINDING} cannot be installed: {reason}");
            println!("SKIPPED: {BINDING} cannot be installed: {reason}");
            return;
        }
    };
    let folder = support::folder();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(folder.path())
        .env("PYTHONPATH", binding)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LD_LIBRARY_PATH", folder.path())
        .env_remove("SGPU_FAKE_NVML_SCENARIO")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.contains("checks passed"), "{told}{errors}");
    println!("{told}");
}
