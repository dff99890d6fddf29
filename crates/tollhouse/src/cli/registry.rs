//! `tollhouse registry`: inspects and changes the registry of a running gateway.
//!
//! All subcommands use the Admin API under `/registry/v1`. Each has its own file; `cli/gateway.rs`
//! locates the gateway.

mod deregister;
mod doctor;
mod list;
mod name;
mod register;
mod remote;
pub mod table;
mod view;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Examples that follow the options in the help text.
const EXAMPLES: &str = "\
Examples:
  tollhouse registry list
  tollhouse registry list production/orders --unhealthy
  tollhouse registry watch production/orders
  tollhouse registry register production/orders 10.0.0.7:8080 --ttl 5 --metadata zone=a --heartbeat
  tollhouse registry deregister production/orders 10.0.0.7:8080
  tollhouse registry doctor

A service is written NAMESPACE/NAME; a name alone is one of the namespace `default`.";

/// Arguments of `registry`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RegistryArguments {
    #[command(subcommand)]
    command: RegistryCommand,
}

#[derive(Debug, Subcommand)]
enum RegistryCommand {
    /// List services, or the instances of one.
    List(list::ListArguments),
    /// Print the instances of a service, then every change until Ctrl-C.
    Watch(watch::WatchArguments),
    /// Register an instance, and with --heartbeat keep it alive until Ctrl-C.
    Register(register::RegisterArguments),
    /// Remove an instance.
    Deregister(deregister::DeregisterArguments),
    /// Look for problems: listeners, silent instances, mass expiry, addresses registered twice.
    Doctor(doctor::DoctorArguments),
}

/// Runs the subcommand.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &RegistryArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        RegistryCommand::List(arguments) => list::run(arguments),
        RegistryCommand::Watch(arguments) => watch::run(arguments),
        RegistryCommand::Register(arguments) => register::run(arguments),
        RegistryCommand::Deregister(arguments) => deregister::run(arguments),
        RegistryCommand::Doctor(arguments) => doctor::run(arguments),
    }
}
