//! Figures of ghz's reports, computed as ghz does: from single requests if they were kept,
//! otherwise from the distribution. Seconds are floating-point numbers, rounded down to the
//! nanosecond, as in ghz.

use std::collections::BTreeMap;

use tollhouse_load::protocol::grpc::status::Code;

use crate::ghz::GhzOptions;
use go_template::golang::date;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::{CaseResult, End, Sample};

/// Percentiles that ghz's reports list.
const PERCENTILES: [u32; 7] = [10, 25, 50, 75, 90, 95, 99];
/// Number of histogram steps; the number of marks is one higher.
const STEPS: usize = 10;
const NANOSECONDS: f64 = 1e9;

const DEADLINE_EXCEEDED: u16 = 4;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

pub(super) struct Figures<'a> {
    pub(super) options: &'a GhzOptions,
    /// Reason for the end: `normal`, `timeout` or `cancel`.
    pub(super) end_reason: &'static str,
    /// End of the run, in nanoseconds of Unix time.
    pub(super) ended_ns: i64,
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) average_ns: u64,
    pub(super) fastest_ns: u64,
    pub(super) slowest_ns: u64,
    pub(super) rate: f64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) statuses: BTreeMap<String, u64>,
    /// Pairs of a percentage and a time in nanoseconds.
    pub(super) latencies: Vec<(u32, u64)>,
    pub(super) histogram: Vec<Bucket>,
    pub(super) details: Vec<Detail>,
}

/// Bar of ghz's histogram.
pub(super) struct Bucket {
    /// Upper bound of the bar in seconds.
    pub(super) mark: f64,
    pub(super) count: u64,
    /// Fraction of all requests that are in the bar.
    pub(super) frequency: f64,
}

/// Request in ghz's details.
pub(super) struct Detail {
    /// End of the request, in nanoseconds of Unix time.
    pub(super) ended_ns: i64,
    pub(super) latency_ns: u64,
    pub(super) error: String,
    pub(super) status: String,
}

impl<'a> Figures<'a> {
    pub(super) fn new(result: &CaseResult, options: &'a GhzOptions) -> Self {
        let details = details(result, options);
        // ghz computes figures from the details if it has them, so skipped requests are missing in
        // both.
        let seen = if details.is_empty() {
            Tally::from_counts(result)
        } else {
            Tally::from_details(&details, options)
        };
        let begun_ns = i64::try_from(result.started_at_ms).unwrap_or(0).saturating_mul(1_000_000);
        let elapsed_ns = i64::try_from(result.elapsed_ns).unwrap_or(i64::MAX);
        let seconds = result.elapsed_ns as f64 / NANOSECONDS;
        let times = &seen.times;
        Self {
            options,
            end_reason: end_reason(result),
            ended_ns: begun_ns.saturating_add(elapsed_ns),
            count: seen.count,
            total_ns: result.elapsed_ns,
            average_ns: whole(seen.average_seconds),
            fastest_ns: times.first().map_or(0, |(seconds, _)| whole(*seconds)),
            slowest_ns: times.last().map_or(0, |(seconds, _)| whole(*seconds)),
            rate: if seconds > 0.0 { seen.count as f64 / seconds } else { 0.0 },
            latencies: latencies(times),
            histogram: histogram(times),
            errors: seen.errors,
            statuses: seen.statuses,
            details,
        }
    }

    /// Returns the end of the run in RFC 3339.
    pub(super) fn date(&self) -> String {
        let mut out = String::new();
        date::format(self.ended_ns, date::RFC_3339, &mut out);
        out
    }
}

/// Collected values, from details or counts.
struct Tally {
    count: u64,
    average_seconds: f64,
    errors: BTreeMap<String, u64>,
    statuses: BTreeMap<String, u64>,
    /// Times in seconds with their numbers, in ascending order.
    times: Vec<(f64, u64)>,
}

impl Tally {
    fn from_details(details: &[Detail], options: &GhzOptions) -> Self {
        let mut errors = BTreeMap::new();
        let mut statuses = BTreeMap::new();
        let mut sum = 0.0;
        let mut times = Vec::new();
        for detail in details {
            let seconds = seconds(detail.latency_ns);
            sum += seconds;
            *statuses.entry(detail.status.clone()).or_default() += 1;
            if !detail.error.is_empty() {
                *errors.entry(detail.error.clone()).or_default() += 1;
            }
            if detail.error.is_empty() || options.count_errors {
                times.push((seconds, 1));
            }
        }
        times.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        let count = details.len() as u64;
        Self { count, average_seconds: sum / count as f64, errors, statuses, times }
    }

    fn from_counts(result: &CaseResult) -> Self {
        let counts = &result.counts;
        let mut statuses = counts.statuses.clone();
        for class in FailureClass::ALL {
            let without_answer = counts.failures.get(class.as_str()).copied().unwrap_or(0);
            if without_answer > 0 && !class.is_answer() {
                *statuses.entry(code_name(code_of(class)).to_owned()).or_default() +=
                    without_answer;
            }
        }
        let times = &result.response_time;
        Self {
            count: counts.completed,
            average_seconds: times.mean_ns / NANOSECONDS,
            errors: counts.messages.clone(),
            statuses,
            times: times.values.iter().map(|(value_ns, n)| (seconds(*value_ns), *n)).collect(),
        }
    }
}

/// Returns single requests in the order of their ends, without the skipped ones.
fn details(result: &CaseResult, options: &GhzOptions) -> Vec<Detail> {
    let mut samples: Vec<&Sample> = result.samples.iter().collect();
    samples.sort_by_key(|sample| sample.at_ns.saturating_add(sample.response_ns));
    let skipped = usize::try_from(options.skip_first).unwrap_or(usize::MAX);
    let begun_ns = i64::try_from(result.started_at_ms).unwrap_or(0).saturating_mul(1_000_000);
    samples.into_iter().skip(skipped).map(|sample| detail(result, sample, begun_ns)).collect()
}

fn detail(result: &CaseResult, sample: &Sample, begun_ns: i64) -> Detail {
    let code = match sample.failure {
        Some(class) if sample.status == 0 => code_of(class),
        _ => sample.status,
    };
    let after_ns = sample.at_ns.saturating_add(sample.response_ns);
    Detail {
        ended_ns: begun_ns.saturating_add(i64::try_from(after_ns).unwrap_or(i64::MAX)),
        latency_ns: sample.response_ns,
        error: sample.failure.map_or_else(String::new, |class| error_text(result, class, code)),
        status: code_name(code).to_owned(),
    }
}

/// Returns the message of a failure. Samples only contain its class and status; a message is used
/// if exactly one matches.
fn error_text(result: &CaseResult, class: FailureClass, code: u16) -> String {
    let name = code_name(code);
    let messages = &result.counts.messages;
    let mark = format!("code = {name} ");
    let mut fitting = messages.keys().filter(|message| message.contains(&mark));
    match (fitting.next(), fitting.next()) {
        (Some(message), None) => message.clone(),
        (None, _) if messages.len() == 1 => messages.keys().next().cloned().unwrap_or_default(),
        _ => format!("rpc error: code = {name} desc = {class}"),
    }
}

/// Returns the gRPC status that a client reports for a failure without an answer.
fn code_of(class: FailureClass) -> u16 {
    match class {
        FailureClass::Timeout => DEADLINE_EXCEEDED,
        FailureClass::Malformed | FailureClass::Status | FailureClass::Check => INTERNAL,
        FailureClass::Connect
        | FailureClass::Tls
        | FailureClass::Reset
        | FailureClass::Closed
        | FailureClass::Write => UNAVAILABLE,
    }
}

fn code_name(code: u16) -> &'static str {
    let name = u8::try_from(code).ok().and_then(|code| Code(code).known_name());
    name.unwrap_or("Unknown")
}

fn end_reason(result: &CaseResult) -> &'static str {
    let ends_by_time = result.case.as_ref().is_some_and(|case| case.load.requests.is_none());
    match result.end {
        End::Interrupted => "cancel",
        End::Completed if ends_by_time => "timeout",
        End::Completed => "normal",
    }
}

/// Converts to seconds in the two steps that Go uses, so that the last digit is equal.
fn seconds(nanoseconds: u64) -> f64 {
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    whole as f64 + rest as f64 / NANOSECONDS
}

fn whole(seconds: f64) -> u64 {
    (seconds * NANOSECONDS) as u64
}

fn latencies(times: &[(f64, u64)]) -> Vec<(u32, u64)> {
    let total: u64 = times.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Vec::new();
    }
    let at = |percentage: u32| {
        let place = f64::from(percentage) / 100.0 * total as f64;
        let is_whole = place.fract() == 0.0;
        let rank = (place as u64).saturating_sub(u64::from(is_whole));
        let mut seen = 0;
        let found = times.iter().find(|(_, count)| {
            seen += count;
            seen > rank
        });
        found.map_or(0, |(seconds, _)| whole(*seconds))
    };
    PERCENTILES.into_iter().map(|percentage| (percentage, at(percentage))).collect()
}

fn histogram(times: &[(f64, u64)]) -> Vec<Bucket> {
    let (Some((fastest, _)), Some((slowest, _))) = (times.first(), times.last()) else {
        return Vec::new();
    };
    let width = (slowest - fastest) / STEPS as f64;
    let mut marks: Vec<f64> = (0..STEPS).map(|step| fastest + width * step as f64).collect();
    marks.push(*slowest);
    let mut counts = [0_u64; STEPS + 1];
    let mut at = 0;
    for (seconds, count) in times {
        while *seconds > marks[at] && at < STEPS {
            at += 1;
        }
        counts[at] += count;
    }
    let total: u64 = counts.iter().sum();
    let bucket = |(mark, count)| Bucket { mark, count, frequency: count as f64 / total as f64 };
    marks.into_iter().zip(counts).map(bucket).collect()
}
