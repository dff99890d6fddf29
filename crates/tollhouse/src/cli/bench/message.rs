//! `tollhouse bench websocket` and `tollhouse bench tcp`: a message out, its echo back.

use std::process::ExitCode;

use clap::Args;
use tollhouse_load::case::{Case, Protocol};
use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;

use super::load::LoadArguments;
use super::measure::measure;
use super::output::{OutputArguments, SessionArguments};
use super::tls::TlsArguments;

/// Arguments of `bench websocket`.
#[derive(Debug, Args)]
pub struct WebSocketArguments {
    /// What to measure: ws:// or wss://.
    url: String,
    /// The message that the server is to send back [default: a short text].
    #[arg(long, value_name = "TEXT", default_value_t)]
    message: String,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    session: SessionArguments,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Arguments of `bench tcp`.
#[derive(Debug, Args)]
pub struct TcpArguments {
    /// What to measure: HOST:PORT.
    address: String,
    /// Bytes that the server is to send back; without any, connections are opened and closed.
    #[arg(long, value_name = "TEXT", default_value_t)]
    message: String,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    session: SessionArguments,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Measures a WebSocket server.
///
/// # Errors
/// What kept it from being measured.
pub fn run_websocket(arguments: &WebSocketArguments) -> Result<ExitCode, BenchError> {
    let mut case = Case::new(&arguments.url);
    case.protocol = Some(Protocol::WebSocket);
    case.message.clone_from(&arguments.message);
    case.load = arguments.load.load();
    case.tls = arguments.tls.options();
    let mut plan = Plan::from_case(case);
    arguments.session.complete(&mut plan);
    measure(&plan, &arguments.outputs)
}

/// Measures a TCP server.
///
/// # Errors
/// What kept it from being measured.
pub fn run_tcp(arguments: &TcpArguments) -> Result<ExitCode, BenchError> {
    let address = arguments.address.trim_start_matches("tcp://");
    let mut case = Case::new(format!("tcp://{address}"));
    case.message.clone_from(&arguments.message);
    case.load = arguments.load.load();
    let mut plan = Plan::from_case(case);
    arguments.session.complete(&mut plan);
    measure(&plan, &arguments.outputs)
}
