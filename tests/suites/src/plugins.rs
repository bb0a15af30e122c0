//! The plugins under test.

use std::path::{Path, PathBuf};

use harness::Release;

/// One plugin of ours.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Its file.
    pub file: &'static str,
    /// Its type, as Slurm names it.
    pub plugin_type: &'static str,
    /// Its list of exported symbols, below `abi/<release>/`.
    pub exports: &'static str,
    /// The file of Slurm's source that lists the symbols which Slurm looks up, first name that exists; `None`
    /// for a SPANK plugin, which has the hooks that it uses.
    pub syms: Option<[&'static str; 2]>,
}

const GPU_SYMS: [&str; 2] = ["src/interfaces/gpu.c", "src/common/gpu.c"];

/// The plugins that are built for a release.
#[must_use]
pub fn of(release: Release) -> Vec<Plugin> {
    let mut plugins = spank();
    if Release::FULL.contains(&release) {
        plugins.extend(over_internal_headers(release));
    }
    plugins
}

/// The SPANK plugins, which every release has.
#[must_use]
pub fn spank() -> Vec<Plugin> {
    let spank = |file, exports| Plugin {
        file,
        plugin_type: "spank",
        exports,
        syms: None,
    };
    vec![
        spank("spank_sgpu_bind.so", "spank_bind.txt"),
        spank("spank_sgpu_env.so", "spank_env.txt"),
        spank("spank_sgpu_ckpt.so", "spank_ckpt.txt"),
    ]
}

fn over_internal_headers(release: Release) -> Vec<Plugin> {
    let gpu = |file, plugin_type| Plugin {
        file,
        plugin_type,
        exports: "gpu.txt",
        syms: Some(GPU_SYMS),
    };
    let mut plugins = vec![
        gpu("gpu_nvml.so", "gpu/nvml"),
        gpu("gpu_generic.so", "gpu/generic"),
        Plugin {
            file: "acct_gather_energy_sgpu.so",
            plugin_type: "acct_gather_energy/sgpu",
            exports: "acct_gather_energy.txt",
            syms: Some([
                "src/interfaces/acct_gather_energy.c",
                "src/common/slurm_acct_gather_energy.c",
            ]),
        },
    ];
    if release >= Release::Slurm24_11 {
        plugins.push(gpu("gpu_nvidia.so", "gpu/nvidia"));
    }
    plugins
}

/// The committed list of exported symbols.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn expected_exports(release: Release, plugin: &Plugin) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("abi")
        .join(release.name())
        .join(plugin.exports);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

/// The configured source tree that the plugins of a release were built from.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn source(version: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/slurm")
        .join(version)
        .join("src");
    assert!(
        path.is_dir(),
        "{} is not there: run `cargo xtask setup`",
        path.display()
    );
    path
}

/// The names in the `syms[]` of a source file of Slurm.
///
/// # Panics
/// When the file has none.
#[must_use]
pub fn syms(source: &Path, files: [&str; 2]) -> Vec<String> {
    let path = files
        .iter()
        .map(|file| source.join(file))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("none of {files:?} in {}", source.display()));
    let text = std::fs::read_to_string(&path).expect("a source file");
    let (_, after) = text.split_once("*syms[] = {").expect("a list of symbols");
    let (list, _) = after.split_once("};").expect("the end of the list");
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}
