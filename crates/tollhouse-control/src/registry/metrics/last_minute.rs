//! Calls of the last whole minute, as Polaris' dashboards read them: as gauges, which Polaris'
//! server sets once a minute.
//!
//! No task computes them: the first reading in a new minute closes the minute before. If the page
//! is read less often, the interval is the time between two readings.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tollhouse_polaris::Code;
use tollhouse_polaris::dialect::{Dialect, Extremes, MethodReading};

/// Calls of one method in the last minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) service: &'static str,
    pub(super) method: &'static str,
    /// Number of calls by code; also those of codes that did not occur in this minute.
    pub(super) counts: Vec<(Code, u64)>,
    /// Sum of the durations of all calls in microseconds.
    pub(super) total_us: u64,
    pub(super) extremes: Option<Extremes>,
}

impl Calls {
    /// Returns the number of calls, whatever their code.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// The last minute; one for all listeners of a registry.
#[derive(Debug, Default)]
pub struct LastMinute(Mutex<Interval>);

#[derive(Debug, Default)]
struct Interval {
    /// Minute of Unix time that runs.
    minute: u64,
    /// Readings at the beginning of the minute.
    before: Vec<MethodReading>,
    calls: Vec<Calls>,
}

impl LastMinute {
    /// Calls of the last whole minute.
    pub(super) fn calls(&self, dialect: &Dialect) -> Vec<Calls> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut interval = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        interval.look(since.as_secs() / 60, || (dialect.readings(), dialect.take_extremes()));
        interval.calls.clone()
    }
}

impl Interval {
    fn look(
        &mut self,
        minute: u64,
        read: impl FnOnce() -> (Vec<MethodReading>, Vec<Option<Extremes>>),
    ) {
        if minute == self.minute {
            return;
        }
        let (readings, extremes) = read();
        let each = readings.iter().zip(extremes).enumerate();
        self.calls = each
            .map(|(place, (reading, extremes))| {
                let before = self.before.get(place);
                let counts = reading.calls.iter().map(|(code, count)| {
                    let known =
                        before.and_then(|it| it.calls.iter().find(|(known, _)| known == code));
                    (*code, count - known.map_or(0, |(_, before)| *before))
                });
                Calls {
                    service: reading.service,
                    method: reading.method,
                    counts: counts.collect(),
                    total_us: reading.total_us - before.map_or(0, |it| it.total_us),
                    extremes,
                }
            })
            .collect();
        self.before = readings;
        self.minute = minute;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(calls: &[(Code, u64)], total_us: u64) -> MethodReading {
        let (method, service) = ("Heartbeat", "v1.PolarisGRPC");
        MethodReading { method, service, calls: calls.to_vec(), classes: Vec::new(), total_us }
    }

    #[test]
    fn a_minute_has_the_calls_that_came_since_the_one_before() {
        let (good, bad) = (Code::ExecuteSuccess, Code::NotFoundResource);
        let extremes = Some(Extremes { fastest_us: 1, slowest_us: 90 });
        let table: [(u64, &[(Code, u64)], u64, u64, &[(Code, u64)], u64); 4] = [
            // Minute and totals of a look, then number, counts and microseconds that are shown.
            (7, &[(good, 5)], 100, 5, &[(good, 5)], 100),
            (7, &[(good, 9)], 300, 5, &[(good, 5)], 100),
            (8, &[(good, 9), (bad, 2)], 400, 6, &[(good, 4), (bad, 2)], 300),
            (12, &[(good, 9), (bad, 2)], 400, 0, &[(good, 0), (bad, 0)], 0),
        ];
        let mut interval = Interval::default();
        for (minute, totals, total_us, count, counts, us) in table {
            interval.look(minute, || (vec![reading(totals, total_us)], vec![extremes]));
            let [calls] = &*interval.calls else { panic!("one method") };
            assert_eq!((calls.count(), &*calls.counts, calls.total_us), (count, counts, us));
            assert_eq!(calls.extremes, extremes);
        }
    }
}
