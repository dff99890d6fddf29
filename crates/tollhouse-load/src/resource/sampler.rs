//! Sampling thread. Between samples it waits on a channel, so that it ends promptly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tollhouse_testbed::Procfs;

use crate::error::BenchError;
use crate::resource::group::Group;
use crate::resource::kernel::{self, KernelTrack};
use crate::resource::machine::Machine;
use crate::resource::process::{self, Reading};
use crate::resource::{Latest, Selector, Watched, find};
use crate::result::{KernelSeries, ProcessSeries};

/// Default sampling interval: enough points for the chart of a ten-second run, at less than 1 % of
/// a core.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Minimum sampling interval. Faster sampling would measure the sampler itself, and the kernel
/// counts CPU in ticks of 10 ms.
const SAMPLE_EVERY_MIN: Duration = Duration::from_millis(50);
/// Interval at which all processes are searched again, to find new workers.
const SEARCH_EVERY: Duration = Duration::from_secs(2);
/// Maximum number of samples, four hours at two a second; beyond it, samples are merged pairwise
/// and the interval doubles.
const SAMPLES_MAX: usize = 28_800;
/// Maximum number of queued orders; a run sends two.
const ORDERS_MAX: usize = 4;

/// Samples processes and the kernel until finished.
#[derive(Debug)]
pub struct Sampler {
    orders: SyncSender<Order>,
    latest: Latest,
    thread: JoinHandle<(Vec<ProcessSeries>, KernelSeries)>,
}

#[derive(Debug)]
enum Order {
    /// The measurement began at this instant.
    Mark(Instant),
    Finish,
}

impl Sampler {
    /// Starts sampling. A port whose listener is not visible (on another machine, or of another
    /// user) yields an empty series.
    ///
    /// # Errors
    /// If a given process ID or command matches no process.
    pub fn start(watched: &[Watched], every: Duration) -> Result<Self, BenchError> {
        let procfs = Procfs::system();
        let own = std::process::id();
        let work = Work::begin(procfs, own, watched, every.max(SAMPLE_EVERY_MIN), Instant::now());
        if let Some(missing) = work.missing() {
            return Err(BenchError::Machine(missing));
        }
        let latest = work.latest.clone();
        let (orders, received) = sync_channel(ORDERS_MAX);
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || work.run(&received))
            .map_err(|error| BenchError::System {
                doing: "start the thread that samples resources".into(),
                error,
            })?;
        Ok(Self { orders, latest, thread })
    }

    /// Returns the latest sample of each process, shared with the sampling thread.
    pub fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Marks the start of the measurement; earlier resource use (warm-up) is excluded.
    pub fn mark_start(&self) {
        // Fails only if the thread has ended.
        let _ = self.orders.send(Order::Mark(Instant::now()));
    }

    /// Takes a last sample and returns the series since the mark or, without one, since the start.
    pub fn finish(self) -> (Vec<ProcessSeries>, KernelSeries) {
        let _ = self.orders.send(Order::Finish);
        self.thread.join().unwrap_or_default()
    }
}

/// A watched group with its current members.
struct Track {
    watched: Watched,
    roots: BTreeSet<u32>,
    members: BTreeSet<u32>,
    group: Group,
}

struct Work {
    procfs: Procfs,
    own: u32,
    machine: Machine,
    every: Duration,
    began: Instant,
    searched: Instant,
    tracks: Vec<Track>,
    kernel: KernelTrack,
    latest: Latest,
}

impl Work {
    fn begin(procfs: Procfs, own: u32, watched: &[Watched], every: Duration, now: Instant) -> Self {
        let machine = Machine::own();
        let track = |watched: &Watched| Track {
            watched: watched.clone(),
            roots: BTreeSet::new(),
            members: BTreeSet::new(),
            group: Group::begin(machine, &watched.role, 0),
        };
        let tracks = watched.iter().map(track).collect();
        let kernel = KernelTrack::begin(machine, kernel::read(&procfs));
        let mut work = Self {
            procfs,
            own,
            machine,
            every,
            began: now,
            searched: now,
            tracks,
            kernel,
            latest: Latest::default(),
        };
        work.mark(now);
        work
    }

    /// Returns an error message for the first named process that does not run.
    fn missing(&self) -> Option<String> {
        self.tracks.iter().filter(|track| track.members.is_empty()).find_map(|track| {
            let role = &track.watched.role;
            match &track.watched.what {
                Selector::Pid(pid) => Some(format!(
                    "process {pid}, to be watched as `{role}`, does not run; see `ps -e`"
                )),
                Selector::Pids(pids) => Some(format!(
                    "none of the processes {pids:?}, to be watched as `{role}`, runs; see `ps -e`"
                )),
                Selector::Command(name) => Some(format!(
                    "no process `{name}`, to be watched as `{role}`, runs; see `ps -ef`"
                )),
                Selector::Port(_) | Selector::Ports(_) | Selector::Own => None,
            }
        })
    }

    fn run(mut self, orders: &Receiver<Order>) -> (Vec<ProcessSeries>, KernelSeries) {
        let mut due = self.began + self.every;
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            match orders.recv_timeout(wait) {
                Ok(Order::Mark(at)) => {
                    self.mark(at);
                    due = at + self.every;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    self.sample(now);
                    due = (due + self.every).max(now);
                }
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.sample(Instant::now());
        let processes = self.tracks.into_iter().map(|track| track.group.finish()).collect();
        (processes, self.kernel.finish())
    }

    /// Discards all samples and starts again at an instant.
    fn mark(&mut self, at: Instant) {
        self.began = at;
        self.search(at);
        let begun_ticks = self.machine.ticks_since_boot();
        for track in &mut self.tracks {
            track.group = Group::begin(self.machine, &track.watched.role, begun_ticks);
            name(&self.procfs, track);
            track.group.zero(readings(&self.procfs, &track.members));
        }
        self.kernel = KernelTrack::begin(self.machine, kernel::read(&self.procfs));
    }

    fn sample(&mut self, now: Instant) {
        if now.saturating_duration_since(self.searched) >= SEARCH_EVERY {
            self.search(now);
        }
        let since = now.saturating_duration_since(self.began);
        let at_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        for track in &mut self.tracks {
            name(&self.procfs, track);
            track.group.add(at_ns, readings(&self.procfs, &track.members));
        }
        self.latest.set(self.tracks.iter().filter_map(|track| track.group.last()));
        self.kernel.add(at_ns, kernel::read(&self.procfs));
        if self.tracks.iter().any(|track| track.group.samples() >= SAMPLES_MAX) {
            self.tracks.iter_mut().for_each(|track| track.group.halve());
            self.kernel.halve();
            self.every *= 2;
        }
    }

    /// Updates the members of the groups. The owners of a port are searched again only when none of
    /// the known ones runs any more.
    fn search(&mut self, now: Instant) {
        self.searched = now;
        let table = tollhouse_testbed::table(&self.procfs);
        for track in &mut self.tracks {
            track.roots.retain(|pid| table.contains_key(pid));
            if track.roots.is_empty() {
                track.roots = find::roots(&self.procfs, &table, &track.watched.what, self.own);
            }
            track.members =
                find::with_descendants(&table, &track.watched.what, &track.roots, self.own);
        }
    }
}

fn readings(procfs: &Procfs, members: &BTreeSet<u32>) -> BTreeMap<u32, Reading> {
    members.iter().filter_map(|pid| Some((*pid, process::read(procfs, *pid)?))).collect()
}

/// Sets command and cores of the group from its first process.
fn name(procfs: &Procfs, track: &mut Track) {
    let Some(first) = track.roots.first().copied() else { return };
    track.group.name(|| match tollhouse_testbed::stat(procfs, first) {
        Some(stat) => (process::command(procfs, first, &stat), process::cores(procfs, first)),
        None => Default::default(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_sampled_from_the_mark_on() {
        let watched = [Watched::own(), Watched::new("target", Selector::Port(1))];
        let sampler = Sampler::start(&watched, SAMPLE_EVERY).expect("it runs");
        sampler.mark_start();
        let (processes, kernel) = sampler.finish();
        let own = &processes[0];
        assert_eq!(
            (own.role.as_str(), own.pids.as_slice()),
            ("generator", &[std::process::id()][..])
        );
        assert!(own.rss_bytes_max > 0 && own.command.contains("tollhouse"), "{own:?}");
        assert!(!own.samples.is_empty() && !kernel.at_ns.is_empty());
        assert!(processes[1].pids.is_empty(), "nobody listens on port 1");
    }

    #[test]
    fn a_process_that_does_not_run_is_an_error_with_its_role() {
        for what in [Selector::Pid(u32::MAX), Selector::Command("no such program".into())] {
            let watched = [Watched::new("gateway", what)];
            let error = Sampler::start(&watched, SAMPLE_EVERY).expect_err("nothing there");
            assert!(error.to_string().contains("`gateway`"), "{error}");
        }
    }

    #[test]
    fn a_child_is_found_by_its_port_and_its_number() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        // The child inherits the socket as its standard input; this process never counts.
        let port = listener.local_addr().expect("bound").port();
        let mut child = std::process::Command::new("tail")
            .args(["-f", "/dev/null"])
            .stdin(std::os::fd::OwnedFd::from(listener))
            .spawn()
            .expect("tail runs");
        let watched = [
            Watched::new("by port", Selector::Port(port)),
            Watched::new("by number", Selector::Pid(child.id())),
        ];
        let sampler = Sampler::start(&watched, SAMPLE_EVERY).expect("both run");
        let (processes, _) = sampler.finish();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        for series in &processes {
            assert_eq!(series.pids, [child.id()], "{}", series.role);
            assert!(series.command.contains("tail"), "{series:?}");
        }
    }
}
