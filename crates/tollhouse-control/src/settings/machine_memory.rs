//! Memory that the process may use: that of the machine, or the limit of its control group.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Assumed memory if the machine's is unknown: small enough for any machine.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// Returns the memory that this process may use, in bytes.
pub fn usable_bytes() -> u64 {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups, Path::new("/sys/fs/cgroup"));
    let group = limits.iter().filter_map(|file| limit_of(&read_to_string(file).ok()?)).min();
    machine.into_iter().chain(group).min().unwrap_or(UNKNOWN_BYTES)
}

/// Parses `MemTotal:       16384000 kB` into bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses a limit in bytes; `max` means unlimited and gives `None`.
fn limit_of(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the possible limit files of the groups in `/proc/self/cgroup` and their parents, for
/// cgroup v2 and v1.
fn limit_files(groups: &str, root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (folder, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| folder.join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(total_of("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(total_of("nothing"), None);
        assert_eq!((limit_of("1024\n"), limit_of("max\n")), (Some(1024), None));
        assert!(usable_bytes() > 0);
    }

    #[test]
    fn limits_of_a_group_and_its_parents_count() {
        let files = |groups| limit_files(groups, Path::new("/r"));
        let shown = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            files("0::/a/b\n"),
            shown(&["/r/a/b/memory.max", "/r/a/memory.max", "/r/memory.max"])
        );
        assert_eq!(
            files("4:cpu,memory:/x\n3:cpuset:/y\n"),
            shown(&["/r/memory/x/memory.limit_in_bytes", "/r/memory/memory.limit_in_bytes"])
        );
    }
}
