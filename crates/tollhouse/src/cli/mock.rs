//! `tollhouse mock`: a mock upstream.
//!
//! This file contains the arguments and the output. The server is in the crate `tollhouse_mock`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollhouse_load::preflight;
use tollhouse_mock::{
    Behaviour, Body, GrpcAnswer, Mock, MockError, Shape, Share, Stall, Statuses, Tls, Totals,
};
use tollhouse_stdx::fine_duration;
use tollhouse_stdx::plural::{counted, counted_as};

use super::problems::{FAILED, UNUSABLE, print_failure};
use tollhouse_control::signals::{Request, Signals};

/// Number of file descriptors that a mock needs in addition to those of its connections: for
/// listeners, reactors, timers and standard streams.
const DESCRIPTORS_BESIDE: u64 = 256;

/// Arguments of `mock`.
#[derive(Debug, Args)]
pub struct MockArguments {
    /// Address to listen on; may be repeated. Each supports HTTP/1.1, HTTP/2, gRPC and WebSocket.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: Vec<SocketAddr>,
    /// Behave like the upstream of a published report; other flags change it.
    #[arg(long, value_enum, value_name = "NAME")]
    preset: Option<Preset>,
    /// Number of worker threads; one per core by default.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    workers: usize,
    /// Expected number of connections: warns if the limit of open files does not allow them.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    connections: u64,
    /// Seed of the random choices, to make them repeatable.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    latency: LatencyArguments,
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    grpc: GrpcArguments,
    #[command(flatten)]
    tls: TlsArguments,
}

/// Parses a time, which must have a unit, because a bare `20` seldom means twenty seconds here.
fn parse_time(text: &str) -> Result<Duration, String> {
    let time = fine_duration::parse(text)?;
    let is_bare = text.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_bare && !time.is_zero() {
        return Err(format!("`{text}` has no unit; write {text}ms or {text}s"));
    }
    Ok(time)
}

/// Options on the latency of answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Latency")]
struct LatencyArguments {
    /// Mean time from a request's arrival to its answer, such as 20ms or 500us. Times of this group
    /// have a unit.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    latency: Option<Duration>,
    /// Distribution of latencies: fixed, uniform, normal, lognormal or exponential.
    #[arg(long, value_name = "SHAPE")]
    latency_distribution: Option<Shape>,
    /// Half the width of uniform (default: half of the latency), or the standard deviation of
    /// normal (default: a tenth) and lognormal (default: half).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    latency_spread: Option<Duration>,
    /// Upper bound of latencies.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    latency_max: Option<Duration>,
    /// Stall once, this long after the first request: nothing is read or answered.
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "stall_for")]
    stall_after: Option<Duration>,
    /// Duration of the stall.
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "stall_after")]
    stall_for: Option<Duration>,
}

/// Options on the contents of answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Answers")]
struct AnswerArguments {
    /// Status, or statuses with weights such as 200=95,503=5.
    #[arg(long, value_name = "LIST")]
    status: Option<Statuses>,
    /// Answer with this number of bytes of text; without any of these flags the body is `ok`.
    #[arg(long, value_name = "BYTES", group = "answer_body")]
    body_bytes: Option<usize>,
    /// Answer with this text.
    #[arg(long, value_name = "TEXT", group = "answer_body")]
    body: Option<String>,
    /// Answer with the contents of this file.
    #[arg(long, value_name = "FILE", group = "answer_body")]
    body_file: Option<PathBuf>,
    /// Answer with the body of the request.
    #[arg(long, group = "answer_body")]
    echo: bool,
    /// Header of every answer, as NAME:VALUE; may be repeated. Content-Type and Server replace
    /// the usual ones.
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// Answer only this path; others get 404.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Share of requests that are answered with status 500, such as 1% or 0.01; gRPC calls with
    /// INTERNAL.
    #[arg(long, value_name = "SHARE")]
    error_rate: Option<Share>,
    /// Share of requests for which the connection, or the stream of HTTP/2, is reset.
    #[arg(long, value_name = "SHARE")]
    reset_rate: Option<Share>,
}

/// Options on answers to gRPC calls.
#[derive(Debug, Args)]
#[command(next_help_heading = "gRPC")]
struct GrpcArguments {
    /// Messages of a call to send back: each as it comes (unary calls, streams both ways), or the
    /// last at the end (client streaming).
    #[arg(long, value_enum, value_name = "WHICH")]
    grpc_answer: Option<Which>,
    /// Number of times that a message is sent back (server streaming).
    #[arg(long, value_name = "N")]
    grpc_repeat: Option<u32>,
    /// Status of calls; above 0 without a message.
    #[arg(long, value_name = "CODE")]
    grpc_status: Option<u8>,
}

/// Options on TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
struct TlsArguments {
    /// Use TLS with a new certificate; clients must not check it (curl -k).
    #[arg(long, conflicts_with = "tls_cert")]
    tls: bool,
    /// Use TLS with this certificate (PEM, followed by its chain).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Upstream of a published report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// 2 KB after 20 ms.
    Shenyu,
    /// `ok` at /api/test, at once.
    Ngxway,
}

/// Messages of a gRPC call to send back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Each, as it comes.
    Each,
    /// The last, at the end.
    Last,
}

/// Serves until a signal stops it.
///
/// # Errors
/// If signals cannot be received.
pub fn run(arguments: &MockArguments) -> anyhow::Result<ExitCode> {
    match start(arguments) {
        Ok(mock) => serve(&mock),
        Err(error) => {
            print_failure(&error);
            Ok(ExitCode::from(exit_code(&error)))
        }
    }
}

/// Returns the exit code: [`FAILED`](super::problems::FAILED) for errors of the operating system,
/// and [`UNUSABLE`](super::problems::UNUSABLE) for unusable arguments.
fn exit_code(error: &MockError) -> u8 {
    match error {
        MockError::Machine(_) | MockError::System { .. } => FAILED,
        MockError::Setting { .. } | MockError::File { .. } => UNUSABLE,
    }
}

fn start(arguments: &MockArguments) -> Result<Mock, MockError> {
    let behaviour = behaviour(arguments)?;
    let allowed = preflight::raise_descriptors(arguments.connections + DESCRIPTORS_BESIDE);
    if arguments.connections > allowed.saturating_sub(DESCRIPTORS_BESIDE) {
        eprintln!(
            "warning: {} connections need more open files than the {allowed} allowed; raise the \
             limit with `ulimit -Hn {}` as root",
            arguments.connections,
            arguments.connections + DESCRIPTORS_BESIDE
        );
    }
    let does = behaviour.to_string();
    let scheme = if behaviour.tls == Tls::Off { "http" } else { "https" };
    let mock = Mock::start(behaviour)?;
    let places: Vec<String> =
        mock.addresses().iter().map(|address| format!("{scheme}://{address}")).collect();
    let threads = mock.workers();
    println!("mock upstream on {} ({threads} threads): {does}", places.join(", "));
    Ok(mock)
}

fn serve(mock: &Mock) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        while signals.next().await != Request::Drain {}
        anyhow::Ok(())
    })?;
    println!("{}", summary(mock.totals()));
    Ok(ExitCode::SUCCESS)
}

/// Formats the totals of the served requests, in one line.
fn summary(totals: Totals) -> String {
    let mut line = format!(
        "served {} on {}, {} of them open",
        counted(totals.requests, "request"),
        counted(totals.connections, "connection"),
        totals.connections_open
    );
    for (count, what) in [
        (totals.errors, "injected error"),
        (totals.resets, "reset"),
        (totals.malformed, "malformed request"),
    ] {
        if count > 0 {
            line.push_str(", ");
            line.push_str(&counted(count, what));
        }
    }
    if totals.connections_refused > 0 {
        let (one, many) = ("pause for want of descriptors", "pauses for want of descriptors");
        line.push_str(&format!(", {}", counted_as(totals.connections_refused, one, many)));
    }
    line
}

/// Converts the arguments to the mock's behaviour.
fn behaviour(arguments: &MockArguments) -> Result<Behaviour, MockError> {
    let mut behaviour = match arguments.preset {
        None => Behaviour::default(),
        Some(Preset::Shenyu) => Behaviour::shenyu(),
        Some(Preset::Ngxway) => Behaviour::ngxway(),
    };
    behaviour.listen.clone_from(&arguments.listen);
    behaviour.workers = arguments.workers;
    behaviour.seed = arguments.seed;
    arguments.latency.apply(&mut behaviour);
    arguments.answer.apply(&mut behaviour)?;
    arguments.grpc.apply(&mut behaviour);
    behaviour.tls = arguments.tls.resolve();
    Ok(behaviour)
}

impl LatencyArguments {
    fn apply(&self, behaviour: &mut Behaviour) {
        let latency = &mut behaviour.latency;
        set(&mut latency.mean, self.latency);
        set(&mut latency.shape, self.latency_distribution);
        latency.spread = self.latency_spread;
        latency.max = self.latency_max;
        let stall = self.stall_after.zip(self.stall_for);
        behaviour.stall = stall.map(|(after, length)| Stall { after, length });
    }
}

impl AnswerArguments {
    fn apply(&self, behaviour: &mut Behaviour) -> Result<(), MockError> {
        set(&mut behaviour.statuses, self.status.clone());
        set(&mut behaviour.error_rate, self.error_rate);
        set(&mut behaviour.reset_rate, self.reset_rate);
        behaviour.headers.clone_from(&self.header);
        if self.path.is_some() {
            behaviour.path.clone_from(&self.path);
        }
        let text = self.body.clone().map(|text| Body::Bytes(text.into()));
        set(&mut behaviour.body, text);
        set(&mut behaviour.body, self.body_bytes.map(Body::with_length).transpose()?);
        set(&mut behaviour.body, self.body_file.as_deref().map(Body::read).transpose()?);
        set(&mut behaviour.body, self.echo.then_some(Body::Echo));
        Ok(())
    }
}

impl GrpcArguments {
    fn apply(&self, behaviour: &mut Behaviour) {
        let answer = self.grpc_answer.map(|which| match which {
            Which::Each => GrpcAnswer::Each,
            Which::Last => GrpcAnswer::Last,
        });
        set(&mut behaviour.grpc.answer, answer);
        set(&mut behaviour.grpc.repeat, self.grpc_repeat);
        set(&mut behaviour.grpc.status, self.grpc_status);
    }
}

impl TlsArguments {
    fn resolve(&self) -> Tls {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Tls::Files { certificate: certificate.clone(), key: key.clone() }
            }
            _ if self.tls => Tls::SelfSigned,
            _ => Tls::Off,
        }
    }
}

/// Replaces the value in `place` if another one is given.
fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME:VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: MockArguments,
    }

    fn parse(line: &str) -> Result<Behaviour, String> {
        let words = std::iter::once("mock").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let behaviour = behaviour(&line.arguments).map_err(|error| error.to_string())?;
        behaviour.check().map_err(|error| error.to_string())?;
        Ok(behaviour)
    }

    #[test]
    fn arguments_say_what_a_mock_does() {
        for (line, does) in [
            ("", "200 with 2 bytes at once"),
            ("--preset shenyu", "200 with 2048 bytes after 20ms (fixed)"),
            ("--preset shenyu --latency 5ms --body x", "200 with 1 bytes after 5ms (fixed)"),
            ("--preset ngxway", "200 with 2 bytes to /api/test at once"),
            (
                "--latency 20ms --latency-distribution lognormal --latency-spread 4ms",
                "200 with 2 bytes after 20ms ± 4ms (lognormal)",
            ),
            (
                "--status 200=9,503=1 --error-rate 1% --reset-rate 0.5% --echo",
                "200=9,503=1 with the request's body at once, 1% errors, 0.5% resets",
            ),
            (
                "--stall-after 5s --stall-for 1s",
                "200 with 2 bytes at once, standing still for 1s from 5s after the first request",
            ),
        ] {
            assert_eq!(parse(line).map(|behaviour| behaviour.to_string()).as_deref(), Ok(does));
        }
        let several = parse("--listen 127.0.0.1:1 --listen [::1]:2 --workers 3").expect("valid");
        assert_eq!((several.listen.len(), several.workers), (2, 3));
        assert_eq!(parse("--tls").expect("valid").tls, Tls::SelfSigned);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, part) in [
            ("--latency soon", "--latency"),
            ("--latency 20", "write 20ms or 20s"),
            ("--stall-after 1.5 --stall-for 1s", "has no unit"),
            ("--latency-distribution gauss", "not one of fixed"),
            ("--latency-spread 1ms", "latency-spread"),
            ("--status 99", "not a status"),
            ("--error-rate 101%", "not a share"),
            ("--body a --echo", "cannot be used with"),
            ("--header x", "NAME:VALUE"),
            ("--header Content-Length:1", "cannot be set"),
            ("--body-file /nowhere/at/all", "/nowhere/at/all"),
            ("--stall-after 1s", "--stall-for"),
            ("--tls-cert a", "--tls-key"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn the_last_line_tells_what_was_served() {
        let some = Totals { connections: 3, requests: 12, resets: 1, ..Totals::default() };
        let other = Totals { connections: 1, requests: 1, connections_refused: 2, ..some };
        for (totals, line) in [
            (some, "served 12 requests on 3 connections, 0 of them open, 1 reset"),
            (
                other,
                "served 1 request on 1 connection, 0 of them open, 1 reset, \
                 2 pauses for want of descriptors",
            ),
        ] {
            assert_eq!(summary(totals), line);
        }
    }
}
