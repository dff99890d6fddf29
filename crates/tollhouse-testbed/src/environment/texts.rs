//! Parsers of the files in which the system describes itself, and formatters for reports.

/// Formats the short name of a machine: `2C4G`, or in megabytes below one gigabyte: `1C512M`.
pub(super) fn label(cores: u64, memory_bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    // Rounded, because the kernel reserves a part: a machine sold with 16 GiB shows 15.6.
    match (memory_bytes + GIB / 2) / GIB {
        0 => format!("{cores}C{}M", memory_bytes / MIB),
        gigabytes => format!("{cores}C{gigabytes}G"),
    }
}

/// Returns the CPU model, or the architecture if the kernel reports none.
pub(super) fn cpu_model(cpuinfo: &str) -> String {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    ["model name", "Model", "Hardware", "cpu model"]
        .into_iter()
        .find_map(value)
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Whether the machine is virtual, so that others may share its cores.
pub(super) fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns the installed memory in bytes.
pub(super) fn memory_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Returns distribution, kernel and architecture in one line.
pub(super) fn kernel(os_release: &str, os_type: &str, release: &str) -> String {
    let pretty = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let distribution = pretty.map_or("", |name| name.trim_matches('"'));
    let kernel = format!("{os_type} {release} {}", std::env::consts::ARCH);
    if distribution.is_empty() { kernel } else { format!("{distribution}, {kernel}") }
}

/// Returns the three averages of `loadavg`.
pub(super) fn load_average(text: &str) -> String {
    text.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the soft and the hard limit of open files as text.
pub(super) fn descriptors_text() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let shown =
        |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| value.to_string());
    format!("{} (hard {})", shown(limit.current), shown(limit.maximum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_called_by_cores_and_memory() {
        const MIB: u64 = 1 << 20;
        for (cores, memory_mib, expected) in
            [(8, 15_900, "8C16G"), (2, 4_096, "2C4G"), (2, 24_105, "2C24G"), (1, 480, "1C480M")]
        {
            assert_eq!(label(cores, memory_mib * MIB), expected);
        }
    }

    #[test]
    fn a_cpu_is_called_what_the_kernel_calls_it() {
        assert_eq!(cpu_model("processor : 0\nmodel name : Xeon @ 3 GHz\n"), "Xeon @ 3 GHz");
        assert_eq!(cpu_model("Hardware\t: BCM2835\nModel\t: Pi 4\n"), "Pi 4");
        assert_eq!(cpu_model(""), std::env::consts::ARCH);
    }

    #[test]
    fn a_virtual_machine_says_so() {
        assert!(is_virtual("flags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("flags\t\t: fpu hypervisors\n"));
    }

    #[test]
    fn a_kernel_without_a_distribution_is_named_alone() {
        assert!(kernel("", "Linux", "6.1").starts_with("Linux 6.1 "));
        assert_eq!(memory_bytes("MemTotal: x kB"), 0);
    }
}
