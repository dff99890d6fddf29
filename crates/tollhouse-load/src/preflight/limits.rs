//! Current limits of the machine, read from `/proc` and resource limits.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// First local port by Linux's default.
const PORT_FIRST: u16 = 32_768;

/// Limits relevant to connections. `u64::MAX` if unlimited or unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open descriptors of this process.
    pub descriptors: u64,
    /// Upper bound of any process's descriptor limit (`fs.nr_open`).
    pub descriptors_possible: u64,
    /// Number of files the whole machine can still open.
    pub files_free: u64,
    /// Number of local ports for outgoing connections.
    pub ports: u64,
    /// First local port for outgoing connections.
    pub port_first: u16,
    /// Maximum accept backlog of a server on this machine.
    pub listen_queue: u64,
    /// Number of connections the firewall can still track; `None` without connection tracking.
    pub tracked_free: Option<u64>,
    pub memory_bytes: u64,
}

impl Limits {
    /// Reads the limits, after raising the descriptor limit with [`raise_descriptors`].
    pub fn after_raising(descriptors_wanted: u64) -> Self {
        let descriptors = raise_descriptors(descriptors_wanted);
        Self { descriptors, ..Self::read_under(Path::new("/proc")) }
    }

    /// Reads the limits from a `/proc` file system.
    fn read_under(root: &Path) -> Self {
        let numbers = |path: &str| -> Vec<u64> {
            let text = fs::read_to_string(root.join(path)).unwrap_or_default();
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let number = |path: &str| numbers(path).first().copied();
        let tracked = number("sys/net/netfilter/nf_conntrack_max").map(|max| {
            max.saturating_sub(number("sys/net/netfilter/nf_conntrack_count").unwrap_or(0))
        });
        let files_free = match numbers("sys/fs/file-nr").as_slice() {
            [used, _, max] => max.saturating_sub(*used),
            _ => u64::MAX,
        };
        let (port_first, ports) = match numbers("sys/net/ipv4/ip_local_port_range").as_slice() {
            [first, last] if last >= first => {
                (u16::try_from(*first).unwrap_or(PORT_FIRST), last - first + 1)
            }
            _ => (PORT_FIRST, u64::MAX),
        };
        let meminfo = fs::read_to_string(root.join("meminfo")).unwrap_or_default();
        // Missing values count as unlimited: a run that hits the real limit reports it, and values
        // hidden in a container must not prevent runs.
        Self {
            descriptors: u64::MAX,
            descriptors_possible: number("sys/fs/nr_open").unwrap_or(u64::MAX),
            files_free,
            ports,
            port_first,
            listen_queue: number("sys/net/core/somaxconn").unwrap_or(u64::MAX),
            tracked_free: tracked,
            memory_bytes: memory_available(&meminfo).unwrap_or(u64::MAX),
        }
    }
}

/// Raises the descriptor limit: the soft limit to the hard one, and both to `wanted` if this
/// process may do that (root outside a container). Returns the resulting soft limit.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let refused = wanted > hard && {
        let both = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        setrlimit(Resource::Nofile, both).is_err()
    };
    if refused || (wanted <= hard && limit.current != limit.maximum) {
        // Fails only under a seccomp filter; the limit then stays unchanged.
        let soft = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let _ = setrlimit(Resource::Nofile, soft);
    }
    soft_limit()
}

fn soft_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn memory_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes = line.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_their_files() {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            ("sys/fs/nr_open", "1048576\n"),
            ("sys/fs/file-nr", "1000\t0\t9000\n"),
            ("sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("sys/net/core/somaxconn", "4096\n"),
            ("sys/net/netfilter/nf_conntrack_max", "65536\n"),
            ("sys/net/netfilter/nf_conntrack_count", "536\n"),
            ("meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("directory");
            fs::write(path, text).expect("file");
        }
        let expected = Limits {
            descriptors: u64::MAX,
            descriptors_possible: 1_048_576,
            files_free: 8_000,
            ports: 28_232,
            port_first: 32_768,
            listen_queue: 4_096,
            tracked_free: Some(65_000),
            memory_bytes: 2 << 20,
        };
        assert_eq!(Limits::read_under(root.path()), expected);
    }

    #[test]
    fn a_limit_without_a_file_is_no_limit() {
        let root = tempfile::tempdir().expect("a directory");
        let limits = Limits::read_under(root.path());
        assert_eq!((limits.ports, limits.tracked_free), (u64::MAX, None));
        assert_eq!(limits.memory_bytes, u64::MAX);
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let in_force = raise_descriptors(0);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!((limit.current, in_force), (limit.maximum, limit.maximum.unwrap_or(u64::MAX)));
    }
}
