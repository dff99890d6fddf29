//! `/registry/v1/status`: sizes, counters and anomalies of the registry.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollhouse_registry::{State, Statistics, Totals};

use super::listing::reply;
use super::outgoing::InstanceCounts;
use super::part::RegistryPart;
use crate::reply::Reply;

/// Maximum number of services in mass expiry that are listed by name.
const MASS_EXPIRIES_NAMED_MAX: usize = 1_000;

#[derive(JsonSchema, Serialize)]
pub(super) struct Status<'a> {
    version: u64,
    now_ms: u64,
    started_at_ms: u64,
    listeners: Listeners,
    namespaces: usize,
    services: usize,
    aliases: usize,
    instances: InstanceCounts,
    rules: usize,
    contracts: usize,
    clients: usize,
    watches: usize,
    members: Vec<Member>,
    mass_expiries: usize,
    mass_expiry: Vec<ServiceMassExpiry<'a>>,
    counted: Counters,
}

#[derive(JsonSchema, Serialize)]
struct Listeners {
    grpc: Vec<String>,
    http: Vec<String>,
}

/// A node of the registry's cluster.
#[derive(JsonSchema, Serialize)]
struct Member {
    name: String,
    node: String,
    is_self: bool,
}

#[derive(JsonSchema, Serialize)]
struct ServiceMassExpiry<'a> {
    namespace: &'a str,
    service: &'a str,
    since_ms: u64,
    kept: u32,
}

/// Counters since the start.
#[derive(JsonSchema, Serialize)]
struct Counters {
    expired: u64,
    recovered: u64,
    beats: u64,
    stranger_beats: u64,
    commands: u64,
    refused: u64,
    commits: u64,
    commit_us: u64,
}

impl Counters {
    fn from_statistics(statistics: &Statistics) -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            expired: load(&statistics.expired),
            recovered: load(&statistics.recovered),
            beats: load(&statistics.heartbeats),
            stranger_beats: load(&statistics.unregistered_heartbeats),
            commands: load(&statistics.commands),
            refused: load(&statistics.refused),
            commits: load(&statistics.commits),
            commit_us: load(&statistics.commit_us),
        }
    }
}

pub(super) fn read(part: &RegistryPart) -> Reply {
    let state = part.registry.state_full();
    let totals: Totals = state.totals();
    let text = |addresses: &[std::net::SocketAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let status = Status {
        version: state.version(),
        now_ms: part.registry.now_ms(),
        started_at_ms: part.started_at_ms,
        listeners: Listeners { grpc: text(&part.listeners.grpc), http: text(&part.listeners.http) },
        namespaces: totals.namespaces,
        services: totals.services,
        aliases: totals.aliases,
        instances: totals.instances.into(),
        rules: totals.rules,
        contracts: totals.contracts,
        clients: part.registry.clients().len(),
        watches: part.watches.open(),
        members: members(part),
        mass_expiries: totals.mass_expiries,
        mass_expiry: mass_expiry(&state),
        counted: Counters::from_statistics(part.registry.statistics()),
    };
    reply(StatusCode::OK, &status)
}

fn members(part: &RegistryPart) -> Vec<Member> {
    let members = part.registry.members().unwrap_or_default().into_iter();
    members
        .map(|member| Member {
            name: member.name.into(),
            node: member.node.to_string(),
            is_self: member.is_self,
        })
        .collect()
}

fn mass_expiry(state: &State) -> Vec<ServiceMassExpiry<'_>> {
    let mut found: Vec<_> = state.mass_expiries().collect();
    found.sort_unstable_by_key(|(key, _)| *key);
    let named = found.into_iter().take(MASS_EXPIRIES_NAMED_MAX);
    named
        .map(|(key, expiry)| ServiceMassExpiry {
            namespace: &key.namespace,
            service: &key.name,
            since_ms: expiry.since_ms,
            kept: expiry.kept,
        })
        .collect()
}
