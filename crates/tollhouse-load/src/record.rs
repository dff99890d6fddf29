//! Recording of a single worker: complete histograms, merged at the end of the run and never
//! averaged.
//!
//! Headline times go into one histogram per interval, handed over at the end of the interval; all
//! other times are handed over once, at the end.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::case::Load;
use crate::distribution::histogram;
use crate::failure::{Failure, FailureClass};
use crate::pace::Pace;
use crate::protocol::{Marks, Reply};
use crate::result::Sample;
use crate::schedule::Turn;

/// Maximum number of distinct failure messages. Messages that contain a counter would otherwise
/// fill the memory.
const MESSAGES_MAX: usize = 32;
/// Key under which further messages are counted.
const OTHER_MESSAGES: &str = "other";
/// Maximum number of distinct statuses that are counted.
const STATUSES_MAX: usize = 64;
/// Maximum number of samples one worker keeps: 56 MB.
const SAMPLES_MAX: usize = 1_000_000;

/// Exchange that has ended, with its times and outcome.
#[derive(Debug)]
pub struct Finished<'a> {
    /// Number of the request and its place in the schedule.
    pub turn: Turn,
    /// Times and byte counts of the exchange.
    pub marks: &'a Marks,
    pub outcome: &'a Result<Reply, Failure>,
    /// End of the exchange in nanoseconds.
    pub done_ns: u64,
}

impl Finished<'_> {
    /// Returns the headline time: from the intended start (open loop) or from sending (closed loop)
    /// to the end.
    #[inline]
    pub fn headline_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.turn.intended_ns.unwrap_or(self.marks.sent_ns))
    }
}

/// Distributions recorded over the whole run.
#[derive(Debug)]
pub struct Times {
    /// Response time: sending to last byte.
    pub response: Histogram<u64>,
    /// Times from sending to the first byte of the response.
    pub first_byte: Histogram<u64>,
    /// Times to open a connection, TLS included.
    pub connect: Histogram<u64>,
    /// Slip: times from the intended start to sending.
    pub slip: Histogram<u64>,
}

/// Counts of an interval or of the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of completed requests, failed ones included.
    pub completed: u64,
    pub failed: u64,
    pub received_bytes: u64,
    /// Sum of the headline times of successful requests; used only in the warm-up, which has no
    /// histogram.
    pub warm_up_ns: u64,
}

impl Tally {
    /// Adds the counts of another interval.
    pub fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.received_bytes += other.received_bytes;
        self.warm_up_ns = self.warm_up_ns.saturating_add(other.warm_up_ns);
    }
}

/// Treatment of the samples of single requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    Kept,
    Dropped,
}

impl Samples {
    pub fn new(load: &Load) -> Self {
        if load.keep_samples { Self::Kept } else { Self::Dropped }
    }
}

/// A worker's record of the measured phase.
#[derive(Debug)]
pub struct Record {
    is_open: bool,
    samples_max: usize,
    /// Headline times of the current interval: latency in an open loop, response time otherwise.
    pub interval: Histogram<u64>,
    /// Counts since the start of the current interval.
    pub tally: Tally,
    /// Distributions of times over the whole run.
    pub times: Times,
    /// Failures by class, in the order of [`FailureClass::ALL`].
    pub failures: [u64; FailureClass::ALL.len()],
    /// Number of failures by message.
    pub messages: BTreeMap<String, u64>,
    /// Number of complete responses by status.
    pub statuses: Vec<(u16, u64)>,
    /// Number of requests on a connection that had carried an earlier one.
    pub reused: u64,
    pub sent_bytes: u64,
    /// Total length of the bodies in bytes.
    pub body_bytes: u64,
    /// Length of the first body in bytes.
    pub first_body_bytes: Option<u64>,
    /// End of the last exchange in nanoseconds.
    pub last_done_ns: u64,
    /// Samples of single requests, if the case keeps them.
    pub samples: Vec<Sample>,
}

impl Record {
    /// Creates an empty record of a worker with this pace.
    pub fn new(pace: &Pace, samples: Samples) -> Self {
        Self {
            is_open: pace.is_open(),
            samples_max: match samples {
                Samples::Kept => SAMPLES_MAX,
                Samples::Dropped => 0,
            },
            interval: histogram(),
            tally: Tally::default(),
            times: Times {
                response: histogram(),
                first_byte: histogram(),
                connect: histogram(),
                slip: histogram(),
            },
            failures: [0; FailureClass::ALL.len()],
            messages: BTreeMap::new(),
            statuses: Vec::new(),
            reused: 0,
            sent_bytes: 0,
            body_bytes: 0,
            first_body_bytes: None,
            last_done_ns: 0,
            samples: Vec::new(),
        }
    }

    /// Adds a finished exchange to counts and distributions.
    #[inline]
    pub fn finished(&mut self, exchange: &Finished<'_>) {
        let marks = exchange.marks;
        self.tally.completed += 1;
        self.tally.received_bytes += marks.received_bytes;
        self.sent_bytes += marks.sent_bytes;
        self.reused += u64::from(marks.is_reused);
        self.last_done_ns = exchange.done_ns;
        if let Some(intended_ns) = exchange.turn.intended_ns
            && marks.sent_ns > 0
        {
            self.times.slip.saturating_record(marks.sent_ns.saturating_sub(intended_ns));
        }
        match exchange.outcome {
            Ok(reply) => self.succeeded(exchange, reply),
            Err(failure) => self.failed(failure),
        }
        if self.samples.len() < self.samples_max {
            self.samples.push(sample(exchange));
        }
    }

    #[inline]
    fn succeeded(&mut self, exchange: &Finished<'_>, reply: &Reply) {
        let marks = exchange.marks;
        self.interval.saturating_record(exchange.headline_ns());
        // In a closed loop, the interval histograms already contain the response times.
        if self.is_open {
            let response_ns = exchange.done_ns.saturating_sub(marks.sent_ns);
            self.times.response.saturating_record(response_ns);
        }
        self.times.first_byte.saturating_record(marks.first_byte_ns.saturating_sub(marks.sent_ns));
        self.body_bytes += reply.body_bytes;
        if self.first_body_bytes.is_none() {
            self.first_body_bytes = Some(reply.body_bytes);
        }
        self.status(reply.status);
    }

    fn failed(&mut self, failure: &Failure) {
        self.tally.failed += 1;
        self.failures[failure.class as usize] += 1;
        if let Some(status) = failure.status {
            self.status(status);
        }
        let has_room = self.messages.len() < MESSAGES_MAX;
        if let Some(count) = self.messages.get_mut(&failure.message) {
            *count += 1;
            return;
        }
        let message = if has_room { failure.message.clone() } else { OTHER_MESSAGES.to_owned() };
        *self.messages.entry(message).or_default() += 1;
    }

    /// Records the time to open a connection.
    pub fn connected(&mut self, took_ns: u64) {
        self.times.connect.saturating_record(took_ns);
    }

    #[inline]
    fn status(&mut self, status: u16) {
        if let Some((_, count)) = self.statuses.iter_mut().find(|(seen, _)| *seen == status) {
            *count += 1;
        } else if self.statuses.len() < STATUSES_MAX {
            self.statuses.push((status, 1));
        }
    }
}

fn sample(exchange: &Finished<'_>) -> Sample {
    let marks = exchange.marks;
    let (status, failure) = match exchange.outcome {
        Ok(reply) => (reply.status, None),
        Err(failure) => (failure.status.unwrap_or(0), Some(failure.class)),
    };
    let begun_ns = if marks.sent_ns > 0 { marks.sent_ns } else { exchange.done_ns };
    Sample {
        at_ns: begun_ns,
        connect_ns: marks.connected_ns.saturating_sub(marks.connect_from_ns),
        first_byte_ns: marks.first_byte_ns.saturating_sub(begun_ns),
        response_ns: exchange.done_ns.saturating_sub(begun_ns),
        status,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Ticket;

    fn exchange(record: &mut Record, intended_ns: Option<u64>, sent_ns: u64, done_ns: u64) {
        let marks = Marks { sent_ns, first_byte_ns: done_ns, ..Marks::default() };
        let turn = Turn { ticket: Ticket { number: 0 }, intended_ns };
        let outcome = Ok(Reply { status: 200, body_bytes: 5 });
        record.finished(&Finished { turn, marks: &marks, outcome: &outcome, done_ns });
    }

    #[test]
    fn latency_counts_from_the_intended_start_and_response_time_from_sending() {
        let mut record = Record::new(&Pace::Rate(1000.0), Samples::Dropped);
        exchange(&mut record, Some(1_000_000), 3_000_000, 4_000_000);
        assert_eq!(record.interval.max() / 10_000, 300);
        assert_eq!(record.times.response.max() / 10_000, 100);
        assert_eq!(record.times.slip.max() / 10_000, 200);
    }

    #[test]
    fn a_closed_loop_records_response_times() {
        let mut record = Record::new(&Pace::Closed, Samples::Dropped);
        exchange(&mut record, None, 1_000_000, 3_000_000);
        assert_eq!(record.interval.max() / 10_000, 200);
        assert!(record.times.slip.is_empty());
    }

    #[test]
    fn messages_without_end_are_counted_under_one_name() {
        let mut record = Record::new(&Pace::Closed, Samples::Dropped);
        for number in 0..1_000 {
            record.failed(&Failure::new(FailureClass::Check, format!("line {number}")));
        }
        assert_eq!(record.messages.len(), MESSAGES_MAX + 1);
        assert_eq!(record.messages[OTHER_MESSAGES], 1_000 - MESSAGES_MAX as u64);
        assert_eq!(record.failures[FailureClass::Check as usize], 1_000);
    }

    #[test]
    fn failures_are_no_times() {
        let mut record = Record::new(&Pace::Closed, Samples::Kept);
        let marks = Marks { sent_ns: 10, ..Marks::default() };
        let turn = Turn { ticket: Ticket { number: 0 }, intended_ns: None };
        let outcome = Err(Failure::answered(FailureClass::Status, 503, "status 503"));
        record.finished(&Finished { turn, marks: &marks, outcome: &outcome, done_ns: 20 });
        assert!(record.interval.is_empty());
        assert_eq!(record.statuses, [(503, 1)]);
        assert_eq!(record.samples[0].failure, Some(FailureClass::Status));
    }
}
