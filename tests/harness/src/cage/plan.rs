//! What the cage's scripts do, as data; rendering is pure.
//!
//! Three scripts, run by the host's bash:
//! - the *supervisor*, in the host's namespaces, lives as long as the cage and cleans up after it;
//! - *init*, the first process of the cluster's PID, mount, network, IPC and UTS namespaces: it ends
//!   when the harness' end of its standard input closes, and the kernel then ends all the others;
//! - one per *machine* (the controller, each node), with a mount and a UTS namespace of its own below
//!   init's: it makes the machine's root, enters it, and stays as the namespaces' holder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::shell::quote;

/// A host folder seen in a machine.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    /// On the host; made when it is absent.
    pub(crate) from: PathBuf,
    /// In the machine; made when it is absent.
    pub(crate) to: String,
    /// Not writable there.
    pub(crate) read_only: bool,
}

/// One machine of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Its host name.
    pub(crate) name: String,
    /// Folders shared with the host or with other machines.
    pub(crate) binds: Vec<Bind>,
}

/// A cage: machines over one Debian root.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The cluster's id.
    pub(crate) id: String,
    /// The cluster's folder.
    pub(crate) folder: PathBuf,
    /// The Debian root.
    pub(crate) root: PathBuf,
    /// The machines.
    pub(crate) machines: Vec<Machine>,
    /// What cgroup folders of this cluster are called, as a shell pattern.
    pub(crate) cgroups: String,
}

/// The devices that every machine has: name, major, minor.
const USUAL: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// Sets the loopback interface up with a second network, by ioctl in the Debian root's own perl
/// (perl-base is essential there; a host need not have iproute2). Slurm resolves names with
/// AI_ADDRCONFIG: with 127.0.0.1 alone, glibc finds none. Each machine's address is one of the interface's, as
/// programs expect that look for the interface of their host's name (JAX's gloo).
const NETWORK_UP: &str = r#"
socket(my $s, 2, 2, 0) or die "socket: $!";
sub set { my ($call, $request) = @_; ioctl($s, $call, $request) or die "loopback: $!"; }
set(0x8914, pack("a16 s x22", "lo", 0x49));
for my $number (1 .. $ARGV[0]) {
    my $address = sub { pack("a16 S n C4 x8", "lo:$number", 2, 0, @_) };
    set(0x8916, $address->(10, 77, $number >> 8, $number & 255));
    set(0x891c, $address->(255, 255, 0, 0));
}
"#;

impl Plan {
    /// A folder on the host where scripts are.
    pub(crate) fn script(&self, name: &str) -> PathBuf {
        self.folder.join("cage").join(format!("{name}.sh"))
    }

    /// The mount point of the cage's own tmpfs, seen from init and `/proc/<init>/root` only.
    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// A folder shared by all machines that ends with the cage.
    pub(crate) fn shared(&self, name: &str) -> PathBuf {
        self.tree().join("shared").join(name)
    }

    /// What a machine wrote: the upper layer of its root.
    pub(crate) fn upper(&self, machine: &str) -> PathBuf {
        self.tree().join(machine).join("upper")
    }

    /// The supervisor's script.
    pub(crate) fn supervisor_script(&self) -> String {
        format!(
            "\
# The harness closes our standard input or ends in any way: init ends, and with it every process and
# mount of the cluster. What a kernel keeps beyond that is removed here.
trap '' INT TERM HUP
unshare --mount --pid --fork --kill-child --net --ipc --uts -- bash {init}
while read -r _; do :; done
for try in 1 2 3 4 5 6 7 8 9 10; do
    left=$(find /sys/fs/cgroup -depth -type d -path {cgroups} 2>/dev/null)
    [ -z \"$left\" ] && break
    rmdir $left 2>/dev/null || sleep 0.1
done
[ -e {keep} ] || rm -rf --one-file-system {folder}
",
            init = quote_path(&self.script("init")),
            cgroups = quote(&format!("*{}*", self.cgroups)),
            keep = quote_path(&self.folder.join("keep")),
            folder = quote_path(&self.folder),
        )
    }

    /// Init's script. It reports each machine as `machine NAME PID` and ends with its input.
    pub(crate) fn init_script(&self) -> String {
        let mut out = format!(
            "set -eu\nmount -t tmpfs -o mode=755 sgpu-{} {}\nchroot {} perl -e {} {}\n",
            self.id,
            quote_path(&self.tree()),
            quote_path(&self.root),
            quote(NETWORK_UP),
            self.machines.len(),
        );
        for machine in &self.machines {
            let script = quote_path(&self.script(&machine.name));
            let _ = writeln!(
                out,
                "{{ unshare --mount --uts -- bash {script} || echo failed {}; }} &",
                machine.name
            );
        }
        out.push_str("exec >/dev/null\nwhile read -r _; do :; done\n");
        out
    }

    /// A machine's script.
    pub(crate) fn machine_script(&self, machine: &Machine) -> String {
        let home = self.tree().join(&machine.name);
        let root = home.join("root");
        let at = |path: &str| quote_path(&root.join(path.trim_start_matches('/')));
        let here = quote_path(&root);
        let mut out = String::from(
            "set -eu\n\
             while read -r key value; do [ \"$key\" = Pid: ] && outer=$value; done </proc/self/status\n",
        );
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line(format!(
            "echo {} >/proc/sys/kernel/hostname",
            quote(&machine.name)
        ));
        let (upper, work) = (home.join("upper"), home.join("work"));
        line(format!(
            "mkdir -p {here} {} {}",
            quote_path(&upper),
            quote_path(&work)
        ));
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            self.root.display(),
            upper.display(),
            work.display()
        );
        line(format!(
            "mount -t overlay -o {} overlay {here}",
            quote(&layers)
        ));
        line(format!("mount -t proc proc {}", at("proc")));
        line(format!("mount --rbind /sys {}", at("sys")));
        line(format!("mount -t tmpfs -o mode=755 run {}", at("run")));
        line(format!("mount -t tmpfs -o mode=755 dev {}", at("dev")));
        line(format!("mkdir {} {}", at("dev/pts"), at("dev/shm")));
        line(format!(
            "mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts {}",
            at("dev/pts")
        ));
        line(format!("mount -t tmpfs -o mode=1777 shm {}", at("dev/shm")));
        for (name, major, minor) in USUAL {
            line(format!(
                "mknod -m 666 {} c {major} {minor}",
                at(&format!("dev/{name}"))
            ));
        }
        for (name, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            line(format!("ln -s {to} {}", at(&format!("dev/{name}"))));
        }
        for Bind {
            from,
            to,
            read_only,
        } in &machine.binds
        {
            let (from, to) = (quote_path(from), at(to));
            line(format!(
                "[ -d {to} ] || mkdir -p {to}\n[ -d {from} ] || mkdir -p {from}"
            ));
            line(format!("mount --bind {from} {to}"));
            if *read_only {
                line(format!("mount -o remount,bind,ro {to}"));
            }
        }
        line(format!(
            "cd {here}\nmkdir .host\npivot_root . .host\numount -l /.host\nrmdir /.host"
        ));
        line(format!("echo machine {} \"$outer\"", quote(&machine.name)));
        line("exec sleep infinity </dev/null >/dev/null 2>&1".into());
        out
    }
}

fn quote_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            id: "sgabc".into(),
            folder: "/work dir/sgabc".into(),
            root: "/roots/trixie".into(),
            machines: vec![Machine {
                name: "sgabcn1".into(),
                binds: vec![Bind {
                    from: "/f/etc".into(),
                    to: "/etc/slurm".into(),
                    read_only: true,
                }],
            }],
            cgroups: "slurm_sgabcn".into(),
        }
    }

    #[test]
    fn paths_with_spaces_stay_whole() {
        let plan = plan();
        assert!(plan.init_script().contains("'/work dir/sgabc/tree'"));
        assert!(
            plan.supervisor_script()
                .contains("rm -rf --one-file-system '/work dir/sgabc'")
        );
    }

    #[test]
    fn a_machine_is_made_inside_its_own_root() {
        let plan = plan();
        let script = plan.machine_script(&plan.machines[0]);
        assert!(
            script
                .contains("mount -o remount,bind,ro '/work dir/sgabc/tree/sgabcn1/root/etc/slurm'")
        );
        // No mount and no device outside the machine's root.
        for line in script
            .lines()
            .filter(|line| line.starts_with("mknod") || line.starts_with("mount"))
        {
            assert!(line.contains("/tree/sgabcn1/root"), "{line}");
        }
    }
}
