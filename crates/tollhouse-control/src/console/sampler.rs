//! Traffic per second, from the counters of all workers. The last 15 minutes are always kept, so
//! that a newly opened page shows the past.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::time::MissedTickBehavior;
use tollhouse_telemetry::counters::Label;
use tollhouse_telemetry::metrics::Traffic;
use tollhouse_telemetry::{ErrorCode, Metrics, StatusClass};

/// Interval between readings of the counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of stored seconds: 15 minutes, about 100 KB.
const SECONDS_KEPT: usize = 900;

/// Deviation of the wall clock from the elapsed time, in seconds, above which the clock counts as
/// having been set.
const CLOCK_SLACK_S: u64 = 5;

#[derive(Debug, Clone)]
struct Second {
    /// End of the interval, in seconds of Unix time.
    at_s: u64,
    /// Length in milliseconds; more than a second if the process was busy.
    length_ms: u64,
    by_class: [u64; StatusClass::COUNT],
    /// Error codes that occurred, with their counts.
    failures: Vec<(ErrorCode, u64)>,
    p50_ms: Option<u64>,
    p90_ms: Option<u64>,
    p99_ms: Option<u64>,
    connections: i64,
    received_bytes: u64,
    sent_bytes: u64,
    revision: i64,
}

/// Recorder of the traffic of each second, for the console's charts.
#[derive(Debug)]
pub struct Sampler {
    metrics: Arc<Metrics>,
    seconds: Mutex<VecDeque<Second>>,
}

impl Sampler {
    /// Creates a recorder, which is idle until [`run`](Self::run).
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, seconds: Mutex::default() }
    }

    pub async fn run(self: Arc<Self>) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = (interval.tick().await, self.metrics.traffic());
        loop {
            let now = interval.tick().await;
            let traffic = self.metrics.traffic();
            self.take(now - last.0, &last.1, &traffic, unix_s());
            last = (now, traffic);
        }
    }

    fn take(&self, length: Duration, before: &Traffic, after: &Traffic, at_s: u64) {
        let durations = after.durations.since(&before.durations);
        let failures = ErrorCode::ALL.iter().enumerate().filter_map(|(index, code)| {
            // The difference stays correct when a counter wraps.
            let count = after.by_code[index].wrapping_sub(before.by_code[index]);
            (count > 0).then_some((*code, count))
        });
        let second = Second {
            at_s,
            length_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            by_class: std::array::from_fn(|index| {
                after.by_class[index].wrapping_sub(before.by_class[index])
            }),
            failures: failures.collect(),
            p50_ms: durations.quantile_ms(500),
            p90_ms: durations.quantile_ms(900),
            p99_ms: durations.quantile_ms(990),
            connections: after.connections_open,
            received_bytes: after.received_bytes.wrapping_sub(before.received_bytes),
            sent_bytes: after.sent_bytes.wrapping_sub(before.sent_bytes),
            revision: self.metrics.process().config_revision.value(),
        };
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        keep_in_step(&mut seconds, &second);
        if seconds.len() == SECONDS_KEPT {
            seconds.pop_front();
        }
        seconds.push_back(second);
    }

    /// Returns the last seconds, at most `count`, oldest first.
    pub fn recent(&self, count: u64) -> Value {
        self.after(unix_s().saturating_sub(count))
    }

    /// Returns the number of answers with 500 or higher in the last `count` seconds.
    pub fn server_errors(&self, count: usize) -> u64 {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seconds.iter().rev().take(count);
        last.map(|second| second.by_class[StatusClass::ServerError.index()]).sum()
    }

    /// Returns the seconds after the Unix time `since`, oldest first.
    pub fn after(&self, since: u64) -> Value {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = seconds.iter().filter(|second| second.at_s > since).map(row);
        json!({ "now": unix_s(), "kept": SECONDS_KEPT, "seconds": rows.collect::<Vec<_>>() })
    }
}

/// Shifts the recorded times after the machine's clock was set, so that ages stay correct and the
/// order is kept.
fn keep_in_step(seconds: &mut VecDeque<Second>, next: &Second) {
    let Some(last) = seconds.back() else { return };
    let due = last.at_s.saturating_add(next.length_ms.div_ceil(1000).max(1));
    if next.at_s > last.at_s && next.at_s.abs_diff(due) <= CLOCK_SLACK_S {
        return;
    }
    for second in seconds {
        let age = due.saturating_sub(second.at_s);
        second.at_s = next.at_s.saturating_sub(age);
    }
}

fn row(second: &Second) -> Value {
    let classes = StatusClass::ALL.iter().zip(second.by_class).filter(|(_, count)| *count > 0);
    let classes: Map<String, Value> =
        classes.map(|(class, count)| (class.text().to_owned(), count.into())).collect();
    let failures = second.failures.iter();
    let failures: Map<String, Value> =
        failures.map(|(code, count)| (code.text().to_owned(), (*count).into())).collect();
    // Answers with 500 or higher that the gateway only passed on.
    let own = second.failures.iter().filter(|(code, _)| code.status() >= 500);
    let own: u64 = own.map(|(_, count)| count).sum();
    let server_errors = second.by_class[StatusClass::ServerError.index()];
    json!({
        "at": second.at_s,
        "length_ms": second.length_ms,
        "requests": second.by_class.iter().sum::<u64>(),
        "classes": classes,
        "failures": failures,
        "node_errors": server_errors.saturating_sub(own),
        "p50_ms": second.p50_ms,
        "p90_ms": second.p90_ms,
        "p99_ms": second.p99_ms,
        "connections": second.connections,
        "received_bytes": second.received_bytes,
        "sent_bytes": second.sent_bytes,
        "revision": second.revision,
    })
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_what_the_counters_grew_by() {
        let metrics = Arc::new(Metrics::new());
        let core = metrics.for_core();
        core.requests.increment(StatusClass::Success);
        let before = metrics.traffic();
        core.requests.increment(StatusClass::Success);
        core.requests.increment(StatusClass::ServerError);
        core.requests.increment(StatusClass::ServerError);
        core.requests_failed.increment(ErrorCode::NoNodes);
        core.request_duration.observe_ms(7);
        let sampler = Sampler::new(Arc::clone(&metrics));
        sampler.take(Duration::from_secs(1), &before, &metrics.traffic(), 100);
        let seconds = &sampler.after(99)["seconds"];
        assert_eq!(seconds[0]["classes"], json!({"2xx": 1, "5xx": 2}));
        assert_eq!(seconds[0]["failures"], json!({"no_nodes": 1}));
        assert_eq!(seconds[0]["node_errors"], 1);
        assert_eq!((&seconds[0]["requests"], &seconds[0]["p99_ms"]), (&json!(3), &json!(7)));
        assert_eq!(sampler.after(100)["seconds"], json!([]));
        assert_eq!((sampler.server_errors(1), sampler.server_errors(0)), (2, 0));
    }

    #[test]
    fn the_past_keeps_its_age_when_the_clock_is_set() {
        for (set_to, expected) in [(40, [38, 39, 40]), (9000, [8998, 8999, 9000])] {
            let sampler = Sampler::new(Arc::new(Metrics::new()));
            let traffic = Traffic::default();
            for at_s in [100, 101, set_to] {
                sampler.take(Duration::from_secs(1), &traffic, &traffic, at_s);
            }
            let all = sampler.after(0);
            let seconds = all["seconds"].as_array().expect("a list");
            let at: Vec<&Value> = seconds.iter().map(|second| &second["at"]).collect();
            assert_eq!(at, expected.map(Value::from).iter().collect::<Vec<_>>(), "{set_to}");
        }
    }

    #[test]
    fn a_process_that_was_held_up_keeps_its_gap() {
        let sampler = Sampler::new(Arc::new(Metrics::new()));
        let traffic = Traffic::default();
        sampler.take(Duration::from_secs(1), &traffic, &traffic, 100);
        sampler.take(Duration::from_secs(60), &traffic, &traffic, 160);
        let all = sampler.after(0);
        assert_eq!(
            (&all["seconds"][0]["at"], &all["seconds"][1]["at"]),
            (&json!(100), &json!(160))
        );
    }

    #[test]
    fn old_seconds_go() {
        let sampler = Sampler::new(Arc::new(Metrics::new()));
        let traffic = Traffic::default();
        for at_s in 1..=SECONDS_KEPT as u64 + 5 {
            sampler.take(Duration::from_secs(1), &traffic, &traffic, at_s);
        }
        let all = sampler.after(0);
        let seconds = all["seconds"].as_array().expect("a list");
        assert_eq!((seconds.len(), &seconds[0]["at"]), (SECONDS_KEPT, &json!(6)));
    }
}
