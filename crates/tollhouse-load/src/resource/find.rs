//! Resolves selectors to running processes. Finding the owner of a port scans the descriptors of
//! all processes, so that it is done rarely; finding descendants scans the list of processes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::resource::process::{self, Stat};
use crate::resource::{Procfs, Selector};

/// State code of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// All processes by ID, with their `stat`.
pub(super) type Table = BTreeMap<u32, Stat>;

/// Reads all processes with their statistics.
pub(super) fn table(procfs: &Procfs) -> Table {
    procfs.numbers("").filter_map(|pid| Some((pid, process::stat(procfs, pid)?))).collect()
}

/// Returns the processes the selector names directly, without their descendants.
pub(super) fn roots(procfs: &Procfs, table: &Table, what: &Selector, own: u32) -> BTreeSet<u32> {
    match what {
        Selector::Own => BTreeSet::from([own]),
        Selector::Pid(pid) => table.contains_key(pid).then_some(*pid).into_iter().collect(),
        Selector::Pids(pids) => {
            pids.iter().copied().filter(|pid| table.contains_key(pid)).collect()
        }
        Selector::Port(port) => listeners(procfs, table, &[*port], own),
        Selector::Ports(ports) => listeners(procfs, table, ports, own),
        Selector::Command(name) => by_command(procfs, table, name, own),
    }
}

/// Returns the roots with all their descendants. This process and its children do not count as
/// descendants of the shell they were started from, unless named directly.
pub(super) fn with_descendants(
    table: &Table,
    what: &Selector,
    roots: &BTreeSet<u32>,
    own: u32,
) -> BTreeSet<u32> {
    if *what == Selector::Own {
        return roots.clone();
    }
    let belongs = |pid: u32| {
        let mut at = pid;
        // A chain of parents is never longer than the table.
        for _ in 0..=table.len() {
            if roots.contains(&at) {
                return true;
            }
            match table.get(&at) {
                Some(stat) if at != own && stat.parent != 0 => at = stat.parent,
                _ => return false,
            }
        }
        false
    };
    let is_own = |pid: u32| pid == own && !roots.contains(&pid);
    table.keys().copied().filter(|pid| !is_own(*pid) && belongs(*pid)).collect()
}

/// Returns the processes that listen on one of the ports.
fn listeners(procfs: &Procfs, table: &Table, ports: &[u16], own: u32) -> BTreeSet<u32> {
    let mut inodes = listening_inodes(&procfs.text("net/tcp"), ports);
    inodes.extend(listening_inodes(&procfs.text("net/tcp6"), ports));
    if inodes.is_empty() {
        return BTreeSet::new();
    }
    let wanted: HashSet<String> =
        inodes.into_iter().map(|inode| format!("socket:[{inode}]")).collect();
    let listens = |pid: &u32| {
        let mut links = procfs.descriptor_links(*pid);
        links.any(|link| link.to_str().is_some_and(|link| wanted.contains(link)))
    };
    table.keys().copied().filter(|pid| *pid != own).filter(listens).collect()
}

/// Returns the inodes of sockets that listen on one of the ports, from `/proc/net/tcp` or `tcp6`.
fn listening_inodes(text: &str, ports: &[u16]) -> BTreeSet<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let matches = ports.contains(&u16::from_str_radix(local_port, 16).ok()?);
        (matches && *fields.get(3)? == LISTENING).then(|| fields.get(9)?.parse().ok())?
    };
    text.lines().skip(1).filter_map(inode).collect()
}

/// Returns the processes whose program has this name; without any, those whose command line
/// contains it. This process and its ancestors are excluded, because their command lines name the
/// programs they start.
fn by_command(procfs: &Procfs, table: &Table, name: &str, own: u32) -> BTreeSet<u32> {
    let ancestors = ancestors(table, own);
    let others: Vec<(u32, &Stat)> = table
        .iter()
        .map(|(pid, stat)| (*pid, stat))
        .filter(|(pid, _)| !ancestors.contains(pid))
        .collect();
    let is_program = |pid: u32, stat: &Stat| {
        let command = process::command(procfs, pid, stat);
        let program = command.split(' ').next().unwrap_or_default();
        stat.name == name || program.rsplit('/').next() == Some(name)
    };
    let exact: BTreeSet<u32> =
        others.iter().filter(|(pid, stat)| is_program(*pid, stat)).map(|(pid, _)| *pid).collect();
    if !exact.is_empty() {
        return exact;
    }
    others
        .iter()
        .filter(|(pid, stat)| process::command(procfs, *pid, stat).contains(name))
        .map(|(pid, _)| *pid)
        .collect()
}

/// Returns a process and its ancestors.
fn ancestors(table: &Table, pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut at = pid;
    while found.insert(at) {
        match table.get(&at) {
            Some(stat) => at = stat.parent,
            None => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET_TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
   0: 0100007F:2378 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0\n\
   1: 0100007F:2378 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0\n\
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 80 1 0000000000000000 100 0 0 10 0\n\
   broken line\n";

    fn stat(name: &str, parent: u32) -> Stat {
        Stat {
            name: name.into(),
            state: 'S',
            parent,
            user_ticks: 0,
            system_ticks: 0,
            threads: 1,
            started_ticks: 0,
        }
    }

    /// A shell (10) that started a server (20, workers 21 and 22) and this process (30, child 31).
    fn processes() -> Table {
        Table::from([
            (1, stat("init", 0)),
            (10, stat("bash", 1)),
            (20, stat("nginx", 10)),
            (21, stat("nginx", 20)),
            (22, stat("nginx", 20)),
            (30, stat("tollhouse", 10)),
            (31, stat("tollhouse", 30)),
        ])
    }

    fn fake(commands: &[(u32, &str)], sockets: &[(u32, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(root.path().join("net")).expect("directory");
        std::fs::write(root.path().join("net/tcp"), NET_TCP).expect("file");
        for (pid, command) in commands {
            let of_process = root.path().join(pid.to_string());
            std::fs::create_dir_all(of_process.join("fd")).expect("directory");
            std::fs::write(of_process.join("cmdline"), command.replace(' ', "\0")).expect("file");
        }
        for (pid, inode) in sockets {
            let link = root.path().join(format!("{pid}/fd/7"));
            std::os::unix::fs::symlink(format!("socket:[{inode}]"), link).expect("link");
        }
        root
    }

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        assert_eq!(listening_inodes(NET_TCP, &[9080]), BTreeSet::from([4711]));
        assert_eq!(listening_inodes(NET_TCP, &[80]), BTreeSet::from([80]));
        assert_eq!(listening_inodes(NET_TCP, &[81]), BTreeSet::new());
        assert_eq!(listening_inodes(NET_TCP, &[80, 81, 9080]), BTreeSet::from([80, 4711]));
    }

    #[test]
    fn a_port_finds_every_process_that_holds_its_socket() {
        let commands = [(20, "nginx"), (21, "nginx"), (22, "nginx"), (30, "tollhouse")];
        let root = fake(&commands, &[(20, 4711), (21, 4711), (22, 80), (30, 4711)]);
        let procfs = Procfs::at(root.path());
        let found = roots(&procfs, &processes(), &Selector::Port(9080), 30);
        assert_eq!(found, BTreeSet::from([20, 21]));
    }

    #[test]
    fn a_command_is_a_program_first_and_a_part_of_the_line_otherwise() {
        let commands = [
            (10, "bash -c nginx;java;tollhouse"),
            (20, "nginx: master process /usr/sbin/nginx"),
            (21, "/usr/bin/java -jar shenyu-bootstrap.jar"),
            (22, "/usr/bin/java -jar admin.jar"),
            (30, "tollhouse bench --watch gateway=command:shenyu"),
        ];
        let root = fake(&commands, &[]);
        let procfs = Procfs::at(root.path());
        let mut table = processes();
        for pid in [21, 22] {
            table.insert(pid, stat("java", 1));
        }
        let found = |name: &str| {
            let found = roots(&procfs, &table, &Selector::Command(name.into()), 30);
            Vec::from_iter(found)
        };
        assert_eq!(found("nginx"), [20]);
        assert_eq!(found("java"), [21, 22]);
        assert_eq!(found("shenyu"), [21]);
        assert_eq!(found("absent"), Vec::<u32>::new());
    }

    #[test]
    fn descendants_belong_to_it_but_never_what_the_generator_started() {
        let table = processes();
        let of = |what: Selector, root: u32| {
            Vec::from_iter(with_descendants(&table, &what, &BTreeSet::from([root]), 30))
        };
        assert_eq!(of(Selector::Pid(20), 20), [20, 21, 22]);
        assert_eq!(of(Selector::Pid(10), 10), [10, 20, 21, 22]);
        assert_eq!(of(Selector::Pid(31), 31), [31]);
        assert_eq!(of(Selector::Own, 30), [30]);
    }

    #[test]
    fn parents_in_a_circle_end_the_search() {
        let table = Table::from([(5, stat("a", 6)), (6, stat("b", 5))]);
        let found = with_descendants(&table, &Selector::Pid(9), &BTreeSet::from([9]), 1);
        assert!(found.is_empty());
        assert_eq!(ancestors(&table, 5), BTreeSet::from([5, 6]));
    }
}
