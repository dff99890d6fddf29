//! Runs a case: checks the target, starts the workers, collects their intervals, and merges their
//! records.
//!
//! The calling thread coordinates and reports progress; it carries no load.

mod follow;
mod thread;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::case::{AtEnd, Case, Protocol as Name};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::preflight;
use crate::protocol::grpc::Grpc;
use crate::protocol::http1::Http1;
use crate::protocol::http2::Http2;
use crate::protocol::tcp::Tcp;
use crate::protocol::websocket::WebSocket;
use crate::protocol::{Lane, Protocol};
use crate::record::Samples;
use crate::resource::{SAMPLE_EVERY, Sampler, Usage, Watched};
use crate::result::{CaseResult, Counts, Interval};
use crate::schedule::Schedule;
use crate::target::{Endpoint, Target};
use crate::worker::{Setup, Worker};
use tollhouse_net::clock::Clock;

use follow::Follower;

/// Bounds of the interval length of a series: at least two ticks of a worker, at most one second so
/// that progress stays current.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Approximate number of points for a short run.
const INTERVALS_WANTED: u32 = 40;
/// Maximum number of queued events per worker, enough for some seconds in which the terminal
/// blocks. An interval that does not fit is added to the next one.
const EVENTS_PER_WORKER_MAX: usize = 16;

/// Settings of a run in addition to its case.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Processes to watch; the generator itself is always included.
    pub watch: Vec<Watched>,
    /// Signal that ends the run early.
    pub stop: Stop,
}

/// Signal that ends a run early; clones share it. The result covers the time until then.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the operator asked to end the run.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Progress of a run, reported after every interval.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Duration since the current phase (warm-up or measurement) began.
    pub elapsed: Duration,
    /// Planned duration of the phase, if time ends it.
    pub planned: Option<Duration>,
    /// Planned number of measured requests, if a count ends the phase.
    pub planned_requests: Option<u64>,
    /// Whether the run is still in its warm-up, so that nothing is recorded.
    pub is_warming_up: bool,
    pub last: &'a Interval,
    /// Intervals measured so far, in order.
    pub series: &'a [Interval],
    /// Counts so far; only the sums, without classes and messages.
    pub counts: &'a Counts,
    /// Headline times so far, in nanoseconds.
    pub so_far: &'a Histogram<u64>,
    /// Mean of the headline times in the warm-up, if any request succeeded there.
    pub warm_up_mean: Option<Duration>,
    /// Recent failure, as an example.
    pub last_failure: Option<&'a Failure>,
    /// Latest resource use of the generator and the watched processes.
    pub usage: &'a [Usage],
}

/// Data shared by all worker threads of a run.
struct Shared<P> {
    protocol: Arc<P>,
    schedule: Arc<Schedule>,
    clock: Clock,
    case: Case,
    interval: Duration,
    stop: Stop,
}

/// Runs a case to its end and returns the result.
///
/// # Errors
/// If the case is invalid, the target cannot be used, or the machine's limits are too low.
pub fn run(
    case: &Case,
    settings: &Settings,
    observe: &mut dyn FnMut(&Progress<'_>),
) -> Result<CaseResult, BenchError> {
    case.validate()?;
    let target = Target::try_from_case(case)?;
    match case.protocol() {
        Name::Http1 => run_over::<Http1>(case, &target, settings, observe),
        Name::Http2 => run_over::<Http2>(case, &target, settings, observe),
        Name::Grpc => run_over::<Grpc>(case, &target, settings, observe),
        Name::WebSocket => run_over::<WebSocket>(case, &target, settings, observe),
        Name::Tcp => run_over::<Tcp>(case, &target, settings, observe),
    }
}

fn run_over<P: Protocol>(
    case: &Case,
    target: &Target,
    settings: &Settings,
    observe: &mut dyn FnMut(&Progress<'_>),
) -> Result<CaseResult, BenchError> {
    let notes = preflight::check(case.load.connections as u64, destinations(target))?;
    let protocol = Arc::new(P::prepare(case, target)?);
    let clock = Clock::start();
    let schedule = Arc::new(Schedule::new(&case.load));
    // Before threads, samplers and clock are started: an unreachable target ends with one line and
    // no figures.
    try_target(&protocol, case, target, clock, &schedule)?;
    let shared = Arc::new(Shared {
        protocol,
        schedule,
        clock,
        case: case.clone(),
        interval: interval_of(case),
        stop: settings.stop.clone(),
    });
    let watched: Vec<Watched> =
        std::iter::once(Watched::own()).chain(settings.watch.iter().cloned()).collect();
    let sampler = Sampler::start(&watched, SAMPLE_EVERY.min(shared.interval))?;
    let workers = workers_of(case);
    let (events, inbox) = mpsc::sync_channel(workers * EVENTS_PER_WORKER_MAX);
    let begin = tokio::sync::watch::Sender::new(false);
    let mut threads = Vec::new();
    for index in 0..workers {
        let shared = Arc::clone(&shared);
        let lane =
            thread::Place { index, workers, events: events.clone(), begin: begin.subscribe() };
        let builder = std::thread::Builder::new().name(format!("load-{index}"));
        let spawned = builder.spawn(move || thread::main(&shared, lane));
        threads.push(spawned.map_err(|error| system("starting a worker thread", error))?);
    }
    // The channel must close with the last worker, so that the coordinator's loop ends.
    drop(events);
    let mut follower = Follower::new(case, &shared.schedule, workers, sampler.latest().clone());
    let mut mark_start = || sampler.mark_start();
    let outcome = follower.follow(&inbox, &shared, &begin, &mut mark_start, observe);
    let (processes, kernel) = sampler.finish();
    for thread in threads {
        if thread.join().is_err() {
            return Err(BenchError::Machine("a worker thread died; see the message above".into()));
        }
    }
    // Returned only after all threads have ended, because they would continue to send.
    outcome?;
    let mut result = follower.into_result::<P>(target)?;
    result.first_head = shared.protocol.first_head();
    result.processes = processes;
    result.kernel = Some(kernel);
    result.missed_thresholds =
        case.thresholds.iter().filter_map(|threshold| threshold.evaluate(&result).err()).collect();
    result.notes = notes.into_iter().map(|advice| advice.sentence()).collect();
    Ok(result)
}

/// Returns the number of destinations (address and port). Each destination has a full range of
/// local ports.
fn destinations(target: &Target) -> u64 {
    match &target.endpoint {
        Endpoint::Tcp(addresses) => addresses.len() as u64,
        Endpoint::Unix(_) => u64::MAX,
    }
}

/// Opens one connection, so that an unreachable target is reported before the measurement.
fn try_target<P: Protocol>(
    protocol: &Arc<P>,
    case: &Case,
    target: &Target,
    clock: Clock,
    schedule: &Arc<Schedule>,
) -> Result<(), BenchError> {
    let runtime = thread::runtime()?;
    let setup = Setup {
        index: 0,
        clock,
        schedule: Arc::clone(schedule),
        lanes: case.load.lanes,
        timeout: case.load.timeout,
        samples: Samples::Dropped,
    };
    let opened = runtime.block_on(async {
        let worker = Rc::new(Worker::new(setup).map_err(|error| system("making a timer", error))?);
        let mut lane = protocol.lane(&worker, 0);
        let limit = tokio::time::timeout(case.load.timeout, lane.open());
        Ok::<_, BenchError>(limit.await.unwrap_or_else(|_| {
            let text = tollhouse_stdx::fine_duration::format(case.load.timeout);
            Err(Failure::new(FailureClass::Timeout, format!("no connection within {text}")))
        }))
    })?;
    opened.map_err(|failure| unusable(target, &failure))
}

/// Returns the error for an unusable target, with a remedy if one is known.
fn unusable(target: &Target, failure: &Failure) -> BenchError {
    let remedy = match failure.class {
        FailureClass::Connect | FailureClass::Timeout => {
            "; is it started, and is this its address?".to_owned()
        }
        FailureClass::Tls => {
            "; name its authority with --ca, or take any certificate with --insecure".to_owned()
        }
        FailureClass::Status => {
            "; if this is what you expect, say that it is a success with --expect-status".into()
        }
        FailureClass::Check => "; the answer is not what the case expects".into(),
        _ => String::new(),
    };
    BenchError::Probe { target: target.to_string(), why: format!("{failure}{remedy}") }
}

fn system(doing: &str, error: std::io::Error) -> BenchError {
    BenchError::System { doing: doing.to_owned(), error }
}

/// Returns the number of workers: as configured, or one per core, and at most one per connection.
fn workers_of(case: &Case) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    case.load.workers.unwrap_or(cores).min(case.load.connections)
}

/// Returns the number of connections of a worker when they are split evenly.
fn share_of(connections: usize, workers: usize, index: usize) -> usize {
    connections / workers + usize::from(index < connections % workers)
}

fn interval_of(case: &Case) -> Duration {
    let whole = case.load.duration.unwrap_or(INTERVAL_MAX * INTERVALS_WANTED / 2);
    let ticks = (whole / INTERVALS_WANTED).clamp(INTERVAL_MIN, INTERVAL_MAX).as_millis()
        / crate::worker::TICK.as_millis();
    crate::worker::TICK * u32::try_from(ticks).unwrap_or(1)
}

/// Whether to wait for requests in flight at the end.
fn waits_at_end(case: &Case) -> bool {
    match case.load.at_end {
        AtEnd::Auto => case.load.pace.is_open(),
        AtEnd::Abandon => false,
        AtEnd::Wait => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_split_without_a_rest() {
        for (connections, workers) in [(600, 2), (7, 3), (2, 2), (1_201, 8)] {
            let shares: Vec<usize> =
                (0..workers).map(|index| share_of(connections, workers, index)).collect();
            assert_eq!(shares.iter().sum::<usize>(), connections);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
