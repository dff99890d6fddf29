//! Result in wrk's format, including columns and units, for scripts that parse wrk's output.
//!
//! As in wrk, the table shows times that are corrected after the run. A time longer than two mean
//! intervals of a connection also counts for the requests that were not sent meanwhile.

mod units;

use crate::wrk::options::{Detail, WrkCommand};
use tollhouse_load::distribution::Distribution;
use tollhouse_load::failure::FailureClass;
use tollhouse_load::result::{CaseResult, RateStatistics};

pub(crate) use units::{binary, microseconds, padded};

const PERCENTILES: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

/// Returns the text before the run.
pub fn heading(command: &WrkCommand) -> String {
    format!(
        "Running {} test @ {}\n  {} threads and {} connections\n",
        units::seconds(command.duration.as_secs_f64()),
        command.url,
        command.threads,
        command.connections,
    )
}

/// Returns the text after the run.
pub fn text(result: &CaseResult, detail: Detail) -> String {
    let times = corrected(result);
    let mut out = table(&times, &result.worker_rates);
    if detail > Detail::Summary {
        out.push_str("  Latency Distribution\n");
        for percent in PERCENTILES {
            let value_ns = times.percentile_ns(percent).unwrap_or(0);
            let value = padded(&microseconds(value_ns as f64 / 1e3), 10);
            out.push_str(&format!("{percent:7.0}%{value}\n"));
        }
    }
    out.push_str(&totals(result));
    out
}

/// Returns the table of times and rates.
pub(crate) fn table(times: &Distribution, rates: &RateStatistics) -> String {
    let within = within_stdev(times);
    let time = |value_ns: f64, width| padded(&microseconds(value_ns / 1e3), width);
    let rate = |value, width| padded(&units::metric(value), width);
    format!(
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
         Latency   {}{}{}{}\n    \
         Req/Sec   {}{}{}{}\n",
        time(times.mean_ns, 8),
        time(times.stdev_ns, 10),
        time(times.max_ns as f64, 9),
        share(within),
        rate(rates.mean, 8),
        rate(rates.stdev, 10),
        rate(rates.max, 9),
        share((rates.mean > 0.0).then_some(rates.within_stdev)),
    )
}

/// Returns the lines about requests, bytes, errors and rates.
pub(crate) fn totals(result: &CaseResult) -> String {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let answers = answers(result);
    let bytes = result.counts.received_bytes as f64;
    let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let mut out = format!(
        "  {answers} requests in {}, {}B read\n",
        microseconds(seconds * 1e6),
        binary(bytes)
    );
    out.push_str(&errors(result));
    out.push_str(&format!(
        "Requests/sec: {:9.2}\nTransfer/sec: {:>10}B\n",
        per_second(answers as f64),
        binary(per_second(bytes))
    ));
    out
}

/// Returns the lines about errors, if there were any.
fn errors(result: &CaseResult) -> String {
    use FailureClass::{Closed, Connect, Malformed, Reset, Timeout, Tls, Write};
    let of = |classes: &[FailureClass]| -> u64 {
        let counts = classes.iter().map(|class| result.counts.failures.get(class.as_str()));
        counts.flatten().sum()
    };
    let connect = of(&[Connect, Tls]);
    let read = of(&[Reset, Closed, Malformed]);
    let (write, timeout) = (of(&[Write]), of(&[Timeout]));
    let mut out = String::new();
    if connect + read + write + timeout > 0 {
        out.push_str(&format!(
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}\n"
        ));
    }
    let bad = bad_statuses(result);
    if bad > 0 {
        out.push_str(&format!("  Non-2xx or 3xx responses: {bad}\n"));
    }
    out
}

/// Returns the number of complete answers, with any status.
fn answers(result: &CaseResult) -> u64 {
    result.counts.statuses.values().sum()
}

fn bad_statuses(result: &CaseResult) -> u64 {
    let is_bad = |status: &str| status.parse::<u16>().is_ok_and(|status| status > 399);
    let statuses = result.counts.statuses.iter();
    statuses.filter(|(status, _)| is_bad(status)).map(|(_, count)| count).sum()
}

/// Returns the response times, with added times for requests that were not sent while a connection
/// waited.
fn corrected(result: &CaseResult) -> Distribution {
    let per_connection = answers(result) / result.concurrency.max(1);
    if per_connection == 0 || result.response_time.values.is_empty() {
        return result.response_time.clone();
    }
    let interval_ns = (result.elapsed_ns / per_connection).max(1);
    Distribution::from_histogram(&result.response_time.to_histogram().clone_correct(interval_ns))
}

/// Returns the fraction of times within one standard deviation of the mean; `None` without times.
fn within_stdev(times: &Distribution) -> Option<f64> {
    let near = (times.mean_ns - times.stdev_ns)..=(times.mean_ns + times.stdev_ns);
    let recorded: u64 = times.values.iter().map(|(_, count)| count).sum();
    let within = times.values.iter().filter(|(value, _)| near.contains(&(*value as f64)));
    let within: u64 = within.map(|(_, count)| count).sum();
    (recorded > 0).then(|| within as f64 / recorded as f64)
}

/// Formats a fraction as a column; a missing one as C prints it (`-nan`).
fn share(share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{:8.2}%", share * 100.0),
        None => format!("{:>8}%", "-nan"),
    }
}

#[cfg(test)]
mod tests;
