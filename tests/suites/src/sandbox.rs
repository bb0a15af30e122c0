//! A root of Debian for one program: a private mount namespace in which the root is untouched: its
//! `/opt` has the program and what it needs, its `/etc/slurm` the least slurm.conf. No daemon runs there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A root and what is copied into its `/opt`.
#[derive(Clone, Debug)]
pub struct Sandbox {
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Sandbox {
    /// A root with nothing in `/opt`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: Vec::new(),
        }
    }

    /// Copies a file to `/opt/NAME`.
    #[must_use]
    pub fn with(mut self, file: &Path) -> Self {
        self.files.push(file.to_owned());
        self
    }

    /// Runs a program of the root.
    ///
    /// # Panics
    /// When namespaces cannot be made: the tests run as root.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Output {
        // "$0" is the root, then the files, then "--" and the program's words.
        const SCRIPT: &str = r#"
            set -e
            mount --make-rprivate /
            mount -t tmpfs tmpfs "$0/opt"
            mount -t tmpfs tmpfs "$0/etc/slurm"
            cat > "$0/etc/slurm/slurm.conf" <<END
ClusterName=sandbox
SlurmctldHost=localhost
GresTypes=gpu
NodeName=localhost Gres=gpu:8
END
            while [ "$1" != -- ]; do cp "$1" "$0/opt/"; shift; done
            shift
            mount -t proc proc "$0/proc"
            exec chroot "$0" "$@"
        "#;
        Command::new("unshare")
            .args(["--mount", "sh", "-c", SCRIPT])
            .arg(&self.root)
            .args(&self.files)
            .arg("--")
            .args(words)
            .output()
            .expect("unshare of util-linux")
    }
}
