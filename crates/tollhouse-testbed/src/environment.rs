//! Machine and program versions of a report: everything needed to assess or repeat a measurement.
//! Collected once before the load; unreadable values are left out.

mod cgroup;
mod program;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Machine and software on which a measurement ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Environment {
    /// Short label of cores and memory, such as `2C4G`.
    pub label: String,
    /// CPU model as reported by the kernel.
    pub cpu: String,
    /// Number of cores available to this process.
    pub cores: u64,
    /// Memory in bytes: of the machine, or the container's limit if that is lower.
    pub memory_bytes: u64,
    /// Name and version of the operating system's kernel.
    pub kernel: String,
    /// Versions of the programs involved, by name.
    pub versions: BTreeMap<String, String>,
    /// Relevant limits and settings, by name: `nofile`, `somaxconn`, `port range`, `governor`, ….
    pub limits: BTreeMap<String, String>,
}

/// Settings that are each stored in a short file.
const SETTINGS: [(&str, &str); 11] = [
    ("somaxconn", "proc/sys/net/core/somaxconn"),
    ("tcp_max_syn_backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog"),
    ("port range", "proc/sys/net/ipv4/ip_local_port_range"),
    ("tcp_tw_reuse", "proc/sys/net/ipv4/tcp_tw_reuse"),
    ("tcp_mem (pages)", "proc/sys/net/ipv4/tcp_mem"),
    ("congestion control", "proc/sys/net/ipv4/tcp_congestion_control"),
    ("nf_conntrack_max", "proc/sys/net/netfilter/nf_conntrack_max"),
    ("file-max", "proc/sys/fs/file-max"),
    ("nr_open", "proc/sys/fs/nr_open"),
    ("governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("clock", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
];

impl Environment {
    /// Collects the environment of this machine.
    pub fn collect() -> Self {
        let mut environment = Self::read_under(Path::new("/"));
        environment.cores =
            std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64);
        environment.label = texts::label(environment.cores, environment.memory_bytes);
        environment.limits.insert("nofile".into(), texts::descriptors_text());
        environment.versions.insert("tollhouse".into(), env!("CARGO_PKG_VERSION").into());
        environment
    }

    /// Adds the version of another program: the first line printed by `command`, such as
    /// `["nginx", "-v"]`. A program that is missing or hangs is left out.
    #[must_use]
    pub fn with_program_version(mut self, name: &str, command: &[&str]) -> Self {
        if let Some(version) = program::first_line(command) {
            self.versions.insert(name.into(), version);
        }
        self
    }

    /// Reads the environment from the files under a root directory.
    fn read_under(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let one_line = |path: &str| read(path).split_whitespace().collect::<Vec<_>>().join(" ");
        let mut limits: BTreeMap<String, String> =
            SETTINGS.iter().map(|(name, path)| ((*name).to_owned(), one_line(path))).collect();
        limits.insert("load average at start".into(), texts::load_average(&read("proc/loadavg")));
        let cpuinfo = read("proc/cpuinfo");
        if texts::is_virtual(&cpuinfo) {
            limits.insert("machine".into(), "virtual".into());
        }
        let container = cgroup::limits(root);
        if let Some(bytes) = container.memory_bytes {
            limits.insert("container memory".into(), tollhouse_stdx::bytes_size::format(bytes));
        }
        if let Some(cores) = container.cores {
            limits.insert("container CPU".into(), format!("{cores} cores"));
        }
        limits.retain(|_, value| !value.is_empty());
        let installed = texts::memory_bytes(&read("proc/meminfo"));
        Self {
            label: String::new(),
            cpu: texts::cpu_model(&cpuinfo),
            cores: 0,
            // The smaller one, because unlimited containers report more than the machine has.
            memory_bytes: container.memory_bytes.map_or(installed, |limit| limit.min(installed)),
            kernel: texts::kernel(
                &read("etc/os-release"),
                &one_line("proc/sys/kernel/ostype"),
                &one_line("proc/sys/kernel/osrelease"),
            ),
            versions: BTreeMap::new(),
            limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("directory");
            fs::write(path, text).expect("file");
        }
        root
    }

    #[test]
    fn a_machine_is_described_by_its_files() {
        let root = system(&[
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n"),
            ("proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/loadavg", "0.50 0.40 0.30 1/200 4711\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"),
        ]);
        let environment = Environment::read_under(root.path());
        assert_eq!(environment.cpu, "AMD EPYC");
        assert_eq!(environment.memory_bytes, 16_384_000 * 1024);
        assert!(environment.kernel.starts_with("Debian GNU/Linux 13 (trixie), Linux 6.1.0"));
        let shown: Vec<(&str, &str)> = environment
            .limits
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("load average at start", "0.50 0.40 0.30"),
            ("machine", "virtual"),
            ("port range", "32768 60999"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_container_is_as_large_as_its_limits() {
        let root = system(&[
            ("proc/meminfo", "MemTotal: 16384000 kB\n"),
            ("proc/self/cgroup", "0::/app\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/app/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/app/cpu.max", "150000 100000\n"),
        ]);
        let environment = Environment::read_under(root.path());
        assert_eq!(environment.memory_bytes, 4 << 30);
        assert_eq!(environment.limits["container memory"], "4GiB");
        assert_eq!(environment.limits["container CPU"], "1.5 cores");
    }

    #[test]
    fn a_machine_without_any_file_is_described_by_nothing() {
        let root = system(&[]);
        assert_eq!(Environment::read_under(root.path()).limits.len(), 0);
    }

    #[test]
    fn this_machine_has_a_label_and_versions() {
        let environment =
            Environment::collect().with_program_version("absent", &["/no/such/program", "-v"]);
        assert!(environment.label.contains('C') && environment.cores > 0, "{environment:?}");
        assert!(environment.limits.contains_key("nofile"));
        assert_eq!(environment.versions.keys().collect::<Vec<_>>(), ["tollhouse"]);
    }
}
