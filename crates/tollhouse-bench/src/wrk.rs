//! Runs wrk, and parses its output.

use crate::shell;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Load that wrk sends.
pub(crate) struct Load<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    pub(crate) connections: usize,
    /// Lua script that makes the requests. With a script, `path` is unused.
    pub(crate) script: Option<&'a Path>,
    pub(crate) duration: Duration,
}

/// Figures that wrk prints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Number of socket errors, of timeouts, and of answers with other statuses than 2xx and 3xx.
    pub(crate) errors: u64,
}

/// Sends a load with wrk, on the core of this program.
pub(crate) fn run(load: &Load<'_>) -> Result<Outcome> {
    let mut command = shell::command("wrk");
    let seconds = format!("-d{}s", load.duration.as_secs().max(1));
    command.args(["-t1", &format!("-c{}", load.connections), &seconds, "--latency"]);
    if let Some(script) = load.script {
        command.arg("-s").arg(script);
    }
    command.arg(format!("http://127.0.0.1:{}{}", load.port, load.path));
    let text = shell::output_of(&mut command)?;
    parse(&text).with_context(|| format!("wrk printed something else:\n{text}"))
}

/// Parses the output of wrk.
pub(crate) fn parse(text: &str) -> Option<Outcome> {
    let line_with = |word: &str| text.lines().map(str::trim).find(|line| line.contains(word));
    let value_after = |word: &str| {
        text.lines().map(str::trim).find_map(|line| line.strip_prefix(word)).map(str::trim)
    };
    let requests = line_with(" requests in ")?.split(' ').next()?.parse().ok()?;
    let socket_errors = line_with("Socket errors:").map_or(0, sum_of_numbers);
    let bad_answers = line_with("Non-2xx or 3xx responses:").map_or(0, sum_of_numbers_after_colon);
    Some(Outcome {
        requests,
        requests_per_second: value_after("Requests/sec:")?.parse().ok()?,
        p50_us: micros(value_after("50%")?)?,
        p99_us: micros(value_after("99%")?)?,
        errors: socket_errors + bad_answers,
    })
}

fn sum_of_numbers(line: &str) -> u64 {
    line.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok()).sum()
}

fn sum_of_numbers_after_colon(line: &str) -> u64 {
    line.split_once(':').map_or(0, |(_, rest)| sum_of_numbers(rest))
}

/// Parses a time such as `812.00us`, `1.20ms`, `2.50s` or `1.10m`, and returns microseconds.
fn micros(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let value: f64 = text[..unit_at].parse().ok()?;
    let scale = match &text[unit_at..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(value * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.02ms  0.20ms 5ms 90%\n  \
        Latency Distribution\n     50%  812.00us\n     75%    1.10ms\n     90%    1.20ms\n     \
        99%    2.50ms\n  131072 requests in 2.00s, 280.00MB read\n  \
        Socket errors: connect 0, read 1, write 0, timeout 3\n  \
        Non-2xx or 3xx responses: 7\nRequests/sec:  65536.50\nTransfer/sec:    140.00MB\n";

    #[test]
    fn the_report_is_read() {
        let expected = Outcome {
            requests: 131_072,
            requests_per_second: 65_536.5,
            p50_us: 812.0,
            p99_us: 2500.0,
            errors: 11,
        };
        assert_eq!(parse(OUTPUT), Some(expected));
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(parse("unable to connect"), None);
    }

    #[test]
    fn units_of_time_are_known() {
        let cases = [("1.5us", Some(1.5)), ("2.00s", Some(2e6)), ("1h", None), ("", None)];
        for (text, expected) in cases {
            assert_eq!(micros(text), expected, "{text}");
        }
    }
}
