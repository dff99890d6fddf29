//! Limits of the container this process runs in, from control groups version 1 or 2: the lowest on
//! the path from the process's group to the root.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits of a container; `None` if unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cores: Option<f64>,
}

/// Threshold above which version 1 means "unlimited".
const MEMORY_BYTES_MAX: u64 = 1 << 60;

/// Reads the container's limits from the file system below a root directory.
pub(super) fn limits(root: &Path) -> Limits {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mount = root.join("sys/fs/cgroup");
    if mount.join("cgroup.controllers").exists() {
        let group = group_of(&own, "");
        return Limits {
            memory_bytes: lowest(&mount, &group, |at| memory(&at.join("memory.max"))),
            cores: lowest(&mount, &group, |at| {
                quota(&fs::read_to_string(at.join("cpu.max")).ok()?)
            }),
        };
    }
    let group = |controller: &str| group_of(&own, controller);
    let memory_of = |at: &Path| memory(&at.join("memory.limit_in_bytes"));
    let cores_of = |at: &Path| {
        let read = |name: &str| fs::read_to_string(at.join(name)).ok();
        quota(&format!("{} {}", read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?))
    };
    Limits {
        memory_bytes: lowest(&mount.join("memory"), &group("memory"), memory_of),
        cores: lowest(&mount.join("cpu"), &group("cpu"), cores_of),
    }
}

/// Returns the group of this process for a controller, from `/proc/self/cgroup`; `""` selects
/// version 2.
fn group_of(text: &str, controller: &str) -> String {
    let group = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == controller).then_some(group)
    });
    group.unwrap_or("/").to_owned()
}

/// Returns the lowest value of a limit in the group and its ancestors, because each of them
/// applies. Inside a container, ancestors outside of it are invisible and are skipped; the visible
/// root is then the container's own group.
fn lowest<T: PartialOrd>(
    mount: &Path,
    group: &str,
    value: impl Fn(&Path) -> Option<T>,
) -> Option<T> {
    let way = PathBuf::from(group.trim_start_matches('/'));
    let found = way.ancestors().filter_map(|group| value(&mount.join(group)));
    found.reduce(|lowest, value| if value < lowest { value } else { lowest })
}

/// Reads a memory limit; `max` and extremely large numbers mean unlimited.
fn memory(path: &Path) -> Option<u64> {
    let bytes = fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()?;
    (bytes < MEMORY_BYTES_MAX).then_some(bytes)
}

/// Parses a CPU quota and its period; `max` and `-1` mean unlimited.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?.parse::<f64>().ok().filter(|quota| *quota > 0.0)?;
    let period = words.next()?.parse::<f64>().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> Limits {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("directory");
            fs::write(path, text).expect("file");
        }
        limits(root.path())
    }

    #[test]
    fn version_2_takes_the_lowest_on_the_way_up() {
        let found = system(&[
            ("proc/self/cgroup", "0::/pods/one\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
            ("sys/fs/cgroup/pods/memory.max", "1000\n"),
            ("sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(found, Limits { memory_bytes: Some(1000), cores: None });
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let found = system(&[
            ("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(found, Limits { memory_bytes: Some(2 << 30), cores: Some(2.0) });
    }

    #[test]
    fn a_group_that_is_not_visible_leaves_the_root_of_the_container() {
        let found = system(&[
            ("proc/self/cgroup", "0::/../outside\n"),
            ("sys/fs/cgroup/cgroup.controllers", ""),
            ("sys/fs/cgroup/memory.max", "500\n"),
        ]);
        assert_eq!(found.memory_bytes, Some(500));
    }

    #[test]
    fn a_machine_without_groups_limits_nothing() {
        assert_eq!(system(&[]), Limits::default());
    }
}
