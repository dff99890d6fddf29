//! What the machine allows now, read from its files and limits.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where Linux begins to give out local ports when nobody says otherwise.
const PORT_FIRST: u16 = 32_768;

/// The limits that connections meet. `u64::MAX` where there is none or none is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Descriptors this process may have open.
    pub descriptors: u64,
    /// How many any process may have at most, whoever asks (`fs.nr_open`).
    pub descriptors_possible: u64,
    /// Files the whole machine may still open.
    pub files_free: u64,
    /// Local ports that a connection may get.
    pub ports: u64,
    /// The first of them.
    pub port_first: u16,
    /// Connections that a server on this machine may have waiting to be accepted.
    pub listen_queue: u64,
    /// Connections that the firewall may still track; `None` when it tracks none.
    pub tracked_free: Option<u64>,
    /// Memory that can still be taken, in bytes.
    pub memory_bytes: u64,
}

impl Limits {
    /// Reads them, after raising the limit of descriptors as [`raise_descriptors`] does.
    pub fn after_raising(descriptors_wanted: u64) -> Self {
        let descriptors = raise_descriptors(descriptors_wanted);
        Self { descriptors, ..Self::read_under(Path::new("/proc")) }
    }

    /// What stands in the files of a `/proc`.
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
        // What a system does not say is taken for no limit: a run that meets one says so itself,
        // while a figure that is hidden in a container must not keep runs from starting.
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

/// Raises the limit of descriptors: the soft one to the hard one, and both to `wanted` where this process
/// may do that (root outside of a container). Gives back what is in force.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let refused = wanted > hard && {
        let both = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        setrlimit(Resource::Nofile, both).is_err()
    };
    if refused || (wanted <= hard && limit.current != limit.maximum) {
        // Refused only by a seccomp filter; the limit then stays as it is.
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
