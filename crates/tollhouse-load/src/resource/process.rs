//! Kernel figures of one process: `stat`, the `status` of its threads, its command line.

use std::collections::HashMap;

use crate::resource::Procfs;

/// Maximum number of threads whose context switches are read, because each costs reading a file per
/// sample.
const THREADS_ASKED_MAX: usize = 1_024;

/// Fields of `/proc/<pid>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    /// Name of the program, cut to 15 bytes by the kernel.
    pub(super) name: String,
    /// State: `R`, `S`, …; `Z` for a zombie.
    pub(super) state: char,
    pub(super) parent: u32,
    /// CPU time in user mode, in ticks.
    pub(super) user_ticks: u64,
    /// CPU time in the kernel, in ticks.
    pub(super) system_ticks: u64,
    pub(super) threads: u64,
    /// Start time in ticks since boot; unique in combination with the process ID.
    pub(super) started_ticks: u64,
}

/// Context switches of a thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

/// Resource use of a process so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) stat: Stat,
    pub(super) rss_bytes: u64,
    pub(super) descriptors: u64,
    /// By thread, so that the counts of ended threads are kept apart.
    pub(super) switches: HashMap<u32, Switches>,
}

/// Parses `stat`. The name is in parentheses and may itself contain parentheses, so that it ends at
/// the last one.
pub(super) fn parse_stat(text: &str) -> Option<Stat> {
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
        threads: number(20)?,
        started_ticks: number(22)?,
    })
}

/// Returns resident memory and context switches from a thread's `status`. Kernel threads have no
/// memory.
pub(super) fn parse_status(text: &str) -> (u64, Switches) {
    let value = |line: &str| line.split_ascii_whitespace().next()?.parse::<u64>().ok();
    let mut rss_bytes = 0;
    let mut switches = Switches::default();
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(':') else { continue };
        let into = match key {
            "VmRSS" => &mut rss_bytes,
            "voluntary_ctxt_switches" => &mut switches.voluntary,
            "nonvoluntary_ctxt_switches" => &mut switches.involuntary,
            _ => continue,
        };
        *into = value(rest).unwrap_or(0);
    }
    (rss_bytes * 1024, switches)
}

/// Returns the command line as text; for a process without one, the name in brackets.
pub(super) fn command(procfs: &Procfs, pid: u32, stat: &Stat) -> String {
    let text = procfs.text(&format!("{pid}/cmdline"));
    let line = text.trim_end_matches(['\0', ' ']).replace('\0', " ");
    if line.is_empty() { format!("[{}]", stat.name) } else { line }
}

/// Returns the cores a process may run on, in the kernel's list format.
pub(super) fn cores(procfs: &Procfs, pid: u32) -> String {
    let status = procfs.text(&format!("{pid}/status"));
    let listed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    listed.unwrap_or_default().trim().to_owned()
}

/// Reads `stat` of a running process.
pub(super) fn stat(procfs: &Procfs, pid: u32) -> Option<Stat> {
    parse_stat(&procfs.text(&format!("{pid}/stat"))).filter(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Reads a process; `None` if it has ended.
pub(super) fn read(procfs: &Procfs, pid: u32) -> Option<Reading> {
    let stat = stat(procfs, pid)?;
    let mut rss_bytes = 0;
    let mut switches = HashMap::with_capacity(stat.threads as usize);
    for thread in procfs.numbers(&format!("{pid}/task")).take(THREADS_ASKED_MAX) {
        let (rss, of_thread) = parse_status(&procfs.text(&format!("{pid}/task/{thread}/status")));
        // A thread that ends in between reports no memory.
        rss_bytes = rss_bytes.max(rss);
        switches.insert(thread, of_thread);
    }
    Some(Reading { rss_bytes, descriptors: procfs.descriptors(pid), switches, stat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name_contains() {
        let rest = "S 1 7082 2621 0 -1 4194304 99 0 0 0 150 30 0 0 20 0 4 0 2295623 3133440 394";
        for name in ["cat", "tmux: server", "(sd-pam)", "a) R 9 9", "", "Web Content"] {
            let stat = parse_stat(&format!("7115 ({name}) {rest} 0 0\n")).expect(name);
            let expected = Stat {
                name: name.into(),
                state: 'S',
                parent: 1,
                user_ticks: 150,
                system_ticks: 30,
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

    #[test]
    fn a_status_gives_memory_and_switches() {
        let text = "Name:\tnginx\nVmPeak:\t  9000 kB\nVmRSS:\t    4096 kB\nThreads:\t1\n\
                    voluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n";
        let switches = Switches { voluntary: 17, involuntary: 3 };
        assert_eq!(parse_status(text), (4_194_304, switches));
        assert_eq!(parse_status("Name:\tkthreadd\n"), (0, Switches::default()));
        assert_eq!(parse_status("VmRSS: many kB"), (0, Switches::default()));
    }

    #[test]
    fn this_process_is_read() {
        let reading = read(&Procfs::system(), std::process::id()).expect("it runs");
        assert!(reading.rss_bytes > 100_000 && reading.descriptors >= 3, "{reading:?}");
        assert_eq!(reading.stat.threads > 0, !reading.switches.is_empty());
        let cores = cores(&Procfs::system(), std::process::id());
        assert!(cores.starts_with(|first: char| first.is_ascii_digit()), "{cores}");
    }

    #[test]
    fn a_process_that_has_ended_is_none() {
        assert_eq!(read(&Procfs::system(), u32::MAX), None);
    }
}
