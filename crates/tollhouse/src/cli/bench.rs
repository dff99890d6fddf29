//! `tollhouse bench`: command line of the load generator.
//!
//! Each command is a file under `bench/`, which converts arguments to the plain data of
//! `tollhouse-load` and prints the result. This file has the list of commands, the overview that is
//! shown without a command, and the exit codes.
//!
//! A new command needs a file, a variant of [`BenchCommand`] and a line in [`carry_out`].

mod compare;
mod connections;
mod dialect;
mod grpc;
mod http;
mod interrupt;
mod load;
mod measure;
mod message;
mod output;
mod progress;
mod report;
mod run;
mod suite;
mod terminal;
mod tls;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollhouse_dialects::{ab, ghz, wrk, wrk2};
use tollhouse_load::error::BenchError;

use self::terminal::NOT_MEASURED;
use super::problems::print_failure;
use super::stdout;

/// Overview, printed by `tollhouse bench` without a command.
const OVERVIEW: &str = "\
tollhouse bench measures a server, and says what its figures are worth.

How fast can it be (a closed loop: 600 connections, each sends when it has its answer):
  tollhouse bench http http://127.0.0.1:9080/ -c 600 -d 30s

How long do people wait at a given load (an open loop: latency counts from when a request is due):
  tollhouse bench http http://127.0.0.1:9080/ --rate 5000 -d 30s --threshold 'p99 < 50ms'

What does it cost, and is it different from yesterday:
  tollhouse bench http http://127.0.0.1:9080/ --watch port:9080 --repeat 3 --json today.json
  tollhouse bench compare yesterday.json today.json --threshold 5%

How many connections does it hold, and what does each cost:
  tollhouse bench connections --serve -n 100000

A published report, measured again on this machine:
  tollhouse bench suite shenyu --quick --peers nginx

Many cases, described in a file; a page to show:
  tollhouse bench run plan.yaml --json result.json --html result.html
  tollhouse bench report result.json -o result.html

In the options and the output of other tools, for scripts that call them:
  tollhouse bench wrk -t2 -c100 -d30s --latency http://127.0.0.1:9080/
  tollhouse bench wrk2 -t2 -c100 -d30s -R2000 --latency http://127.0.0.1:9080/
  tollhouse bench ab -k -c 100 -n 100000 http://127.0.0.1:9080/

Exit codes: 0 measured, and thresholds are met; 1 a threshold is missed; 2 nothing could be
measured. `tollhouse bench --help` lists all commands; each explains itself with --help.
";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Requests of HTTP/1.1 or HTTP/2 to one URL, or to a list of URLs.
    Http(Box<http::HttpArguments>),
    /// gRPC calls.
    Grpc(Box<grpc::GrpcArguments>),
    /// Messages over WebSockets, and their echoes.
    #[command(name = "websocket")]
    WebSocket(Box<message::WebSocketArguments>),
    /// TCP connections, with or without an echo.
    Tcp(Box<message::TcpArguments>),
    /// Open connections and hold them: how many, and what each costs at both ends.
    Connections(Box<connections::ConnectionsArguments>),
    /// Take ghz's options and configuration files, and print what ghz prints.
    Ghz(dialect::DialectArguments),
    /// The cases of a plan file.
    Run(run::RunArguments),
    /// Repeat a published measurement (shenyu, ngxway, api7, polaris or connections), or measure
    /// what a proxied request costs (proxy).
    Suite(suite::SuiteArguments),
    /// Print a result again: as text, as a page, or for another program.
    Report(report::ReportArguments),
    /// Compare two results.
    Compare(compare::CompareArguments),
    /// Take wrk's options and print what wrk prints.
    Wrk(dialect::DialectArguments),
    /// Take wrk2's options and print what wrk2 prints: a fixed rate, latency from the planned start.
    Wrk2(dialect::DialectArguments),
    /// Take ab's options and print what ab prints.
    Ab(dialect::DialectArguments),
}

/// Runs the command. If it cannot measure, it prints one line on standard error and returns exit
/// code [`NOT_MEASURED`].
///
/// # Errors
/// If the overview cannot be printed.
pub fn run(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let Some(command) = &arguments.command else {
        stdout::print(OVERVIEW)?;
        return Ok(ExitCode::SUCCESS);
    };
    Ok(carry_out(command).unwrap_or_else(|error| {
        print_failure(one_line(&error.to_string()));
        ExitCode::from(NOT_MEASURED)
    }))
}

fn carry_out(command: &BenchCommand) -> Result<ExitCode, BenchError> {
    match command {
        BenchCommand::Grpc(arguments) => grpc::run(arguments),
        BenchCommand::Ghz(arguments) => dialect::run(ghz::run, arguments),
        BenchCommand::Http(arguments) => http::run(arguments),
        BenchCommand::Run(arguments) => run::run(arguments),
        BenchCommand::Connections(arguments) => connections::run(arguments),
        BenchCommand::Tcp(arguments) => message::run_tcp(arguments),
        BenchCommand::WebSocket(arguments) => message::run_websocket(arguments),
        BenchCommand::Suite(arguments) => suite::run(arguments),
        BenchCommand::Report(arguments) => report::run(arguments),
        BenchCommand::Compare(arguments) => compare::run(arguments),
        BenchCommand::Wrk(arguments) => dialect::run(wrk::run, arguments),
        BenchCommand::Wrk2(arguments) => dialect::run(wrk2::run, arguments),
        BenchCommand::Ab(arguments) => dialect::run(ab::run, arguments),
    }
}

/// Joins the lines of a message, because texts of files and servers may have line breaks.
fn one_line(message: &str) -> String {
    message
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
