//! Tasks in a container, by a plugin that does what pyxis does.

use harness::{Cluster, Release};

use crate::c_plugin;

/// The folder that becomes the tasks' root.
const MAKE: &str = r#"
set -e
mkdir -p -m 1777 /tmp/box/tmp
for folder in "$@"; do
    mkdir -p /tmp/box/$folder
    mount --rbind /$folder /tmp/box/$folder
done
for link in bin sbin lib lib64; do ln -s usr/$link /tmp/box/$link; done
"#;

const REMOVE: &str = r#"
for folder in /tmp/box/*; do
    if mountpoint -q $folder; then umount -lR $folder; fi
done
find /tmp/box -xdev -depth -delete
"#;

/// A cluster whose first node has all tasks in a container.
#[derive(Debug)]
pub struct Sealed<'c> {
    cluster: &'c Cluster,
}

impl<'c> Sealed<'c> {
    /// Makes it: `plugstack` comes behind the container's plugin, of the machine's folders the tasks see these.
    /// A copy of `sgpu-ckpt` is in their /tmp.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(cluster: &'c Cluster, release: Release, plugstack: &str, folders: &[&str]) -> Self {
        c_plugin::install(cluster, release, "sealed", include_str!("sealed.c"));
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
        self.sh(REMOVE, &[]);
    }

    fn sh(&self, script: &str, words: &[&str]) {
        let words = [&["-c", script, "sh"], words].concat();
        let sh = self.cluster.command("sh").args(&words);
        let node = self.cluster.node(1);
        sh.on(node).run().unwrap().ok().unwrap();
    }
}
