//! The machine of a measurement: the use of its cores, and the facts that are printed beside a
//! figure so that a reader can judge it.

use super::plan::Plan;
use crate::shell;
use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use std::process::Command;

/// The core of the program under test, and the core of everything else.
pub(crate) struct Cores {
    pub(crate) proxy: usize,
    pub(crate) load: usize,
}

impl Cores {
    /// Chooses the first two cores that this program may use; a machine with one core shares it.
    pub(crate) fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("asking for the allowed cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let proxy = cores.next().context("no core is allowed")?;
        let load = cores.next().unwrap_or(proxy);
        if load == proxy {
            println!("only one core: load and proxy share it, figures are not comparable");
        }
        Ok(Self { proxy, load })
    }

    /// Moves this program to the core of the load.
    pub(crate) fn move_to_load(&self) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(self.load);
        sched_setaffinity(None, &set).context("moving to the core of the load")
    }

    /// Returns a command on the core of the proxy.
    pub(crate) fn on_proxy_core(&self, program: &str) -> Command {
        pinned(&self.proxy.to_string(), program)
    }

    /// Returns a command on the core of the load.
    pub(crate) fn on_load_core(&self, program: &str) -> Command {
        pinned(&self.load.to_string(), program)
    }

    /// Returns a command on both cores, one of which it shares with the load.
    pub(crate) fn on_both_cores(&self, program: &str) -> Command {
        pinned(&format!("{},{}", self.proxy, self.load), program)
    }
}

/// Returns a command pinned to cores. `taskset` replaces itself with the program, so that the
/// process is the program.
fn pinned(cores: &str, program: &str) -> Command {
    let found = shell::find_program(program);
    let program = found.map_or_else(|| program.to_owned(), |path| path.display().to_string());
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cores, &program]);
    command
}

/// Load generators, and the flag that prints their version.
const GENERATORS: [(&str, &str); 4] =
    [("wrk", "-v"), ("ab", "-V"), ("h2load", "--version"), ("ghz", "--version")];

/// Returns the facts that figures depend on: processor, kernel and versions.
pub(crate) fn describe(plan: &Plan) -> Result<Value> {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let online = processor.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut versions = serde_json::Map::new();
    for peer in &plan.peers {
        versions.insert(peer.name().to_owned(), json!(peer.version(&plan.binary)));
    }
    for (generator, flag) in GENERATORS {
        if shell::find_program(generator).is_some() {
            let version = first_line(&shell::capture_loosely(generator, &[flag]));
            versions.insert(generator.to_owned(), json!(version));
        }
    }
    Ok(json!({
        "cpu": cpu_model(&processor),
        "cores": online.max(cores),
        "kernel": kernel.trim(),
        "commit": commit(),
        "versions": versions,
    }))
}

fn cpu_model(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, model)| model.trim())
}

fn commit() -> String {
    shell::capture_loosely("git", &["describe", "--always", "--dirty"]).trim().to_owned()
}

/// Returns the first line that is not empty.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown").trim().to_owned()
}

/// Returns today's date in UTC as year, month and day with dashes.
pub(crate) fn today() -> Result<String> {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .context("the clock is before 1970")?;
    let (year, month, day) = date_of(since_epoch.as_secs() / 86_400);
    Ok(format!("{year:04}-{month:02}-{day:02}"))
}

/// Returns the date this number of days after 1 January 1970.
fn date_of(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut remaining = days;
    let mut year = 1970;
    while remaining >= 365 + u64::from(is_leap(year)) {
        remaining -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if remaining < length {
            break;
        }
        remaining -= length;
        month += 1;
    }
    (year, month, remaining + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let cases = [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_722, (2023, 12, 31)),
            (19_723, (2024, 1, 1)),
        ];
        for (days, expected) in cases {
            assert_eq!(date_of(days), expected, "{days}");
        }
    }

    #[test]
    fn the_processor_is_named() {
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Some CPU\n"), "Some CPU");
        assert_eq!(cpu_model(""), "unknown");
    }
}
