//! ab's table of connection times and percentiles, in whole milliseconds. Computed from single
//! samples if every request has one, otherwise from the distributions.

use tollhouse_load::distribution::Distribution;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::{CaseResult, Sample};

/// Percentiles in ab's table.
const PERCENTILES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// Row of the table, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Row {
    min: f64,
    mean: f64,
    stdev: f64,
    median: f64,
    max: f64,
}

/// Rows of the table, and the data for percentiles.
pub(super) struct Times {
    connect: Row,
    processing: Row,
    waiting: Row,
    total: Row,
    totals: Totals,
}

/// Times from the start of a connection to the last byte.
enum Totals {
    Each(Vec<u64>),
    /// Distribution of response times, and the median connect time in nanoseconds.
    Spread(Distribution, f64),
}

impl Times {
    pub(super) fn from_result(result: &CaseResult) -> Self {
        if result.samples.is_empty() || result.samples.len() as u64 != result.counts.completed {
            return Self::from_distributions(result);
        }
        let whole = |sample: &&Sample| sample.failure.is_none_or(FailureClass::is_answer);
        let samples: Vec<&Sample> = result.samples.iter().filter(whole).collect();
        let sorted = |time: fn(&Sample) -> u64| {
            let mut times: Vec<u64> = samples.iter().map(|sample| time(sample)).collect();
            times.sort_unstable();
            times
        };
        let totals = sorted(total_ns);
        Self {
            connect: Row::from_sorted(&sorted(|sample| sample.connect_ns)),
            processing: Row::from_sorted(&sorted(|sample| sample.response_ns)),
            waiting: Row::from_sorted(&sorted(|sample| sample.first_byte_ns)),
            total: Row::from_sorted(&totals),
            totals: Totals::Each(totals),
        }
    }

    fn from_distributions(result: &CaseResult) -> Self {
        let processing = Row::from_distribution(&result.response_time);
        let connect = Row::from_connects(&result.connect, result.response_time.count);
        let total = Row {
            min: processing.min + connect.min,
            mean: processing.mean + connect.mean,
            stdev: processing.stdev.hypot(connect.stdev),
            median: processing.median + connect.median,
            max: processing.max.max(connect.max),
        };
        Self {
            connect,
            processing,
            waiting: Row::from_distribution(&result.first_byte),
            total,
            totals: Totals::Spread(result.response_time.clone(), connect.median),
        }
    }

    /// Returns the number of requests with a time.
    pub(super) fn count(&self) -> u64 {
        match &self.totals {
            Totals::Each(times) => times.len() as u64,
            Totals::Spread(times, _) => times.count,
        }
    }

    /// Returns the time within which this percentage of requests completed, in nanoseconds.
    pub(super) fn percentile_ns(&self, percent: u64) -> f64 {
        match &self.totals {
            Totals::Each(times) => {
                let at = times.len() as u64 * percent / 100;
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                times.get(at).or(times.last()).copied().unwrap_or(0) as f64
            }
            Totals::Spread(times, connect_ns) => {
                times.percentile_ns(percent as f64).unwrap_or(0) as f64 + connect_ns
            }
        }
    }

    fn rows(&self) -> [(&'static str, Row); 4] {
        [
            ("Connect:", self.connect),
            ("Processing:", self.processing),
            ("Waiting:", self.waiting),
            ("Total:", self.total),
        ]
    }

    /// Returns the table without deviations and medians.
    pub(super) fn short_table(&self) -> String {
        let mut out = String::from("\nConnection Times (ms)\n              min   avg   max\n");
        for (name, row) in self.rows() {
            let (min, mean, max) = (ms(row.min), ms(row.mean), ms(row.max));
            out.push_str(&format!("{name:<11} {min:5} {mean:5} {max:4}\n"));
        }
        out
    }

    /// Returns the table with deviations, medians, and warnings.
    pub(super) fn table(&self) -> String {
        let mut out =
            String::from("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
        for (name, row) in self.rows() {
            let (min, mean, median, max) = (ms(row.min), ms(row.mean), ms(row.median), ms(row.max));
            let stdev = row.stdev / 1e6;
            out.push_str(&format!("{name:<11} {min:5} {mean:4} {stdev:5.1} {median:6} {max:7}\n"));
        }
        out.push_str(&self.doubts());
        out
    }

    /// Returns warnings about means that are far from their medians.
    fn doubts(&self) -> String {
        let what = ["initial connection", "processing", "waiting", "total"];
        let mut out = String::new();
        for ((_, row), what) in self.rows().into_iter().zip(what) {
            let distance = (ms(row.mean) as f64 - ms(row.median) as f64).abs();
            let stdev = row.stdev / 1e6;
            if distance > 2.0 * stdev {
                out.push_str(&format!(
                    "ERROR: The median and mean for the {what} time are more than twice the \
                     standard\n       deviation apart. These results are NOT reliable.\n"
                ));
            } else if distance > stdev {
                out.push_str(&format!(
                    "WARNING: The median and mean for the {what} time are not within a normal \
                     deviation\n        These results are probably not that reliable.\n"
                ));
            }
        }
        out
    }

    pub(super) fn percentiles(&self) -> String {
        let mut out =
            String::from("\nPercentage of the requests served within a certain time (ms)\n");
        for percent in PERCENTILES {
            let value = ms(self.percentile_ns(percent));
            let note = if percent == 100 { " (longest request)" } else { "" };
            out.push_str(&format!(" {percent:3}%  {value:5}{note}\n"));
        }
        out
    }
}

impl Row {
    /// Computes a row from sorted times.
    fn from_sorted(sorted: &[u64]) -> Self {
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let count = sorted.len() as f64;
        let mean = sorted.iter().map(|time| *time as f64).sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|time| (*time as f64 - mean).powi(2)).sum();
        let stdev = if sorted.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let middle = sorted.len() / 2;
        let median = sorted[middle] as f64;
        Self { min: *min as f64, mean, stdev, median, max: *max as f64 }
    }

    fn from_distribution(times: &Distribution) -> Self {
        Self {
            min: times.min_ns as f64,
            mean: times.mean_ns,
            stdev: times.stdev_ns,
            median: times.percentile_ns(50.0).unwrap_or(0) as f64,
            max: times.max_ns as f64,
        }
    }

    /// Computes the connect times over all requests from those of the opened connections. Requests
    /// on a connection that was already open did not wait.
    fn from_connects(opened: &Distribution, requests: u64) -> Self {
        if opened.count >= requests {
            return Self::from_distribution(opened);
        }
        let share = opened.count as f64 / requests as f64;
        let mean = opened.mean_ns * share;
        let mean_square = (opened.stdev_ns.powi(2) + opened.mean_ns.powi(2)) * share;
        Self {
            min: 0.0,
            mean,
            stdev: (mean_square - mean * mean).max(0.0).sqrt(),
            median: if share > 0.5 { opened.percentile_ns(50.0).unwrap_or(0) as f64 } else { 0.0 },
            max: opened.max_ns as f64,
        }
    }
}

/// Returns the time from the start of the connection, if the request opened one, to the last byte.
fn total_ns(sample: &Sample) -> u64 {
    sample.connect_ns + sample.response_ns
}

fn ms(nanoseconds: f64) -> u64 {
    (nanoseconds / 1e6).round() as u64
}
