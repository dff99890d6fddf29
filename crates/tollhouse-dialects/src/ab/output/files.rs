//! The files that ab writes: percentiles as CSV, requests as columns for gnuplot.

use time::OffsetDateTime;

use super::times::{Times, ms, total_ns};
use tollhouse_load::result::CaseResult;

/// Percentages from 0 to 100, each with the milliseconds within which so many were served.
pub fn csv(result: &CaseResult) -> String {
    let times = Times::of(result);
    let mut out = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100 {
        out.push_str(&format!("{percent},{:.3}\n", times.percentile_ns(percent) / 1e6));
    }
    out
}

/// Every request with its start (UTC, and seconds of Unix time) and its times in milliseconds, the
/// fastest first. Without single samples there is only the head.
pub fn gnuplot(result: &CaseResult) -> String {
    let mut out = String::from("starttime\tseconds\tctime\tdtime\tttime\twait\n");
    let mut samples: Vec<_> = result.samples.iter().collect();
    samples.sort_by_key(|sample| total_ns(sample));
    for sample in samples {
        let start_ns = u128::from(result.started_at_ms) * 1_000_000
            + u128::from(sample.at_ns.saturating_sub(sample.connect_ns));
        let seconds = i64::try_from(start_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let [connect, processing, total, wait] =
            [sample.connect_ns, sample.response_ns, total_ns(sample), sample.first_byte_ns]
                .map(|time_ns| ms(time_ns as f64));
        let start = readable(seconds);
        out.push_str(&format!("{start}\t{seconds}\t{connect}\t{processing}\t{total}\t{wait}\n"));
    }
    out
}

/// A time as C's `ctime` writes it: `Sat Nov 21 11:01:51 2026`.
fn readable(seconds: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let (hour, minute, second) = at.to_hms();
    let (day, year) = (at.day(), at.year());
    let (weekday, month) = (&weekday[..3], &month[..3]);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} {year}")
}
