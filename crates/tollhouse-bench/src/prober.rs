//! Sends requests at an even pace, and measures the time that each waits for its answer. This is
//! the latency that clients see while the proxy is not saturated. wrk cannot measure it: wrk sends
//! requests as fast as they are answered and shares its core with the origin, so that it causes
//! most of the tail latency that it measures.

use super::client::Connection;
use super::measure::{at_once, percentile};
use super::wrk::Outcome;
use crate::shell;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Request to send, and its rate.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    /// Number of connections; each has its own thread and at most one request at a time.
    pub(crate) connections: u32,
    /// Time from one request of a connection to its next.
    pub(crate) interval: Duration,
    pub(crate) duration: Duration,
}

/// Latencies and failures on one connection.
#[derive(Default)]
struct Log {
    waits_us: Vec<f64>,
    errors: u64,
}

/// Sends requests for the time in `pace`. The connections start one after the other, so that their
/// requests are spread evenly over the interval.
pub(crate) fn run(pace: &Pace<'_>) -> Result<Outcome> {
    let start = Instant::now();
    let numbers: Vec<u32> = (0..pace.connections).collect();
    let logs = at_once(&numbers, |number| {
        on_one_connection(pace, start + pace.interval * *number / pace.connections)
    })?;
    let errors = logs.iter().map(|log| log.errors).sum();
    let mut waits_us: Vec<f64> = logs.into_iter().flat_map(|log| log.waits_us).collect();
    waits_us.sort_by(f64::total_cmp);
    Ok(Outcome {
        requests: waits_us.len() as u64,
        requests_per_second: waits_us.len() as f64 / start.elapsed().as_secs_f64(),
        p50_us: percentile(&waits_us, 50),
        p99_us: percentile(&waits_us, 99),
        errors,
    })
}

fn on_one_connection(pace: &Pace<'_>, begin: Instant) -> Result<Log> {
    let mut connection = Connection::open(pace.port)?;
    let mut log = Log::default();
    let mut due = begin;
    while due < begin + pace.duration {
        let now = Instant::now();
        // The wait of a request starts when it is sent, because a late wake-up is not caused by the
        // proxy. If the request had to wait for the previous answer, the proxy caused the delay,
        // and the wait starts at the due time.
        let wait_begin = if now < due {
            shell::pause(due - now);
            Instant::now()
        } else {
            due
        };
        let status = connection.get(pace.path)?;
        log.waits_us.push(wait_begin.elapsed().as_secs_f64() * 1e6);
        log.errors += u64::from(!(200..400).contains(&status));
        due += pace.interval;
    }
    Ok(log)
}
