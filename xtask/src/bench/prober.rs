//! Requests at an even pace, and the time that each waits for its answer: the latency that a client
//! sees if the proxy has spare time. wrk sends requests as fast as they are answered and shares its
//! core with the origin, so that wrk causes most of the tail it measures.

use super::client::Connection;
use super::wrk::Outcome;
use crate::shell;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Request to send, and its rate.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    /// Number of connections; each has a separate thread and at most one request at a time.
    pub(crate) connections: usize,
    /// Time from one request of a connection to its next.
    pub(crate) interval: Duration,
    pub(crate) duration: Duration,
}

#[derive(Default)]
struct Seen {
    waits_us: Vec<f64>,
    errors: u64,
}

/// Sends requests until the time is up. Connections begin one after the other, so that their
/// requests are spread over the interval.
pub(crate) fn run(pace: &Pace<'_>) -> Result<Outcome> {
    let start = Instant::now();
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..pace.connections)
            .map(|number| {
                let share = pace.interval * number as u32 / pace.connections as u32;
                scope.spawn(move || on_one_connection(pace, start + share))
            })
            .collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().expect("a prober does not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let errors = seen.iter().map(|seen| seen.errors).sum();
    let mut waits_us: Vec<f64> = seen.into_iter().flat_map(|seen| seen.waits_us).collect();
    waits_us.sort_by(f64::total_cmp);
    Ok(Outcome {
        requests: waits_us.len() as u64,
        requests_per_second: waits_us.len() as f64 / start.elapsed().as_secs_f64(),
        p50_us: at_share(&waits_us, 0.5).context("no request was sent")?,
        p99_us: at_share(&waits_us, 0.99).context("no request was sent")?,
        errors,
    })
}

fn on_one_connection(pace: &Pace<'_>, begin: Instant) -> Result<Seen> {
    let mut connection = Connection::open(pace.port)?;
    let mut seen = Seen::default();
    let mut due = begin;
    while due < begin + pace.duration {
        let now = Instant::now();
        // Late wake-ups are not the proxy's fault. A request that had to wait for the previous
        // answer is late because of the proxy, and therefore its wait starts at the due time.
        let wait_begin = if now < due {
            shell::pause(due - now);
            Instant::now()
        } else {
            due
        };
        let status = connection.get(pace.path)?;
        seen.waits_us.push(wait_begin.elapsed().as_secs_f64() * 1e6);
        seen.errors += u64::from(!(200..400).contains(&status));
        due += pace.interval;
    }
    Ok(seen)
}

/// Returns the value below which a share of the sorted values lies.
pub(crate) fn at_share(sorted: &[f64], share: f64) -> Option<f64> {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_values_lies_below() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(at_share(&values, 0.5), Some(100.0));
        assert_eq!(at_share(&values, 0.99), Some(198.0));
        assert_eq!(at_share(&values[..1], 0.99), Some(0.0));
        assert_eq!(at_share(&[], 0.5), None);
    }
}
