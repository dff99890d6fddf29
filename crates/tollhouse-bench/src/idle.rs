//! Measures the memory of idle connections: the user-space memory of a proxy with 12,000 of them,
//! each after one answered request, minus the memory before.

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::Connection;
use super::origin;
use super::peer::{Peer, Proxy};
use super::plan::Plan;
use super::report::CaseResult;
use anyhow::{Context, Result};

/// Number of connections: enough to make the program's other memory negligible. With a limit of
/// 20,000 open files, a listener may have more than this number.
const CONNECTIONS: usize = 12_000;
/// Number of requests before the first measurement, so that pools and arenas exist already.
const WARM_UP_REQUESTS: usize = 200;

/// Runs the case for every peer.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut figures = Vec::new();
    // HAProxy as a TCP relay is left out, because it holds a connection to the origin for each
    // client.
    for peer in plan.peers.iter().copied().filter(|peer| *peer != Peer::HaproxyTcp) {
        let proxy = peer.start(plan, origin.port, 1)?;
        let bytes = bytes_per_connection(&proxy).with_context(|| peer.name())?;
        let what = format!("{}: bytes an idle connection", peer.name());
        figures.push(match peer {
            Peer::Tollhouse => Figure::with_budget(what, bytes, budget::IDLE_BYTES_PER_CONNECTION),
            _ => Figure::free(what, bytes),
        });
    }
    Ok(CaseResult::new(Case::Idle, Vec::new(), figures))
}

fn bytes_per_connection(proxy: &Proxy) -> Result<f64> {
    let mut connection = Connection::open(proxy.port)?;
    for _ in 0..WARM_UP_REQUESTS {
        connection.get("/r/0")?;
    }
    let before = proxy.program.memory_bytes()?;
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let open = || -> Result<Connection> {
            let mut connection = Connection::open(proxy.port)?;
            connection.get("/r/0")?;
            Ok(connection)
        };
        connections.push(open().with_context(|| format!("connection {number}"))?);
    }
    let after = proxy.program.memory_bytes()?;
    drop(connections);
    Ok(after.saturating_sub(before) as f64 / CONNECTIONS as f64)
}
