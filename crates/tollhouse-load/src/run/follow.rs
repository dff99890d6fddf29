//! Coordinator of a run: merges the workers' intervals, reports progress, abandons a run whose
//! requests all fail, and builds the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use tokio::sync::watch;

use super::thread::{Event, WorkerEnd, WorkerInterval};
use super::{Progress, Shared, unusable};
use crate::case::Case;
use crate::distribution::{Distribution, histogram};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::Protocol;
use crate::record::{Record, Samples, Tally};
use crate::resource::Latest;
use crate::result::{CaseResult, Counts, End, Interval, RateStatistics};
use crate::schedule::Schedule;
use crate::target::Target;

/// Duration after which a run with nothing but failures is abandoned.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);
/// Maximum wait for an event before the stop signal is checked.
const PATIENCE: Duration = Duration::from_millis(100);

/// An interval not yet delivered by all workers.
struct Pending {
    interval: Interval,
    times: Histogram<u64>,
    delivered: usize,
}

/// State of a run at its coordinator.
pub(super) struct Follower {
    case: Case,
    schedule: Arc<Schedule>,
    usage: Latest,
    workers: usize,
    started_at_ms: u64,
    pending: BTreeMap<PendingKey, Pending>,
    series: Vec<Interval>,
    counts: Counts,
    times: Histogram<u64>,
    ends: Vec<WorkerEnd>,
    /// Whether any request succeeded, including the warm-up.
    has_succeeded: bool,
    /// Number of successful requests in the warm-up, and the sum of their times.
    warm_up: (u64, u64),
    last_failure: Option<Failure>,
    has_given_up: bool,
    is_interrupted: bool,
}

/// Phase and number of an interval; those of the warm-up come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PendingKey {
    is_measured: bool,
    index: u64,
}

impl Follower {
    pub(super) fn new(
        case: &Case,
        schedule: &Arc<Schedule>,
        workers: usize,
        usage: Latest,
    ) -> Self {
        Self {
            case: case.clone(),
            schedule: Arc::clone(schedule),
            usage,
            workers,
            started_at_ms: 0,
            pending: BTreeMap::new(),
            series: Vec::new(),
            counts: Counts::default(),
            times: histogram(),
            ends: Vec::new(),
            has_succeeded: false,
            warm_up: (0, 0),
            last_failure: None,
            has_given_up: false,
            is_interrupted: false,
        }
    }

    /// Processes the workers' events until all workers have ended.
    pub(super) fn follow<P>(
        &mut self,
        inbox: &Receiver<Event>,
        shared: &Shared<P>,
        begin: &watch::Sender<bool>,
        mark_start: &mut dyn FnMut(),
        observe: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), BenchError> {
        let mut ready = 0;
        let mut is_marked = false;
        while self.ends.len() < self.workers {
            let until_start = self.until_start(shared.clock.now_ns());
            if !is_marked && until_start.is_zero() {
                is_marked = true;
                mark_start();
            }
            let patience = if is_marked { PATIENCE } else { PATIENCE.min(until_start) };
            match inbox.recv_timeout(patience) {
                Ok(Event::Ready) => {
                    ready += 1;
                    if ready == self.workers {
                        self.begin(shared, begin);
                    }
                }
                Ok(Event::Interval(interval)) => self.take(interval, shared, observe),
                Ok(Event::Ended(end)) => self.ends.push(*end),
                Ok(Event::Failed(error)) => {
                    shared.stop.stop();
                    shared.schedule.stop(0);
                    begin.send_replace(true);
                    return Err(error);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Stopped before all connections were open: the workers still wait for the start
            // signal.
            if shared.stop.is_stopped() && ready < self.workers {
                ready = self.workers;
                self.begin(shared, begin);
                shared.schedule.stop(shared.clock.now_ns());
            }
        }
        self.is_interrupted = shared.stop.is_stopped() && !self.has_given_up;
        let pending: Vec<PendingKey> = self.pending.keys().copied().collect();
        for key in pending {
            self.finish(key, observe);
        }
        Ok(())
    }

    /// Returns the time until the measured phase begins.
    fn until_start(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.schedule.measured().start_ns().saturating_sub(now_ns))
    }

    fn begin<P>(&mut self, shared: &Shared<P>, begin: &watch::Sender<bool>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.started_at_ms = now.map_or(0, |now| now.as_millis() as u64);
        shared.schedule.begin(shared.clock.now_ns());
        begin.send_replace(true);
    }

    fn take<P>(
        &mut self,
        part: WorkerInterval,
        shared: &Shared<P>,
        observe: &mut dyn FnMut(&Progress<'_>),
    ) {
        self.has_succeeded |= part.tally.completed > part.tally.failed;
        self.last_failure = part.failure.or(self.last_failure.take());
        if part.is_warm_up {
            self.warm_up.0 += part.tally.completed - part.tally.failed;
            self.warm_up.1 = self.warm_up.1.saturating_add(part.tally.warm_up_ns);
        }
        let key = PendingKey { is_measured: !part.is_warm_up, index: part.index };
        let pending = self.pending.entry(key).or_insert_with(|| Pending {
            interval: Interval::default(),
            times: histogram(),
            delivered: 0,
        });
        pending.delivered += 1;
        let interval = &mut pending.interval;
        interval.at_ns = interval.at_ns.max(part.at_ns);
        interval.completed += part.tally.completed;
        interval.failed += part.tally.failed;
        interval.received_bytes += part.tally.received_bytes;
        interval.in_flight += part.in_flight;
        interval.connections += part.connections;
        // Histograms with equal bounds can always be added.
        let _ = pending.times.add(&part.times);
        if pending.delivered == self.workers {
            self.finish(key, observe);
        }
        self.give_up_if_hopeless(shared);
    }

    fn give_up_if_hopeless<P>(&mut self, shared: &Shared<P>) {
        let began_ns = shared.schedule.phases()[0].start_ns();
        let ran_ns = shared.clock.now_ns().saturating_sub(began_ns);
        let is_hopeless = !self.has_succeeded && self.last_failure.is_some();
        let is_late = u128::from(ran_ns) > GIVE_UP_AFTER.as_nanos();
        if is_hopeless && is_late && !self.case.load.persistent {
            self.has_given_up = true;
            shared.stop.stop();
        }
    }

    fn finish(&mut self, key: PendingKey, observe: &mut dyn FnMut(&Progress<'_>)) {
        let Some(Pending { mut interval, times, .. }) = self.pending.remove(&key) else { return };
        let PendingKey { is_measured, .. } = key;
        let before_ns = self.series.last().map_or(0, |last| last.at_ns);
        interval.span_ns = interval.at_ns.saturating_sub(if is_measured { before_ns } else { 0 });
        if !times.is_empty() {
            interval.p50_ns = times.value_at_quantile(0.5);
            interval.p90_ns = times.value_at_quantile(0.9);
            interval.p99_ns = times.value_at_quantile(0.99);
            interval.max_ns = times.max();
        }
        if is_measured {
            self.counts.completed += interval.completed;
            self.counts.failed += interval.failed;
            self.counts.succeeded += interval.completed - interval.failed;
            self.counts.received_bytes += interval.received_bytes;
            // Histograms with equal bounds can always be added.
            let _ = self.times.add(&times);
            self.series.push(interval.clone());
        }
        let load = &self.case.load;
        observe(&Progress {
            elapsed: Duration::from_nanos(interval.at_ns),
            planned: match (is_measured, load.requests) {
                (false, _) => Some(load.warm_up),
                (true, None) => Some(load.duration.unwrap_or(crate::case::Load::DURATION_DEFAULT)),
                (true, Some(_)) => load.duration,
            },
            planned_requests: load.requests.filter(|_| is_measured),
            is_warming_up: !is_measured,
            last: &interval,
            series: &self.series,
            counts: &self.counts,
            so_far: &self.times,
            warm_up_mean: self.warm_up.1.checked_div(self.warm_up.0).map(Duration::from_nanos),
            last_failure: self.last_failure.as_ref(),
            usage: &self.usage.get(),
        });
    }

    /// Builds the result; fails if no request succeeded.
    pub(super) fn into_result<P: Protocol>(
        mut self,
        target: &Target,
    ) -> Result<CaseResult, BenchError> {
        // Without a successful request the result would be a table of zeros, so that the last
        // failure is returned as an error instead.
        let has_nothing = self.counts.succeeded == 0 && !self.case.load.persistent;
        if has_nothing && !self.is_interrupted {
            let failure = self.last_failure.take().unwrap_or_else(|| {
                Failure::new(FailureClass::Timeout, "no answer while the case lasted")
            });
            return Err(unusable(target, &failure));
        }
        let ends = std::mem::take(&mut self.ends);
        let mut whole = Record::new(&self.case.load.pace, Samples::new(&self.case.load));
        let (mut rates, mut loop_delay_ns) = (Vec::new(), 0);
        for end in ends {
            merge(&mut whole, &end.record);
            self.counts.connections_opened += end.connections_opened;
            self.counts.unfinished += end.unfinished;
            loop_delay_ns = loop_delay_ns.max(end.loop_delay_ns);
            rates.extend(end.rates);
        }
        let schedule = Arc::clone(&self.schedule);
        let measured = schedule.measured();
        let start_ns = measured.start_ns();
        let ended_ns = ended_ns(measured.end_ns(), whole.last_done_ns, self.case.load.requests);
        let elapsed_ns = ended_ns.saturating_sub(start_ns).max(1);
        self.counts.unsent = measured.unsent(measured.end_ns().min(ended_ns));
        self.fill_counts::<P>(&whole);
        let per_second = |count: u64| count as f64 * 1e9 / elapsed_ns as f64;
        let is_open = self.case.load.pace.is_open();
        let planned = measured.pace().due_before(Duration::from_nanos(elapsed_ns));
        let headline = Distribution::from_histogram(&self.times);
        for sample in &mut whole.samples {
            sample.at_ns = sample.at_ns.saturating_sub(start_ns);
        }
        // The headline times are the latency in an open loop and the response time in a closed one.
        let (response_time, latency) = match is_open {
            true => (Distribution::from_histogram(&whole.times.response), Some(headline)),
            false => (headline, None),
        };
        let load = &self.case.load;
        let elapsed = Duration::from_nanos(elapsed_ns);
        let concurrency = load.lanes.lanes_mean(load.connections * load.streams, elapsed);
        Ok(CaseResult {
            name: self.case.name.clone(),
            started_at_ms: self.started_at_ms,
            elapsed_ns,
            end: if self.is_interrupted { End::Interrupted } else { End::Completed },
            concurrency: concurrency as u64,
            workers: self.workers as u64,
            open_loop: is_open,
            intended_rate: planned.map(per_second),
            rate: per_second(self.counts.completed),
            goodput: per_second(self.counts.succeeded),
            response_time,
            latency,
            first_byte: Distribution::from_histogram(&whole.times.first_byte),
            connect: Distribution::from_histogram(&whole.times.connect),
            slip: is_open.then(|| Distribution::from_histogram(&whole.times.slip)),
            loop_delay_ns,
            worker_rates: rate_statistics(&rates),
            series: self.series,
            samples: whole.samples,
            counts: self.counts,
            case: Some(self.case),
            repetition: 1,
            ..CaseResult::default()
        })
    }

    fn fill_counts<P: Protocol>(&mut self, whole: &Record) {
        let counts = &mut self.counts;
        for (class, count) in FailureClass::ALL.iter().zip(whole.failures) {
            if count > 0 {
                counts.failures.insert(class.as_str().to_owned(), count);
            }
        }
        counts.messages = whole.messages.clone();
        for (status, count) in &whole.statuses {
            if let Some(name) = P::status_name(*status) {
                counts.statuses.insert(name, *count);
            }
        }
        counts.reused = whole.reused;
        counts.sent_bytes = whole.sent_bytes;
        counts.body_bytes = whole.body_bytes;
        counts.first_body_bytes = whole.first_body_bytes.unwrap_or(0);
    }
}

/// Returns the end of the measurement: the end of its duration or the last response, whichever is
/// later; with a request count, the last response.
fn ended_ns(end_ns: u64, last_done_ns: u64, requests: Option<u64>) -> u64 {
    if requests.is_some() { last_done_ns } else { end_ns.max(last_done_ns) }
}

fn merge(whole: &mut Record, part: &Record) {
    // Histograms with equal bounds can always be added.
    let _ = whole.times.response.add(&part.times.response);
    let _ = whole.times.first_byte.add(&part.times.first_byte);
    let _ = whole.times.connect.add(&part.times.connect);
    let _ = whole.times.slip.add(&part.times.slip);
    for (sum, count) in whole.failures.iter_mut().zip(part.failures) {
        *sum += count;
    }
    for (message, count) in &part.messages {
        *whole.messages.entry(message.clone()).or_default() += count;
    }
    for (status, count) in &part.statuses {
        match whole.statuses.iter_mut().find(|(seen, _)| seen == status) {
            Some((_, sum)) => *sum += count,
            None => whole.statuses.push((*status, *count)),
        }
    }
    whole.reused += part.reused;
    whole.sent_bytes += part.sent_bytes;
    whole.body_bytes += part.body_bytes;
    whole.first_body_bytes = whole.first_body_bytes.or(part.first_body_bytes);
    whole.last_done_ns = whole.last_done_ns.max(part.last_done_ns);
    whole.samples.extend_from_slice(&part.samples);
    whole.tally = Tally::default();
}

fn rate_statistics(rates: &[f64]) -> RateStatistics {
    if rates.is_empty() {
        return RateStatistics::default();
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let stdev = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
    let within = rates.iter().filter(|rate| (**rate - mean).abs() <= stdev).count();
    RateStatistics {
        mean,
        stdev,
        max: rates.iter().copied().fold(0.0, f64::max),
        within_stdev: within as f64 / count,
    }
}
