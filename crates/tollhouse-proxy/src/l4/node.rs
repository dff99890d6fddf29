//! Selects a node for a connection and connects to it; moves on to the next node after a failure.
//! No client data is sent here, so every node may be tried.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::upstream::{PassHost, Scheme};
use tollhouse_net::{Stream, connect};
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::{Outcome, Pick, PickRequest, Picked, Tried, WhenUnresolved};

use super::connection::Connection;
use super::plugins::UpstreamChoice;
use super::table::StreamEntry;
use crate::plugins::chain::StepUpstream;
use crate::snapshot::{Reference, Snapshot, Target, UpstreamEntry};

/// Status that a successful connection counts as in the node's health and response time.
const CONNECTED_STATUS: u16 = 200;

/// Returns the upstream of a connection.
///
/// # Errors
/// If the route names no upstream, or a service or upstream that does not exist.
pub(super) fn upstream(
    snapshot: &Snapshot,
    entry: &StreamEntry,
    chosen: &UpstreamChoice,
) -> Result<Arc<UpstreamEntry>, ErrorCode> {
    if matches!(entry.service, Reference::Missing) {
        return Err(ErrorCode::ServiceNotFound);
    }
    let in_slot = |slot| {
        let found = snapshot.upstreams.get(slot).cloned().flatten();
        found.ok_or(ErrorCode::UpstreamNotFound)
    };
    match chosen {
        UpstreamChoice::Of(StepUpstream::Inline(upstream)) => return Ok(Arc::clone(upstream)),
        UpstreamChoice::Of(StepUpstream::Slot(slot, _)) => return in_slot(*slot),
        // Entries of routes are used only for requests.
        UpstreamChoice::Of(StepUpstream::Route | StepUpstream::Entry(_)) | UpstreamChoice::Own => {}
    }
    match &entry.target {
        Target::Inline(upstream) => Ok(Arc::clone(upstream)),
        Target::Slot(slot) => in_slot(*slot),
        Target::None => Err(ErrorCode::NoNodes),
    }
}

/// Evidence of a node's health from opening a socket to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    Alive,
    /// The evidence is missing, because the node has not been sent any bytes yet.
    None,
}

/// Opens a socket to one node.
pub(super) trait Open {
    type Opened;
    /// Evidence that success gives about the node.
    const PROOF: Proof;
    async fn open(&self, upstream: &UpstreamEntry, picked: &Picked<'_>)
    -> io::Result<Self::Opened>;
}

/// Connects to a node; after a failure tries others, as often as the upstream permits.
///
/// # Errors
/// The last failure, if no node is left to try.
pub(super) async fn connect<'u, O: Open>(
    connection: &mut Connection<'_>,
    upstream: &'u UpstreamEntry,
    open: &O,
) -> Result<(O::Opened, Picked<'u>), ErrorCode> {
    let worker = connection.worker;
    let started_ms = worker.clock.now_ms();
    let mut tried = Tried::default();
    let mut attempts_left = retries(upstream);
    let mut last = ErrorCode::NoNodes;
    loop {
        let picked = match pick(connection, upstream, &tried).await {
            Ok(picked) => picked,
            Err(PickError::AllTried) => return Err(last),
            Err(PickError::None) => return Err(no_nodes(upstream)),
        };
        let began_ms = worker.clock.now_ms();
        // Checked per attempt: a limit reached meanwhile is not the node's failure, and another
        // node would not help.
        if !worker.may_connect() {
            return Err(ErrorCode::ConnectionLimit);
        }
        let opening = open.open(upstream, &picked);
        let opened = connection.within(upstream.terms.timeouts.connect, opening).await;
        let now_ms = worker.clock.now_ms();
        let (code, outcome) = match opened {
            Some(Ok(opened)) => {
                let response_time = Duration::from_millis(now_ms.saturating_sub(began_ms));
                let outcome = Outcome::Answered { status: CONNECTED_STATUS, response_time };
                // Connecting a UDP socket always succeeds, so only transports that prove a listener
                // count for health.
                if O::PROOF == Proof::Alive {
                    picked.note_answer();
                    upstream.state.report(&picked, outcome, now_ms);
                }
                connection.record.attempts.push((picked.address(), CONNECTED_STATUS));
                connection.record.connected_ms =
                    Some(now_ms.saturating_sub(connection.record.started_ms));
                return Ok((opened, picked));
            }
            Some(Err(error)) => {
                worker.failures.note(picked.address(), &error);
                let is_nobodys = connect::is_no_failure_of_node(&error);
                let outcome = (!is_nobodys).then_some(Outcome::Failed);
                (ErrorCode::UpstreamConnectFailed, outcome)
            }
            None => (ErrorCode::UpstreamConnectTimeout, Some(Outcome::TimedOut)),
        };
        worker.metrics.upstream_connections_failed.increment();
        if let Some(outcome) = outcome {
            picked.note_failure(worker.clock.unix_ms());
            upstream.state.report(&picked, outcome, now_ms);
        }
        connection.record.attempts.push((picked.address(), code.status()));
        tried.insert(&picked);
        last = code;
        let is_over = |budget| Duration::from_millis(now_ms.saturating_sub(started_ms)) >= budget;
        // The number of attempts is checked before the time: a failure without attempts left is
        // reported as such and not as an exhausted budget.
        if attempts_left == 0 {
            return Err(code);
        }
        if upstream.conf.retry_timeout.is_some_and(is_over) {
            return Err(ErrorCode::RetryBudgetExceeded);
        }
        attempts_left -= 1;
        worker.metrics.upstream_retries.increment();
    }
}

/// Returns the number of further attempts allowed: the configured number, or one per other node.
fn retries(upstream: &UpstreamEntry) -> u32 {
    let others = upstream.state.node_count().saturating_sub(1);
    upstream.conf.retries.unwrap_or(u32::try_from(others).unwrap_or(u32::MAX))
}

enum PickError {
    None,
    AllTried,
}

async fn pick<'u>(
    connection: &Connection<'_>,
    upstream: &'u UpstreamEntry,
    tried: &Tried,
) -> Result<Picked<'u>, PickError> {
    let worker = connection.worker;
    let key = upstream.terms.hash_key.as_ref().map(|key| key.value(connection));
    let pick_now = |when_unresolved| {
        let random = worker.random_u64();
        let now_ms = worker.clock.now_ms();
        let hash_key = key.as_deref();
        upstream.state.pick(&PickRequest { hash_key, random, now_ms, when_unresolved }, tried)
    };
    let mut pick = pick_now(WhenUnresolved::Wait);
    if matches!(pick, Pick::Unresolved) {
        upstream.state.ready(worker.settings.resolve_timeout).await;
        worker.clock.refresh();
        pick = pick_now(WhenUnresolved::Skip);
    }
    match pick {
        Pick::Node(picked) => Ok(picked),
        Pick::AllTried => Err(PickError::AllTried),
        Pick::NoNodes | Pick::Unresolved => Err(PickError::None),
    }
}

/// Returns the error for an upstream without usable nodes: `NoNodes` if it has none,
/// `UpstreamUnresolved` if none has an address.
fn no_nodes(upstream: &UpstreamEntry) -> ErrorCode {
    let has_weight = upstream.conf.nodes.iter().any(|node| node.weight > 0);
    if has_weight || upstream.conf.discovery.is_some() {
        ErrorCode::UpstreamUnresolved
    } else {
        ErrorCode::NoNodes
    }
}

/// Opens TCP connections, with TLS if the upstream's scheme is `tls`.
pub(super) struct OverTcp {
    /// Server name (SNI) of the client's own TLS hello.
    pub server_name: Option<String>,
    /// PROXY protocol header, sent before any other bytes.
    pub header: Vec<u8>,
}

impl Open for OverTcp {
    type Opened = Stream;
    const PROOF: Proof = Proof::Alive;

    async fn open(&self, upstream: &UpstreamEntry, picked: &Picked<'_>) -> io::Result<Stream> {
        let address = picked.address();
        match &upstream.terms.connector {
            Some(connector) if upstream.conf.scheme == Scheme::Tls => {
                let own_name = picked.node().name_or_address();
                // Chosen by `pass_host` as for requests: the client's server name, unless another
                // is configured.
                let name = match &upstream.terms.pass_host {
                    PassHost::Rewrite(host) => host,
                    PassHost::Node => own_name,
                    PassHost::Pass => self.server_name.as_deref().unwrap_or(own_name),
                };
                connect::connect_tls_announced(address, connector, name, &self.header).await
            }
            _ => connect::connect_announced(address, &self.header).await,
        }
    }
}
