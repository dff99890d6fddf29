//! `tollhouse bench suite`: repeats a published measurement with one command.

use std::process::ExitCode;

use clap::Args;
use tollhouse_load::connections::text;
use tollhouse_load::error::BenchError;
use tollhouse_load::suite::{self, Length, Look, Options, Peer, Suite};

use super::measure::measure_by;
use super::output::OutputArguments;

/// Examples that follow the options in the help text.
const EXAMPLES: &str = "\
Suites:
  shenyu       an upstream of 20 ms and 2 KB: directly, and through gateways with 600 to 1200 connections
  ngxway       fourteen runs of ab over 32 to 1200 connections, a two-byte answer
  api7         key-auth and limit-count, 1 and 100 routes and consumers, one worker
  polaris      register, heartbeat, discover, deregister over gRPC; here, or at --target
  connections  connections opened and held, and what one costs
  proxy        answers of 1 KiB to 1 MiB, 1 to 1,000 connections: what a proxied request costs

Examples:
  tollhouse bench suite shenyu --quick                     two minutes: shenyu.json, shenyu.html
  tollhouse bench suite shenyu --peers nginx,haproxy       the same beside them
  tollhouse bench suite shenyu --peers shenyu              beside ShenYu's own gateway, which is started
  tollhouse bench suite shenyu --peers shenyu=http://127.0.0.1:9195/ --upstream-port 8188
                                                           beside one that runs and leads to port 8188
  tollhouse bench suite shenyu --peers shenyu=/opt/apache-shenyu-2.6.0-bootstrap-bin
                                                           beside a release of ShenYu
  tollhouse bench suite polaris --peers polaris=/opt/polaris/polaris-server
                                                           beside Polaris' own server
  tollhouse bench suite polaris --target 10.0.0.5:8091

Everything that a suite needs is started on loopback, on cores of its own where there are two or
more, and stopped when it ends. Exit codes: 0 measured, and every case did what it must; 1 some
did not; 2 nothing could be measured.";

/// Arguments of `bench suite`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SuiteArguments {
    /// Suite: shenyu, ngxway, api7, polaris, connections or proxy.
    #[arg(value_name = "NAME")]
    suite: Suite,
    /// Measure for minutes only: a check that it works, with approximate figures.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Use the request counts and durations of the published runs; the default is shorter.
    #[arg(long)]
    full: bool,
    /// Measure for seconds only: a check that everything starts and ends.
    #[arg(long, hide = true, conflicts_with_all = ["quick", "full"])]
    glance: bool,
    /// Also measure these peers: nginx; haproxy; shenyu (its gateway 2.4.3, assembled by Maven, as
    /// shipped and with keep-alive); shenyu=PATH of a bootstrap's jar or unpacked release;
    /// NAME=URL for a running gateway that leads to --upstream-port. For the suite polaris:
    /// polaris=PATH of polaris-server in an unpacked release, or polaris=HOST:PORT.
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Port of the upstream, for a peer that already leads to it; a free port by default.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    upstream_port: Option<u16>,
    /// Registry to measure, for polaris; by default one is started.
    #[arg(long, value_name = "HOST:PORT")]
    target: Option<String>,
    /// Command to run as the direct baseline instead of the mock; `{port}` in it is the port to
    /// listen on.
    #[arg(long, value_name = "COMMAND")]
    baseline: Option<String>,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Runs the suite, whose servers are child processes, and writes its report.
///
/// # Errors
/// If a process does not start, or no case can be measured.
pub fn run(arguments: &SuiteArguments) -> Result<ExitCode, BenchError> {
    let outputs = arguments.outputs.with_defaults(arguments.suite.name());
    let program = std::env::current_exe()
        .map_err(|error| BenchError::System { doing: "finding this program".into(), error })?;
    let measured = measure_by(&outputs, |session, watcher| {
        let options = Options {
            length: arguments.length(),
            peers: arguments.peers.clone(),
            program,
            target: arguments.target.clone(),
            baseline: arguments.baseline.clone(),
            upstream_port: arguments.upstream_port,
            session: session.clone(),
        };
        suite::run(arguments.suite, &options, &mut |look| match look {
            Look::Session(event) => watcher.show(&event),
            Look::Connections(subject, now) => {
                watcher.show_line(&format!("{subject}: {}", text::progress(now)), now.elapsed);
            }
        })
    })?;
    outputs.print_written_files()?;
    Ok(measured)
}

impl SuiteArguments {
    fn length(&self) -> Length {
        match (self.glance, self.quick, self.full) {
            (true, ..) => Length::Glance,
            (_, true, _) => Length::Quick,
            (.., true) => Length::Full,
            _ => Length::Standard,
        }
    }
}
