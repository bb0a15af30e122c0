//! The control groups of a step. The plugin starts a process of ours before slurmstepd has put the task into its
//! groups; later it follows the task there.

use std::path::PathBuf;

/// The files that a process writes itself into to be where another is. `own` and `other` are what
/// `/proc/PID/cgroup` says of the two, `mounts` is `/proc/self/mountinfo`.
///
/// # Errors
/// When a group of the other is not to be seen.
pub fn moves(own: &str, other: &str, mounts: &str) -> Result<Vec<PathBuf>, String> {
    let own: Vec<&str> = own.lines().collect();
    other
        .lines()
        .filter(|line| !own.contains(line))
        .map(|line| file(line, mounts).ok_or_else(|| format!("no mount shows {line}")))
        .collect()
}

/// `hierarchy:controllers:path`, without controllers in version 2.
fn file(line: &str, mounts: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    mounts
        .lines()
        .find_map(|mount| folder(mount, controllers, path))
        .map(|folder| folder.join("cgroup.procs"))
}

/// The group's folder in a mount, if that shows it.
fn folder(mount: &str, controllers: &str, path: &str) -> Option<PathBuf> {
    // `id parent device root point options [more]... - type source options`
    let (place, kind) = mount.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (fs_type, options) = (kind.next()?, kind.nth(1)?);
    let ours = if controllers.is_empty() {
        fs_type == "cgroup2"
    } else {
        fs_type == "cgroup"
            && controllers
                .split(',')
                .all(|own| options.split(',').any(|option| option == own))
    };
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let below = path.strip_prefix(root.trim_end_matches('/'))?;
    let inside = below.is_empty() || below.starts_with('/');
    let climbs = path.split('/').any(|part| part == "..");
    (ours && inside && !climbs).then(|| PathBuf::from(point).join(below.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
40 31 0:37 /docker/5 /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    fn of(own: &str, other: &str) -> Result<Vec<String>, String> {
        let files = moves(own, other, V1)?;
        Ok(files
            .into_iter()
            .map(|file| file.into_os_string().into_string().unwrap())
            .collect())
    }

    #[test]
    fn a_process_goes_where_it_is_not_yet() {
        let own = "6:freezer:/slurm\n1:cpu,cpuacct:/slurm\n0::/\n";
        let task = "6:freezer:/slurm/job_5/step_0\n1:cpu,cpuacct:/slurm\n0::/\n";
        assert_eq!(
            of(own, task),
            Ok(vec![
                "/sys/fs/cgroup/freezer/slurm/job_5/step_0/cgroup.procs".to_owned()
            ])
        );
        assert_eq!(of(task, task), Ok(vec![]));
        assert_eq!(
            of("0::/a/slurm\n", "0::/a/user/task_0\n"),
            Ok(vec![
                "/sys/fs/cgroup/unified/a/user/task_0/cgroup.procs".to_owned()
            ])
        );
    }

    #[test]
    fn a_mount_may_show_a_part_only() {
        assert_eq!(
            of("", "9:name=systemd:/docker/5/job"),
            Ok(vec!["/sys/fs/cgroup/systemd/job/cgroup.procs".to_owned()])
        );
        for hidden in [
            "9:name=systemd:/docker/55/job",
            "9:name=systemd:/other",
            "6:freezer:/../other",
            "3:memory:/slurm",
            "nonsense",
        ] {
            let error = of("", hidden).unwrap_err();
            assert!(error.contains(hidden), "{error}");
        }
    }
}
