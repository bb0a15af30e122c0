//! A container plugin as pyxis is one: it gives a task another root in its `task_init`. The plugin is to stand
//! in front of ours in plugstack.conf; tasks need to be root's.

use harness::{Cluster, Release};

use crate::c_plugin;

/// The plugin's line in plugstack.conf.
pub const LINE: &str = "required /opt/sgpu/box.so\n";

const PLUGIN: &str = r#"
#include <slurm/spank.h>
#include <unistd.h>
SPANK_PLUGIN(box, 1);
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (chroot("/tmp/box") || chdir("/home/alice"))
        slurm_error("box: %m");
    return 0;
}
"#;

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
for folder in /tmp/box/*; do umount -lR $folder; done
find /tmp/box -xdev -depth -delete
"#;

/// Makes the plugin, and a container on the first node with some of the node's folders and no others.
///
/// # Panics
/// When it cannot.
pub fn make(cluster: &Cluster, release: Release, folders: &[&str]) {
    c_plugin::install(cluster, release, "box", PLUGIN);
    on_node(cluster, &[&["-c", MAKE, "sh"], folders].concat());
}

/// Takes the container away.
///
/// # Panics
/// When it cannot.
pub fn remove(cluster: &Cluster) {
    on_node(cluster, &["-c", REMOVE]);
}

fn on_node(cluster: &Cluster, words: &[&str]) {
    let shell = cluster.command("sh").args(words).on(cluster.node(1));
    shell.run().unwrap().ok().unwrap();
}
