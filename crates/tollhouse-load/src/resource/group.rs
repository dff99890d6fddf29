//! Resource use of a watched group over a case: computes sums and samples from readings of its
//! processes. Processes come and go: use before watching began is excluded, use before a process
//! ended is included.

use std::collections::{BTreeMap, BTreeSet};

use crate::resource::kernel::halve;
use crate::resource::machine::Machine;
use crate::resource::process::{Reading, Switches};
use crate::result::{ProcessSeries, ResourceSample};

/// Maximum number of processes listed by ID; the sums include all.
const PIDS_LISTED_MAX: usize = 1_000;

/// Processes that are sampled together, with the sums of their figures.
#[derive(Debug)]
pub(super) struct Group {
    machine: Machine,
    /// Zero point in ticks since boot; a process started later counts from its start.
    begun_ticks: u64,
    members: BTreeMap<u32, Reading>,
    totals: Totals,
    last_ns: u64,
    series: ProcessSeries,
    pids: BTreeSet<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    user_ticks: u64,
    system_ticks: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Totals {
    fn ticks(self) -> u64 {
        self.user_ticks + self.system_ticks
    }

    fn switches(self) -> u64 {
        self.voluntary + self.involuntary
    }
}

impl Group {
    /// Creates a group that begins at the zero point.
    pub(super) fn begin(machine: Machine, role: &str, begun_ticks: u64) -> Self {
        Self {
            machine,
            begun_ticks,
            members: BTreeMap::new(),
            totals: Totals::default(),
            last_ns: 0,
            series: ProcessSeries { role: role.to_owned(), ..ProcessSeries::default() },
            pids: BTreeSet::new(),
        }
    }

    /// Sets command and cores, once known.
    pub(super) fn name(&mut self, names: impl FnOnce() -> (String, String)) {
        if self.series.command.is_empty() {
            (self.series.command, self.series.cores) = names();
        }
    }

    /// Sets the readings at the zero point, which are subtracted from later ones.
    pub(super) fn zero(&mut self, readings: BTreeMap<u32, Reading>) {
        self.pids = readings.keys().copied().collect();
        self.members = readings;
        self.series.rss_bytes_at_start = self.rss_bytes();
        self.series.rss_bytes_max = self.series.rss_bytes_at_start;
    }

    /// Adds the next readings of all processes that still run.
    pub(super) fn add(&mut self, at_ns: u64, readings: BTreeMap<u32, Reading>) {
        let before = self.totals;
        for (pid, reading) in &readings {
            // A process ID may be reused for another process.
            let last = self
                .members
                .get(pid)
                .filter(|last| last.stat.started_ticks == reading.stat.started_ticks);
            match last {
                Some(last) => self.totals.add_difference(last, reading),
                None if reading.stat.started_ticks >= self.begun_ticks => {
                    self.totals.add_whole(reading);
                }
                None => {}
            }
        }
        self.pids.extend(readings.keys());
        self.members = readings;
        let rss_bytes = self.rss_bytes();
        self.series.rss_bytes_max = self.series.rss_bytes_max.max(rss_bytes);
        self.push_sample(at_ns, before, rss_bytes);
    }

    fn push_sample(&mut self, at_ns: u64, before: Totals, rss_bytes: u64) {
        let span_ns = at_ns.saturating_sub(self.last_ns);
        if span_ns == 0 {
            return;
        }
        let seconds = self.machine.seconds(self.totals.ticks() - before.ticks());
        self.series.samples.push(ResourceSample {
            at_ns,
            cpu_cores: seconds * 1e9 / span_ns as f64,
            rss_bytes,
            threads: self.members.values().map(|member| member.stat.threads).sum(),
            descriptors: self.members.values().map(|member| member.descriptors).sum(),
            switches: self.totals.switches() - before.switches(),
        });
        self.last_ns = at_ns;
    }

    fn rss_bytes(&self) -> u64 {
        self.members.values().map(|member| member.rss_bytes).sum()
    }

    /// Returns the role and the last sample.
    pub(super) fn last(&self) -> Option<(&str, &ResourceSample)> {
        self.series.samples.last().map(|sample| (self.series.role.as_str(), sample))
    }

    /// Merges samples pairwise, for a run longer than planned.
    pub(super) fn halve(&mut self) {
        halve(&mut self.series.samples, |first, second| ResourceSample {
            cpu_cores: (first.cpu_cores + second.cpu_cores) / 2.0,
            switches: first.switches + second.switches,
            ..second
        });
    }

    pub(super) fn samples(&self) -> usize {
        self.series.samples.len()
    }

    /// Returns the series with its sums.
    pub(super) fn finish(mut self) -> ProcessSeries {
        self.series.user_seconds = self.machine.seconds(self.totals.user_ticks);
        self.series.system_seconds = self.machine.seconds(self.totals.system_ticks);
        self.series.voluntary_switches = self.totals.voluntary;
        self.series.involuntary_switches = self.totals.involuntary;
        self.series.pids = self.pids.into_iter().take(PIDS_LISTED_MAX).collect();
        self.series
    }
}

impl Totals {
    fn add_difference(&mut self, last: &Reading, now: &Reading) {
        self.user_ticks += now.stat.user_ticks.saturating_sub(last.stat.user_ticks);
        self.system_ticks += now.stat.system_ticks.saturating_sub(last.stat.system_ticks);
        for (thread, switches) in &now.switches {
            let before = last.switches.get(thread).copied().unwrap_or_default();
            self.add_switches(*switches, before);
        }
    }

    fn add_whole(&mut self, now: &Reading) {
        self.user_ticks += now.stat.user_ticks;
        self.system_ticks += now.stat.system_ticks;
        for switches in now.switches.values() {
            self.add_switches(*switches, Switches::default());
        }
    }

    fn add_switches(&mut self, now: Switches, before: Switches) {
        self.voluntary += now.voluntary.saturating_sub(before.voluntary);
        self.involuntary += now.involuntary.saturating_sub(before.involuntary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_testbed::Stat;

    const MACHINE: Machine = Machine { page_bytes: 4096, ticks_per_second: 100 };
    const HALF_SECOND_NS: u64 = 500_000_000;

    fn reading(started_ticks: u64, user_ticks: u64, rss_bytes: u64, voluntary: u64) -> Reading {
        let stat = Stat {
            name: "x".into(),
            state: 'S',
            parent: 1,
            children_ticks: 0,
            user_ticks,
            system_ticks: 0,
            threads: 2,
            started_ticks,
        };
        let switches = [(7, Switches { voluntary, involuntary: 1 })].into();
        Reading { stat, rss_bytes, descriptors: 5, switches }
    }

    fn group() -> Group {
        Group::begin(MACHINE, "target", 1_000)
    }

    #[test]
    fn only_what_is_used_after_the_zero_point_counts() {
        let mut group = group();
        group.zero([(5, reading(10, 400, 1_000, 50))].into());
        group.add(HALF_SECOND_NS, [(5, reading(10, 425, 3_000, 60))].into());
        group.add(2 * HALF_SECOND_NS, [(5, reading(10, 475, 2_000, 61))].into());
        let series = group.finish();
        assert_eq!((series.user_seconds, series.rss_bytes_max), (0.75, 3_000));
        assert_eq!((series.voluntary_switches, series.involuntary_switches), (11, 0));
        let cores: Vec<f64> = series.samples.iter().map(|sample| sample.cpu_cores).collect();
        assert_eq!(cores, [0.5, 1.0]);
        assert_eq!(series.samples[1].threads, 2);
    }

    #[test]
    fn a_worker_that_appears_counts_from_its_birth_and_an_old_one_from_its_discovery() {
        let mut group = group();
        group.zero([(5, reading(10, 0, 0, 0))].into());
        let young = reading(1_001, 30, 10, 2);
        let old = reading(900, 5_000, 10, 9_000);
        group.add(HALF_SECOND_NS, [(5, reading(10, 0, 0, 0)), (6, young), (7, old)].into());
        let series = group.finish();
        assert_eq!((series.user_seconds, series.voluntary_switches), (0.3, 2));
        assert_eq!(series.pids, [5, 6, 7]);
    }

    #[test]
    fn what_a_process_used_before_it_ended_stays_counted() {
        let mut group = group();
        group.zero([(5, reading(10, 0, 70, 0))].into());
        group.add(HALF_SECOND_NS, [(5, reading(10, 50, 80, 0))].into());
        group.add(2 * HALF_SECOND_NS, BTreeMap::new());
        let series = group.finish();
        assert_eq!((series.user_seconds, series.rss_bytes_max), (0.5, 80));
        assert_eq!(series.samples[1].rss_bytes, 0);
    }

    #[test]
    fn a_number_that_comes_again_is_another_process() {
        let mut group = group();
        group.zero([(5, reading(10, 900, 0, 0))].into());
        group.add(HALF_SECOND_NS, [(5, reading(1_020, 10, 0, 0))].into());
        assert_eq!(group.finish().user_seconds, 0.1);
    }

    #[test]
    fn halving_keeps_sums_and_ends() {
        let mut group = group();
        group.zero([(5, reading(10, 0, 0, 0))].into());
        for step in 1..=3_u64 {
            let now = reading(10, 10 * step, step, 4 * step);
            group.add(step * HALF_SECOND_NS, [(5, now)].into());
        }
        group.halve();
        assert_eq!(group.samples(), 2);
        let samples = group.finish().samples;
        assert_eq!((samples[0].at_ns, samples[0].switches), (2 * HALF_SECOND_NS, 8));
        assert_eq!(samples[1].at_ns, 3 * HALF_SECOND_NS);
    }
}
