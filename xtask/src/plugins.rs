//! The plugins that are built for each Slurm release, and the programs that go with them: the one table of
//! both.

use crate::version::Version;

/// A plugin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    /// The cargo package.
    pub(crate) package: &'static str,
    /// The file that Slurm looks for; cargo makes `lib` + the same.
    pub(crate) file: &'static str,
    /// The first release that knows the plugin.
    pub(crate) since: (u8, u8),
    /// What it is built over.
    pub(crate) headers: Headers,
}

/// Which of Slurm's headers a plugin needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    /// Those of the release's source tree.
    Internal,
    /// Those that Slurm installs.
    Public,
}

const PLUGINS: [Plugin; 7] = [
    Plugin {
        package: "gpu-nvml",
        file: "gpu_nvml.so",
        since: (22, 5),
        headers: Headers::Internal,
    },
    // AutoDetect=nvidia came with 24.11.
    Plugin {
        package: "gpu-nvidia",
        file: "gpu_nvidia.so",
        since: (24, 11),
        headers: Headers::Internal,
    },
    Plugin {
        package: "gpu-generic",
        file: "gpu_generic.so",
        since: (22, 5),
        headers: Headers::Internal,
    },
    Plugin {
        package: "acct-gather-energy-sgpu",
        file: "acct_gather_energy_sgpu.so",
        since: (22, 5),
        headers: Headers::Internal,
    },
    Plugin {
        package: "spank-sgpu-bind",
        file: "spank_sgpu_bind.so",
        since: (22, 5),
        headers: Headers::Public,
    },
    Plugin {
        package: "spank-sgpu-env",
        file: "spank_sgpu_env.so",
        since: (22, 5),
        headers: Headers::Public,
    },
    Plugin {
        package: "spank-sgpu-ckpt",
        file: "spank_sgpu_ckpt.so",
        since: (22, 5),
        headers: Headers::Public,
    },
];

/// A program. It is the same for each Slurm release.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The cargo package, and the file.
    pub(crate) package: &'static str,
    /// Its folder in a tarball.
    pub(crate) folder: &'static str,
    /// Linked without shared libraries, since it runs in users' containers.
    pub(crate) is_static: bool,
}

/// All programs.
pub(crate) const PROGRAMS: [Program; 3] = [
    Program {
        package: "sgpu-check",
        folder: "sbin",
        is_static: false,
    },
    // Its plugin looks for it beside itself.
    Program {
        package: "sgpu-sigrelay",
        folder: "lib/slurm",
        is_static: true,
    },
    // Its plugin looks for it beside itself, and there.
    Program {
        package: "sgpu-ckpt",
        folder: "bin",
        is_static: true,
    },
];

/// The plugins of a Slurm version; those over public headers alone where its source is not to be had.
pub(crate) fn of(version: Version, with_source: bool) -> Vec<&'static Plugin> {
    PLUGINS
        .iter()
        .filter(|plugin| version.at_least(plugin.since.0, plugin.since.1))
        .filter(|plugin| with_source || plugin.headers == Headers::Public)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_release_gets_its_plugins() {
        let files = |version| -> Vec<_> {
            of(Version::parse(version).unwrap(), true)
                .iter()
                .map(|plugin| plugin.file)
                .collect()
        };
        assert!(!files("22.05.8").contains(&"gpu_nvidia.so"));
        assert_eq!(files("24.11.5").len(), PLUGINS.len());
        assert_eq!(files("26.05.0").len(), PLUGINS.len());
        let public = of(Version::parse("26.05.0").unwrap(), false);
        assert!(
            public
                .iter()
                .all(|plugin| plugin.file.starts_with("spank_"))
        );
        assert_eq!(public.len(), 3);
    }

    #[test]
    fn the_table_names_packages_of_the_workspace_by_their_file() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifests: Vec<String> = ["config", "gres-gpu-plugin", "spank-plugins"]
            .into_iter()
            .flat_map(|rooms| workspace.join(rooms).read_dir().unwrap().flatten())
            .filter_map(|dir| std::fs::read_to_string(dir.path().join("Cargo.toml")).ok())
            .collect();
        for plugin in &PLUGINS {
            let package = format!("name = \"{}\"", plugin.package);
            let lib = format!("name = \"{}\"", plugin.file.trim_end_matches(".so"));
            assert!(
                manifests
                    .iter()
                    .any(|text| text.contains(&package) && text.contains(&lib)),
                "{}",
                plugin.package
            );
        }
        for program in &PROGRAMS {
            let package = format!("name = \"{}\"", program.package);
            assert!(
                manifests.iter().any(|text| text.contains(&package)),
                "{package}"
            );
        }
    }
}
