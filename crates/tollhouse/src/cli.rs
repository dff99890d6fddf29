//! Command line of `tollhouse`: definition of all commands, and the module that runs each.

mod admin_client;
mod backup;
mod bench;
mod certificates;
mod check;
mod completions;
pub mod configuration;
mod configured_store;
mod console_client;
mod control_client;
mod doctor;
mod explain;
mod export;
mod findings;
mod gateway;
mod import;
mod man_pages;
mod mock;
mod objects;
mod plugins;
pub mod problems;
mod reference;
mod registry;
mod registry_moves;
mod reload;
mod requests;
mod reseal;
mod routes;
mod run;
mod shenyu;
mod status;
mod stdout;
mod top;
mod traffic;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// API gateway, service registry and load generator in one binary.
///
/// Without a command it runs with its defaults, which is the quickest way to see it work.
#[derive(Debug, Parser)]
#[command(
    name = "tollhouse",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done; 1 it was tried and failed; 2 nothing was tried, because the command line, a \
                  configuration or a document cannot be used."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve traffic; the default.
    Run(run::RunArguments),
    /// Check files without serving them: every problem with path, value, reason and hint.
    Check(check::CheckArguments),
    /// Show which route, plugins and upstream a request would get, and why others lost.
    Explain(explain::ExplainArguments),
    /// Measure a server under load: rates, latencies, failures, and what they are worth.
    Bench(bench::BenchArguments),
    /// Serve as an upstream to measure against, with the latency, size and errors you choose.
    Mock(mock::MockArguments),
    /// Copy the store of the data directory to a file, while a gateway runs or not.
    Backup(backup::BackupArguments),
    /// Write the backup of a registry that nodes share into an empty database.
    Restore(registry_moves::RestoreArguments),
    /// Write the objects of the store as a document in APISIX's standalone format.
    Export(export::ExportArguments),
    /// Make the store match a document, after showing the difference.
    Import(import::ImportArguments),
    /// Seal the secrets of the store again with the newest key, so that older keys can be removed;
    /// gateways that share an etcd can keep running.
    Reseal(reseal::ResealArguments),
    /// List the certificates in service with their expiry dates, and the state of those that renew
    /// themselves.
    Certificates(certificates::CertificatesArguments),
    /// Check a running gateway, and the etcd, databases and Redis in the configuration.
    Doctor(doctor::DoctorArguments),
    /// Inspect and change the registry of a running gateway.
    Registry(registry::RegistryArguments),
    /// Show the state of a running gateway: its configuration, its problems, and parts that are down.
    Status(status::StatusArguments),
    /// Watch a running gateway: rates, latencies, failures, nodes; refreshed every second.
    Top(top::TopArguments),
    /// List the routes of a running gateway, or those that contain a text.
    Routes(routes::RoutesArguments),
    /// Print recent requests of a running gateway with their cause, and with --follow new ones as
    /// they come.
    Requests(requests::RequestsArguments),
    /// Have a running gateway read its resources again and reopen its access log.
    Reload(reload::ReloadArguments),
    /// List the plugins, or print the manual page of one.
    Plugins(plugins::PluginsArguments),
    /// Print completions for a shell.
    Completions(completions::CompletionsArguments),
    /// Write a manual page for each command into a folder.
    #[command(hide = true)]
    ManPages(man_pages::ManPagesArguments),
    /// Print a page of the generated reference.
    #[command(hide = true)]
    Reference(reference::ReferenceArguments),
}

/// Runs the command.
///
/// # Errors
/// If the command cannot do its work. Problems of documents are printed, not returned.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command.unwrap_or_else(|| Command::Run(run::RunArguments::default())) {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Mock(arguments) => mock::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => registry_moves::restore(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Reseal(arguments) => reseal::run(&arguments),
        Command::Certificates(arguments) => certificates::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Registry(arguments) => registry::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Routes(arguments) => routes::run(&arguments),
        Command::Requests(arguments) => requests::run(&arguments),
        Command::Reload(arguments) => reload::run(&arguments),
        Command::Plugins(arguments) => plugins::run(&arguments),
        Command::Completions(arguments) => Ok(completions::run(&arguments, Arguments::command())),
        Command::ManPages(arguments) => man_pages::run(&arguments, Arguments::command()),
        Command::Reference(arguments) => Ok(reference::run(&arguments, Arguments::command())),
    }
}
