//! `tollhouse registry doctor`: reports problems of the registry, with remedies.
//!
//! This file gathers the facts and prints the findings; `doctor/examine.rs` derives the findings
//! from the facts, and `doctor/probe.rs` connects to the listeners.

mod examine;
mod probe;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tollhouse_control::terminal::printable_lines;

use anyhow::Context;
use clap::Args;
use serde::de::DeserializeOwned;
use tollhouse_config::Bootstrap;
use tollhouse_stdx::plural::counted;

use self::examine::{Facts, Finding, Severity};
use super::remote::Remote;
use super::view::Status;
use crate::cli::doctor::render_findings;
use crate::cli::gateway::Gateway;
use crate::cli::stdout;
use tollhouse_control::banner::reachable;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when nothing is wrong, 1 when something is. Notes do not count."
)]
pub struct DoctorArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Print the findings as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Prints the findings; the exit code tells whether there is a problem.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut remote = Remote::open(&arguments.gateway, &bootstrap)?;
    let facts = gather(&mut remote, &bootstrap)?;
    let findings = examine::examine(&facts);
    let text = if arguments.json {
        let values: Vec<_> = findings.iter().map(Finding::to_json).collect();
        serde_json::to_string_pretty(&values)? + "\n"
    } else {
        render(&facts, &findings)
    };
    stdout::print(&text)?;
    let is_well = findings.iter().all(|finding| finding.severity == Severity::Note);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn gather(remote: &mut Remote, bootstrap: &Bootstrap) -> anyhow::Result<Facts> {
    let asked_at_ms = now_ms();
    let status = remote.get("GET", "status", None)?;
    let status: Status = serde_json::from_value(status).context("the status cannot be read")?;
    let answered_at_ms = now_ms();
    let (grpc, http) = addresses(&status, remote.host(), bootstrap);
    let mut probes = Vec::new();
    probes.extend(grpc.iter().map(|address| probe::grpc(address)));
    probes.extend(http.iter().map(|address| probe::http(address)));
    Ok(Facts {
        clock_ahead_ms: ahead(status.now_ms, asked_at_ms, answered_at_ms),
        status,
        services: read(remote, "services")?,
        instances: read(remote, "instances")?,
        aliases: read(remote, "aliases")?,
        probes,
    })
}

fn read<T: DeserializeOwned>(remote: &mut Remote, path: &str) -> anyhow::Result<Vec<T>> {
    let found = remote.list(path, "")?;
    let read: Result<Vec<T>, _> = found.into_iter().map(serde_json::from_value).collect();
    read.with_context(|| format!("the list of {path} cannot be read"))
}

/// Returns the addresses of the registry's gRPC and HTTP listeners as seen from this machine: those
/// that the gateway reports, otherwise the configured ones.
fn addresses(status: &Status, host: &str, bootstrap: &Bootstrap) -> (Vec<String>, Vec<String>) {
    let from_here = |said: &[String], configured: &[std::net::SocketAddr]| -> Vec<String> {
        if said.is_empty() {
            return configured.iter().map(|address| reachable(*address).to_string()).collect();
        }
        let seen = said.iter().map(|address| match address.parse::<std::net::SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => format!("{host}:{}", address.port()),
            _ => address.clone(),
        });
        seen.collect()
    };
    let listeners = &status.listeners;
    let says_any = !listeners.grpc.is_empty() || !listeners.http.is_empty();
    if says_any {
        return (from_here(&listeners.grpc, &[]), from_here(&listeners.http, &[]));
    }
    let listen = &bootstrap.listen;
    (from_here(&[], &listen.registry_grpc), from_here(&[], &listen.registry_http))
}

/// Returns the milliseconds by which the registry's clock is ahead of the local one; negative if it
/// is behind. The result is 0 if the registry's time is between request and answer.
fn ahead(theirs_ms: u64, asked_at_ms: u64, answered_at_ms: u64) -> i64 {
    let difference = |from: u64, to: u64| {
        i64::try_from(to).unwrap_or(i64::MAX) - i64::try_from(from).unwrap_or(i64::MAX)
    };
    if theirs_ms < asked_at_ms {
        return difference(asked_at_ms, theirs_ms);
    }
    difference(answered_at_ms, theirs_ms).max(0)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn render(facts: &Facts, findings: &[Finding]) -> String {
    let status = &facts.status;
    let mut text = format!(
        "{}, {}: {} healthy, {} not checked, {} unhealthy, {} isolated\n",
        counted(status.services, "service"),
        counted(status.instances.total, "instance"),
        status.instances.healthy.saturating_sub(status.instances.unchecked),
        status.instances.unchecked,
        status.instances.unhealthy,
        status.instances.isolated
    );
    for probe in &facts.probes {
        if let Ok(took) = &probe.outcome {
            let milliseconds = took.as_secs_f64() * 1e3;
            text.push_str(&format!(
                "{} on {} answers in {milliseconds:.1} ms\n",
                probe.what, probe.address
            ));
        }
    }
    text.push_str(&render_findings(findings));
    // Names come from clients, which must not be able to control the terminal.
    printable_lines(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_what_the_exchange_does_not_explain() {
        let table = [
            (1_000, 1_000, 1_010, 0),
            (1_005, 1_000, 1_010, 0),
            (1_015, 1_000, 1_010, 5),
            (400, 1_000, 1_010, -600),
        ];
        for (theirs, asked, answered, expected) in table {
            assert_eq!(ahead(theirs, asked, answered), expected, "{theirs}");
        }
    }

    #[test]
    fn listeners_are_tried_where_they_are_seen_from_here() {
        let mut status = Status::default();
        let bootstrap = Bootstrap::default();
        let (grpc, http) = addresses(&status, "gateway", &bootstrap);
        assert_eq!((grpc.len(), http.len()), (2, 1), "the configuration stands in");
        status.listeners.grpc = vec!["0.0.0.0:8091".into()];
        let (grpc, http) = addresses(&status, "gateway", &bootstrap);
        assert_eq!((grpc, http), (vec!["gateway:8091".to_owned()], vec![]));
    }
}
