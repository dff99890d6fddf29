//! `tollhouse bench websocket` and `tollhouse bench tcp`: measure echoed messages.

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
    /// Target: ws:// or wss://.
    url: String,
    /// Message that the server must echo [default: a short text].
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
    /// Target: HOST:PORT.
    address: String,
    /// Bytes that the server must echo; without any, connections are opened and closed.
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
/// If the server cannot be measured.
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
/// If the server cannot be measured.
pub fn run_tcp(arguments: &TcpArguments) -> Result<ExitCode, BenchError> {
    let address = arguments.address.trim_start_matches("tcp://");
    let mut case = Case::new(format!("tcp://{address}"));
    case.message.clone_from(&arguments.message);
    case.load = arguments.load.load();
    let mut plan = Plan::from_case(case);
    arguments.session.complete(&mut plan);
    measure(&plan, &arguments.outputs)
}
