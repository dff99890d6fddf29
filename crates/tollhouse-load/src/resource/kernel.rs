//! Kernel figures of the whole machine: sockets and their memory, retransmitted segments,
//! overflowed listen queues, CPU.

use tollhouse_testbed::Procfs;

use crate::resource::machine::Machine;
use crate::result::KernelSeries;

/// Counters and levels at an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct KernelReading {
    tcp_memory_pages: u64,
    tcp_sockets: u64,
    slab_bytes: u64,
    retransmits: u64,
    listen_overflows: u64,
    busy_ticks: u64,
    stolen_ticks: u64,
}

/// Reads the kernel's counters, such as those of sockets.
pub(super) fn read(procfs: &Procfs) -> KernelReading {
    let sockets = procfs.text("net/sockstat");
    let sockets_v6 = procfs.text("net/sockstat6");
    let (busy_ticks, stolen_ticks) = parse_cpu(&procfs.text("stat"));
    KernelReading {
        tcp_memory_pages: parse_pairs(&sockets, "TCP:", "mem"),
        tcp_sockets: parse_pairs(&sockets, "TCP:", "inuse")
            + parse_pairs(&sockets_v6, "TCP6:", "inuse"),
        slab_bytes: parse_slab(&procfs.text("meminfo")),
        retransmits: parse_table(&procfs.text("net/snmp"), "Tcp:", "RetransSegs"),
        listen_overflows: parse_table(&procfs.text("net/netstat"), "TcpExt:", "ListenOverflows"),
        busy_ticks,
        stolen_ticks,
    }
}

/// Returns a value from a line such as `TCP: inuse 2 orphan 0 tw 6 alloc 2 mem 208`; 0 if missing.
fn parse_pairs(text: &str, line: &str, key: &str) -> u64 {
    let found = text.lines().find_map(|text| text.strip_prefix(line));
    let mut words = found.unwrap_or_default().split_ascii_whitespace();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == key {
            return value.parse().unwrap_or(0);
        }
    }
    0
}

/// Returns a value from a table of two lines per kind: column names, then values.
fn parse_table(text: &str, kind: &str, column: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(kind));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut cells = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    cells.find(|(name, _)| *name == column).map_or(0, |(_, value)| value.parse().unwrap_or(0))
}

/// Returns the memory of kernel objects, which include sockets, their files and inodes.
fn parse_slab(text: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    let value = found.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0) * 1024
}

/// Returns the ticks in which the machine worked, and those its host gave to others, from the first
/// line of `stat`: user, nice, system, idle, iowait, hard and soft interrupts, steal, guest
/// (included in user).
fn parse_cpu(text: &str) -> (u64, u64) {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    (at(0) + at(1) + at(2) + at(5) + at(6), at(7))
}

/// Series of kernel counters, and the latest reading.
#[derive(Debug)]
pub(super) struct KernelTrack {
    machine: Machine,
    last: KernelReading,
    last_ns: u64,
    series: KernelSeries,
}

impl KernelTrack {
    /// Begins with the reading at the zero point.
    pub(super) fn begin(machine: Machine, first: KernelReading) -> Self {
        let series = KernelSeries {
            tcp_memory_bytes_at_start: first.tcp_memory_pages * machine.page_bytes,
            slab_bytes_at_start: first.slab_bytes,
            ..KernelSeries::default()
        };
        Self { machine, last: first, last_ns: 0, series }
    }

    /// Adds the next reading, unless its timestamp is that of the last reading.
    pub(super) fn add(&mut self, at_ns: u64, reading: KernelReading) {
        let span_ns = at_ns.saturating_sub(self.last_ns);
        if span_ns == 0 {
            return;
        }
        let cores = |now: u64, before: u64| {
            self.machine.seconds(now.saturating_sub(before)) * 1e9 / span_ns as f64
        };
        let series = &mut self.series;
        series.at_ns.push(at_ns);
        series.tcp_memory_bytes.push(reading.tcp_memory_pages * self.machine.page_bytes);
        series.tcp_sockets.push(reading.tcp_sockets);
        series.slab_bytes.push(reading.slab_bytes);
        series.retransmits.push(reading.retransmits.saturating_sub(self.last.retransmits));
        let overflows = reading.listen_overflows.saturating_sub(self.last.listen_overflows);
        series.listen_overflows.push(overflows);
        series.cpu_cores.push(cores(reading.busy_ticks, self.last.busy_ticks));
        series.stolen_cores.push(cores(reading.stolen_ticks, self.last.stolen_ticks));
        self.last = reading;
        self.last_ns = at_ns;
    }

    /// Merges entries pairwise, for a run longer than planned.
    pub(super) fn halve(&mut self) {
        let series = &mut self.series;
        halve(&mut series.at_ns, |_, second| second);
        for levels in
            [&mut series.tcp_memory_bytes, &mut series.tcp_sockets, &mut series.slab_bytes]
        {
            halve(levels, |_, second| second);
        }
        for counts in [&mut series.retransmits, &mut series.listen_overflows] {
            halve(counts, |first, second| first + second);
        }
        for rates in [&mut series.cpu_cores, &mut series.stolen_cores] {
            halve(rates, |first, second| (first + second) / 2.0);
        }
    }

    pub(super) fn finish(self) -> KernelSeries {
        self.series
    }
}

/// Joins neighbours pairwise; an odd last entry is kept.
pub(crate) fn halve<T: Clone>(values: &mut Vec<T>, join: impl Fn(T, T) -> T) {
    *values = values
        .chunks(2)
        .map(|pair| match pair {
            [first, second] => join(first.clone(), second.clone()),
            rest => rest[0].clone(),
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKSTAT: &str = "sockets: used 18\nTCP: inuse 2 orphan 0 tw 6 alloc 2 mem 208\n\
                            UDP: inuse 0 mem 0\nFRAG: inuse 0 memory 0\n";
    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
                        Tcp: RtoAlgorithm RtoMin RetransSegs InErrs\nTcp: 1 200 75474 0\n";

    #[test]
    fn values_are_found_by_their_names() {
        assert_eq!(parse_pairs(SOCKSTAT, "TCP:", "mem"), 208);
        assert_eq!(parse_pairs(SOCKSTAT, "UDP:", "mem"), 0);
        assert_eq!(parse_pairs("", "TCP:", "mem"), 0);
        assert_eq!(parse_table(SNMP, "Tcp:", "RetransSegs"), 75_474);
        assert_eq!(parse_table(SNMP, "Tcp:", "Absent"), 0);
        assert_eq!(parse_table("Tcp: OnlyNames\n", "Tcp:", "OnlyNames"), 0);
        assert_eq!(parse_slab("MemTotal: 1 kB\nSlab:  200 kB\nSReclaimable: 3 kB\n"), 204_800);
    }

    #[test]
    fn idle_and_waiting_are_no_work_and_guests_are_counted_once() {
        let text = "cpu  100 10 50 4000 70 5 6 9 33 1\ncpu0 1 1 1 1\n";
        assert_eq!(parse_cpu(text), (171, 9));
        assert_eq!(parse_cpu(""), (0, 0));
    }

    #[test]
    fn counters_become_differences_and_levels_stay() {
        let machine = Machine { page_bytes: 4096, ticks_per_second: 100 };
        let first = KernelReading { retransmits: 100, busy_ticks: 1_000, ..Default::default() };
        let mut track = KernelTrack::begin(machine, first);
        let second = KernelReading {
            tcp_memory_pages: 3,
            retransmits: 104,
            busy_ticks: 1_075,
            ..Default::default()
        };
        track.add(500_000_000, second);
        track.add(500_000_000, second);
        let series = track.finish();
        assert_eq!(series.at_ns, [500_000_000]);
        assert_eq!(series.tcp_memory_bytes, [12_288]);
        assert_eq!(series.retransmits, [4]);
        assert_eq!(series.cpu_cores, [1.5]);
    }

    #[test]
    fn the_machine_tells_its_counters() {
        let reading = read(&Procfs::system());
        assert!(reading.busy_ticks > 0 && reading.slab_bytes > 0, "{reading:?}");
    }
}
