//! Command lines of wrk and wrk2.
//!
//! Both tools have equal options; wrk2 adds a rate, and thus an open loop.
//! [`script`](super::script) parses scripts, as far as they only define what is sent.

use std::path::Path;
use std::time::Duration;

use crate::getopt::{self, Grammar, Line, Order};
use crate::{Action, set_header};
use tollhouse_load::case::{Case, Load};
use tollhouse_load::error::BenchError;
use tollhouse_load::pace::Pace;

use super::script::Script;

/// Tool that is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// wrk, which measures in a closed loop.
    Wrk,
    /// wrk2: a fixed rate, with latency from the planned start of a request.
    Wrk2,
}

/// Parsed command line of wrk or wrk2.
#[derive(Debug, Clone, PartialEq)]
pub struct WrkCommand {
    pub case: Case,
    /// URL as written on the command line.
    pub url: String,
    pub threads: u64,
    /// Requested number of connections. Each thread has the same number, so the case may have fewer
    /// in total.
    pub connections: u64,
    /// Requested duration, wrk2's calibration included.
    pub duration: Duration,
    /// Latency distributions to print.
    pub detail: Detail,
}

/// Distributions that are printed besides the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Print only the summary.
    Summary,
    /// Print the main distribution of the tool.
    Latency,
    /// Print both distributions: the main one, and the one that ignores that requests were sent
    /// late.
    Both,
}

/// Timeout if `-T` is absent.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
/// Duration of wrk2's calibration, whose results are discarded.
const CALIBRATION: Duration = Duration::from_secs(10);
/// Units of counts and of times, each with its factor.
const METRIC: [(&str, u64); 5] = [
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("p", 1_000_000_000_000_000),
];
const TIME: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3_600)];
/// Largest time and number of connections; larger values could overflow.
const VALUE_MAX: u64 = 1_000_000_000;

const WRK: Grammar = Grammar {
    tool: "wrk",
    flags: "Lvh",
    valued: "cdtsHT",
    long: &[
        ("connections", 'c'),
        ("duration", 'd'),
        ("threads", 't'),
        ("script", 's'),
        ("header", 'H'),
        ("latency", 'L'),
        ("timeout", 'T'),
        ("help", 'h'),
        ("version", 'v'),
    ],
    order: Order::Anywhere,
};

const WRK2: Grammar = Grammar {
    tool: "wrk2",
    flags: "LUBvh",
    valued: "cdtsHTR",
    long: &[
        ("connections", 'c'),
        ("duration", 'd'),
        ("threads", 't'),
        ("script", 's'),
        ("header", 'H'),
        ("latency", 'L'),
        ("u_latency", 'U'),
        ("batch_latency", 'B'),
        ("timeout", 'T'),
        ("rate", 'R'),
        ("help", 'h'),
        ("version", 'v'),
    ],
    order: Order::Anywhere,
};

/// Parses a command line, without the tool's name.
///
/// # Errors
/// If the tool would refuse it too, or it is not supported here; the text gives the reason.
pub fn parse(tool: Tool, arguments: &[String]) -> Result<Action<WrkCommand>, BenchError> {
    let grammar = match tool {
        Tool::Wrk => &WRK,
        Tool::Wrk2 => &WRK2,
    };
    let refuse = |why: String| BenchError::Case { key: grammar.tool.into(), why };
    let line = getopt::parse(grammar, arguments).map_err(refuse)?;
    let has = |letter| line.options.iter().any(|(option, _)| *option == letter);
    if has('h') {
        return Ok(Action::Print(usage(tool)));
    }
    if has('v') && line.operands.is_empty() {
        return Ok(Action::Print(format!(
            "{} options, read by tollhouse {}\n",
            grammar.tool,
            env!("CARGO_PKG_VERSION")
        )));
    }
    let values = Values::parse(&line).map_err(refuse)?;
    let url = target(&line).map_err(refuse)?;
    values.check(tool).map_err(refuse)?;
    Ok(Action::Run(values.into_command(tool, url)?))
}

/// Values of a command line, with wrk's defaults.
struct Values {
    connections: u64,
    threads: u64,
    duration_seconds: u64,
    timeout: Duration,
    rate: Option<u64>,
    headers: Vec<(String, String)>,
    script: Option<String>,
    detail: Detail,
}

impl Values {
    fn parse(line: &Line) -> Result<Self, String> {
        let mut values = Self {
            connections: 10,
            threads: 2,
            duration_seconds: 10,
            timeout: TIMEOUT_DEFAULT,
            rate: None,
            headers: Vec::new(),
            script: None,
            detail: Detail::Summary,
        };
        for (letter, value) in &line.options {
            values.take(*letter, value)?;
        }
        Ok(values)
    }

    fn take(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'c' => self.connections = scaled("connections", value, &METRIC)?,
            't' => self.threads = scaled("threads", value, &METRIC)?,
            'd' => self.duration_seconds = scaled("duration", value, &TIME)?,
            'T' => self.timeout = Duration::from_secs(scaled("timeout", value, &TIME)?),
            'R' => self.rate = Some(scaled("rate", value, &METRIC)?),
            's' => self.script = Some(value.to_owned()),
            'H' => self.take_header(value)?,
            'L' => self.detail = self.detail.max(Detail::Latency),
            'U' => self.detail = Detail::Both,
            // `-v` with a URL prints nothing more. `-B` measures batches of pipelined requests;
            // without pipelining, each request is a separate batch.
            _ => {}
        }
        Ok(())
    }

    fn take_header(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once(':').ok_or_else(|| format!("header `{text}` has no colon"))?;
        set_header(&mut self.headers, name.trim(), value.trim().to_owned());
        Ok(())
    }

    fn check(&self, tool: Tool) -> Result<(), String> {
        if self.threads == 0 || self.duration_seconds == 0 {
            return Err("threads and duration must be above 0".into());
        }
        if self.timeout.is_zero() {
            return Err("timeout must be above 0".into());
        }
        if self.connections < self.threads {
            return Err("number of connections must be >= threads".into());
        }
        if tool == Tool::Wrk2 && self.rate.unwrap_or(0) == 0 {
            return Err("Throughput MUST be specified with the --rate or -R option".into());
        }
        Ok(())
    }

    fn into_command(self, tool: Tool, url: String) -> Result<WrkCommand, BenchError> {
        let duration = Duration::from_secs(self.duration_seconds);
        let warm_up = match tool {
            Tool::Wrk2 if duration > CALIBRATION => CALIBRATION,
            _ => Duration::ZERO,
        };
        let per_thread = self.connections / self.threads;
        let mut case = Case::new(url.clone());
        case.name = format!("{} connections", per_thread * self.threads);
        case.load = Load {
            connections: usize::try_from(per_thread * self.threads).unwrap_or(usize::MAX),
            workers: usize::try_from(self.threads).ok(),
            pace: self.rate.map_or(Pace::Closed, |rate| Pace::Rate(rate as f64)),
            duration: Some(duration - warm_up),
            warm_up,
            timeout: self.timeout,
            ..Load::default()
        };
        // Neither tool verifies certificates, and both count answers with any status as requests.
        case.tls.insecure = url.starts_with("https:");
        case.checks.any_status = true;
        case.http.headers = self.headers;
        if let Some(path) = &self.script {
            let headers = std::mem::take(&mut case.http.headers);
            Script::open(Path::new(path), headers)?.apply(&mut case);
        }
        // Neither tool sends `User-Agent`; an empty value removes the default one.
        let headers = &mut case.http.headers;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
            headers.push(("User-Agent".to_owned(), String::new()));
        }
        Ok(WrkCommand {
            case,
            url,
            threads: self.threads,
            connections: self.connections,
            duration,
            detail: self.detail,
        })
    }
}

fn target(line: &Line) -> Result<String, String> {
    let (url, more) = match line.operands.as_slice() {
        [] => return Err("a URL is missing, such as http://127.0.0.1:9080/".into()),
        [url, more @ ..] => (url, more),
    };
    if let Some(argument) = more.first() {
        return Err(format!(
            "`{argument}`: arguments for a script are not supported; write what is sent in a plan file"
        ));
    }
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    if !matches!(scheme, Some("http" | "https")) {
        return Err(format!("invalid URL: {url}"));
    }
    Ok(url.clone())
}

/// Parses an integer with an optional unit, in any case.
fn scaled(name: &str, text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let known = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let scale = if unit.is_empty() { Some(1) } else { known.map(|(_, scale)| *scale) };
    let value = number.parse::<u64>().ok().zip(scale).and_then(|(n, scale)| n.checked_mul(scale));
    value.filter(|value| *value <= VALUE_MAX).ok_or_else(|| {
        let units: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        format!(
            "{name} `{text}` is not a whole number up to {VALUE_MAX} with a unit of {}",
            units.join(", ")
        )
    })
}

pub fn usage(tool: Tool) -> String {
    let (name, more) = match tool {
        Tool::Wrk => ("wrk", "    -L, --latency          Print the distribution of times\n"),
        Tool::Wrk2 => (
            "wrk2",
            "    -R, --rate        <N>  Requests a second over all connections; required\n    \
             -L, --latency          Print the distribution of latency, from the planned start\n    \
             -U, --u_latency        Print the one from the actual start as well\n    \
             -B, --batch_latency    Time batches; each request is a batch of its own here\n",
        ),
    };
    format!(
        "Usage: tollhouse bench {name} <options> <url>\n  Options:\n    \
         -c, --connections <N>  Connections to keep open (10)\n    \
         -d, --duration    <T>  How long (10s)\n    \
         -t, --threads     <N>  Threads (2)\n    \
         -s, --script      <S>  A script that sets wrk.method, wrk.path, wrk.body, wrk.headers\n    \
         -H, --header      <H>  Add a header; may be repeated\n{more}    \
         -T, --timeout     <T>  The longest a request may take (2s)\n    \
         -v, --version          Print the version\n\n  \
         Numbers may have a unit (1k, 1M, 1G), times too (2s, 2m, 2h).\n"
    )
}

#[cfg(test)]
mod tests;
