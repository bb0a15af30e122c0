//! Tasks in a container, by a plugin that does what pyxis does.

use std::process::Command;

use harness::{Cluster, Release, Root};

/// The folder that becomes the tasks' root: the machine's own folders, without /opt and /run.
const MAKE: &str = r#"
set -e
mkdir -p -m 1777 /tmp/box/tmp
for folder in usr etc home dev "$@"; do
    mkdir -p /tmp/box/$folder
    mount --rbind /$folder /tmp/box/$folder
done
for link in bin sbin lib lib64; do ln -s usr/$link /tmp/box/$link; done
"#;

/// A cluster whose first node has all tasks in a container.
#[derive(Debug)]
pub struct Sealed<'c> {
    cluster: &'c Cluster,
}

impl<'c> Sealed<'c> {
    /// Makes it: `plugstack` comes behind the container's plugin, `folders` are there besides /usr, /etc, /home
    /// and /dev. A copy of `sgpu-ckpt` is in its /tmp.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(cluster: &'c Cluster, release: Release, plugstack: &str, folders: &[&str]) -> Self {
        let source = cluster.opt().join("sealed.c");
        std::fs::write(&source, include_str!("sealed.c")).unwrap();
        let include = Root::open(release).unwrap().path().join("usr/include");
        let cc = Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-I"])
            .arg(include)
            .arg("-o")
            .args([cluster.opt().join("sealed.so"), source])
            .status()
            .unwrap();
        assert!(cc.success());
        let sealed = Self { cluster };
        sealed.sh(MAKE, folders);
        sealed.sh("cp /opt/sgpu/plugins/sgpu-ckpt /tmp/box/tmp/", &[]);
        // Steps read it anew.
        sealed.plugstack("", plugstack);
        sealed
    }

    /// Gives the container's plugin these words, and other plugins behind it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn plugstack(&self, words: &str, behind: &str) {
        let text = format!("required /opt/sgpu/sealed.so {words}\n{behind}");
        self.cluster.write_etc("plugstack.conf", &text).unwrap();
    }

    /// Takes the folder apart.
    ///
    /// # Panics
    /// When that fails.
    pub fn open(self) {
        self.sh(
            "for folder in /tmp/box/*; do umount -lR $folder; done; true",
            &[],
        );
    }

    fn sh(&self, script: &str, words: &[&str]) {
        let words = [&["-c", script, "sh"], words].concat();
        let sh = self.cluster.command("sh").args(&words);
        let node = self.cluster.node(1);
        sh.on(node).run().unwrap().ok().unwrap();
    }
}
