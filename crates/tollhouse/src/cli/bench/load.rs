//! Options on amount, pace and duration of the load, common to all protocols.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tollhouse_load::case::{AtEnd, Load};
use tollhouse_load::pace::{Burst, Pace, Ramp, Steps};
use tollhouse_stdx::fine_duration;

/// Default warm-up of a load with a duration, in which connections open and caches fill. A load
/// with a number of requests has no warm-up, so that exactly that many are sent.
const WARM_UP_DEFAULT: Duration = Duration::from_secs(1);

/// Options of the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArguments {
    /// Total number of connections.
    #[arg(short, long, value_name = "COUNT", default_value_t = 50)]
    connections: usize,
    /// Concurrent requests per connection, for HTTP/2 and gRPC.
    #[arg(short = 'm', long, value_name = "COUNT", default_value_t = 1)]
    streams: usize,
    /// Number of threads; one per core by default.
    #[arg(short = 't', long, value_name = "COUNT")]
    workers: Option<usize>,
    /// Number of measured requests; with --duration, the limit that is reached first ends the
    /// measurement.
    #[arg(short = 'n', long, value_name = "COUNT")]
    requests: Option<u64>,
    /// Measured time [default: 10s, unless --requests is given].
    #[arg(short, long, value_name = "TIME", value_parser = fine_duration::parse)]
    duration: Option<Duration>,
    /// Load before anything is recorded [default: 1s, and none for --requests].
    #[arg(long, value_name = "TIME", value_parser = fine_duration::parse)]
    warm_up: Option<Duration>,
    /// Time after which a request counts as failed.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = fine_duration::parse)]
    timeout: Duration,
    /// Open a new connection for every request.
    #[arg(long)]
    no_keep_alive: bool,
    /// Handling of unfinished requests at the end: `auto` waits for them if there is a rate.
    #[arg(long, value_enum, default_value_t = End::Auto)]
    at_end: End,
    /// Continue even if nothing succeeds, instead of giving up after 3 seconds.
    #[arg(long)]
    persistent: bool,
    #[command(flatten)]
    pace: PaceArguments,
}

/// Options of the pace; without one, a connection sends as soon as it has its answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rhythm (without one, as fast as answers come: a closed loop)")]
#[group(multiple = false)]
struct PaceArguments {
    /// Total requests per second, evenly spaced: an open loop, whose latency counts from when a
    /// request is due.
    #[arg(short, long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// A staircase of rates, such as `1000:500:5000:10s`.
    #[arg(long, value_name = "START:STEP:END:TIME", value_parser = parse_steps)]
    steps: Option<Steps>,
    /// A linear change between two rates, such as `0:5000:1m`; the last rate then holds.
    #[arg(long, value_name = "FROM:TO:TIME", value_parser = parse_ramp)]
    ramp: Option<Ramp>,
    /// A number of requests at once per interval, such as `500:1s`.
    #[arg(long, value_name = "COUNT:TIME", value_parser = parse_burst)]
    burst: Option<Burst>,
    /// Pause after each answer.
    #[arg(long, value_name = "TIME", value_parser = fine_duration::parse)]
    think: Option<Duration>,
}

/// Handling of unfinished requests at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// Abandon unfinished requests in a closed loop, and wait for them in an open loop.
    Auto,
    /// Abandon unfinished requests; they are counted as such.
    Abandon,
    /// Wait for unfinished requests, up to the timeout.
    Wait,
}

impl LoadArguments {
    /// Converts the options to the load.
    pub fn load(&self) -> Load {
        let is_timed = self.requests.is_none() || self.duration.is_some();
        let warm_up = if is_timed { WARM_UP_DEFAULT } else { Duration::ZERO };
        let at_end = match self.at_end {
            End::Auto => AtEnd::Auto,
            End::Abandon => AtEnd::Abandon,
            End::Wait => AtEnd::Wait,
        };
        Load {
            connections: self.connections,
            streams: self.streams,
            workers: self.workers,
            pace: self.pace.pace(),
            requests: self.requests,
            duration: self.duration,
            warm_up: self.warm_up.unwrap_or(warm_up),
            timeout: self.timeout,
            keep_alive: !self.no_keep_alive,
            at_end,
            persistent: self.persistent,
            ..Load::default()
        }
    }
}

impl PaceArguments {
    fn pace(&self) -> Pace {
        let steps = self.steps.map(Pace::Steps);
        let rate = self.rate.map(Pace::Rate).or(steps);
        let ramp = self.ramp.map(Pace::Ramp);
        let burst = self.burst.map(Pace::Burst).or(self.think.map(Pace::Think));
        rate.or(ramp).or(burst).unwrap_or_default()
    }
}

/// Parses a rate such as `500`, `20k`, `1.5k`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text, 1.0),
        },
    };
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value
        .map(|value| value * unit)
        .ok_or_else(|| format!("`{text}` is not a rate; write 500 or 20k"))
}

fn parts<const COUNT: usize>(text: &str, shape: &str) -> Result<[String; COUNT], String> {
    let parts: Vec<String> = text.split(':').map(|part| part.trim().to_owned()).collect();
    parts.try_into().map_err(|_| format!("write {shape}"))
}

fn parse_steps(text: &str) -> Result<Steps, String> {
    let [start, step, end, every] = parts(text, "START:STEP:END:TIME, such as 1000:500:5000:10s")?;
    let step = match step.strip_prefix('-') {
        Some(step) => -parse_rate(step)?,
        None => parse_rate(&step)?,
    };
    let (start, end) = (parse_rate(&start)?, parse_rate(&end)?);
    Ok(Steps { start, step, end, every: fine_duration::parse(&every)? })
}

fn parse_ramp(text: &str) -> Result<Ramp, String> {
    let [from, to, over] = parts(text, "FROM:TO:TIME, such as 0:5000:1m")?;
    Ok(Ramp { from: parse_rate(&from)?, to: parse_rate(&to)?, over: fine_duration::parse(&over)? })
}

fn parse_burst(text: &str) -> Result<Burst, String> {
    let shape = "COUNT:TIME, such as 500:1s";
    let [requests, every] = parts(text, shape)?;
    let requests =
        requests.parse().map_err(|_| format!("`{requests}` is not a count; write {shape}"))?;
    Ok(Burst { requests, every: fine_duration::parse(&every)? })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn load(words: &str) -> Load {
        let words = std::iter::once("bench").chain(words.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).load.load()
    }

    #[test]
    fn a_rhythm_is_read_from_words() {
        let second = Duration::from_secs(1);
        for (words, pace) in [
            ("", Pace::Closed),
            ("--rate 20k", Pace::Rate(20_000.0)),
            ("-r 1.5M", Pace::Rate(1_500_000.0)),
            ("--think 1s", Pace::Think(second)),
            ("--burst 500:1s", Pace::Burst(Burst { requests: 500, every: second })),
            ("--ramp 0:5k:1s", Pace::Ramp(Ramp { from: 0.0, to: 5_000.0, over: second })),
            (
                "--steps 500:-50:100:1s",
                Pace::Steps(Steps { start: 500.0, step: -50.0, end: 100.0, every: second }),
            ),
        ] {
            assert_eq!(load(words).pace, pace, "{words}");
        }
    }

    #[test]
    fn a_number_of_requests_is_not_warmed_up_for() {
        assert_eq!(load("").warm_up, WARM_UP_DEFAULT);
        assert_eq!(load("-n 5").warm_up, Duration::ZERO);
        assert_eq!(load("-n 5 -d 3s").warm_up, WARM_UP_DEFAULT);
        assert_eq!(load("-n 5 --warm-up 2s").warm_up, Duration::from_secs(2));
        assert!(load("").keep_alive && !load("--no-keep-alive").keep_alive);
    }

    #[test]
    fn words_that_say_no_rhythm_are_refused() {
        let wrong = [
            "--rate fast",
            "--steps 1:2:3",
            "--ramp 1",
            "--burst x:1s",
            "-r 5 --think 1s",
            "-r -5",
        ];
        for words in wrong {
            let words = std::iter::once("bench").chain(words.split_whitespace());
            assert!(
                Line::try_parse_from(words.clone()).is_err(),
                "{:?}",
                words.collect::<Vec<_>>()
            );
        }
    }
}
