//! Parser of `/proc/<pid>/stat`, and figures of a process that are read only at the end of a
//! measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Procfs;

/// Content of `/proc/<pid>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name of the program, cut to 15 bytes by the kernel.
    pub name: String,
    /// State: `R`, `S`, …; `Z` for a zombie.
    pub state: char,
    /// Process ID of the parent.
    pub parent: u32,
    /// CPU time in user mode, in ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, in ticks.
    pub system_ticks: u64,
    /// CPU time of ended children that were waited for, in user mode and in the kernel, in ticks.
    pub children_ticks: u64,
    /// Number of threads.
    pub threads: u64,
    /// Start time in ticks since boot; unique in combination with the process ID.
    pub started_ticks: u64,
}

/// All processes by ID, with their `stat`.
pub type Table = BTreeMap<u32, Stat>;

/// Parses `stat`. The name is in parentheses and may itself contain parentheses, so that it ends at
/// the last one.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    // The manual numbers fields from 1, beginning with process ID and name.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        children_ticks: number(16)? + number(17)?,
        threads: number(20)?,
        started_ticks: number(22)?,
    })
}

/// Reads `stat` of a running process.
pub fn stat(procfs: &Procfs, pid: u32) -> Option<Stat> {
    parse_stat(&procfs.text(&format!("{pid}/stat"))).filter(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Reads the list of processes.
pub fn table(procfs: &Procfs) -> Table {
    procfs.numbers("").filter_map(|pid| Some((pid, stat(procfs, pid)?))).collect()
}

/// Returns a process and its descendants.
pub(crate) fn family(procfs: &Procfs, pid: u32) -> Vec<u32> {
    let table = table(procfs);
    let mut family = vec![pid];
    let mut index = 0;
    while let Some(parent) = family.get(index).copied() {
        family.extend(table.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        index += 1;
    }
    family
}

/// Returns the CPU time of processes, user and kernel. The scheduler's own count is exact and
/// preferred to ticks of a hundredth of a second, if the kernel keeps it.
pub(crate) fn cpu_time(procfs: &Procfs, pids: &[u32]) -> Duration {
    let exact: Option<u64> = pids.iter().map(|pid| scheduled_nanoseconds(procfs, *pid)).sum();
    if let Some(nanoseconds) = exact.filter(|nanoseconds| *nanoseconds > 0) {
        return Duration::from_nanos(nanoseconds);
    }
    let stats = pids.iter().filter_map(|pid| stat(procfs, *pid));
    ticks(stats.map(|stat| stat.user_ticks + stat.system_ticks).sum())
}

/// Returns the CPU time of all children that this process has waited for, user and kernel.
pub(crate) fn waited_cpu_time(procfs: &Procfs) -> Duration {
    ticks(stat(procfs, std::process::id()).map_or(0, |stat| stat.children_ticks))
}

fn ticks(count: u64) -> Duration {
    Duration::from_micros(count * 1_000_000 / rustix::param::clock_ticks_per_second())
}

/// Returns the CPU time of all threads of a process, from `task/<tid>/schedstat`.
fn scheduled_nanoseconds(procfs: &Procfs, pid: u32) -> Option<u64> {
    let folder = format!("{pid}/task");
    let tasks = procfs.numbers(&folder);
    let nanoseconds = |task: u32| -> Option<u64> {
        procfs.text(&format!("{folder}/{task}/schedstat")).split(' ').next()?.parse().ok()
    };
    tasks.map(nanoseconds).sum()
}

/// Returns the user-space memory of processes, with shared pages counted in proportion.
pub(crate) fn memory_bytes(procfs: &Procfs, pids: &[u32]) -> u64 {
    let kibibytes = |pid: &u32| -> Option<u64> {
        let text = procfs.text(&format!("{pid}/smaps_rollup"));
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    pids.iter().filter_map(kibibytes).sum::<u64>() * 1024
}

/// Returns the peak of the resident memory of processes since their peaks were last reset. The kernel
/// maintains it, so that reading it costs the processes nothing.
pub(crate) fn peak_memory_bytes(procfs: &Procfs, pids: &[u32]) -> u64 {
    let kibibytes = |pid: &u32| -> Option<u64> {
        let text = procfs.text(&format!("{pid}/status"));
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    pids.iter().filter_map(kibibytes).sum::<u64>() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name_contains() {
        let rest = "S 1 7082 2621 0 -1 4194304 99 0 0 0 150 30 5 6 20 0 4 0 2295623 3133440 394";
        for name in ["cat", "tmux: server", "(sd-pam)", "a) R 9 9", "", "Web Content"] {
            let stat = parse_stat(&format!("7115 ({name}) {rest} 0 0\n")).expect(name);
            let expected = Stat {
                name: name.into(),
                state: 'S',
                parent: 1,
                user_ticks: 150,
                system_ticks: 30,
                children_ticks: 11,
                threads: 4,
                started_ticks: 2_295_623,
            };
            assert_eq!(stat, expected);
        }
    }

    #[test]
    fn a_cut_stat_is_none() {
        for text in ["", "12", "12 (a", "12 (a) S 1 2", "12 a S 1 1 1 1", "1 (a) S x y"] {
            assert_eq!(parse_stat(text), None, "{text}");
        }
    }
}
