//! Detection of crashed nodes by TCP probes. A node that refuses connections is marked offline for
//! gateways. It is marked online again, as freshly started, once it accepts one; after a day
//! offline it is removed. Nodes that an operator has switched off are not probed and stay off.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollhouse_net::connect::is_no_failure_of_node;

use crate::admin::ShenyuAdmin;
use crate::answer::success;
use crate::clock;
use crate::draft::Draft;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Tables;

/// Interval between two rounds, as in ShenYu's admin (`scheduledTime`).
const ROUND_TIME: Duration = Duration::from_secs(10);

/// Timeout of a connection attempt, as in ShenYu.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Maximum number of concurrent probes; each takes a file descriptor.
pub const PROBES_AT_ONCE: usize = 64;

/// Number of attempts before a node counts as unreachable, because a single one may be lost.
const TRIES: usize = 2;

/// Duration in milliseconds after which an unreachable node is removed, because containers rarely
/// return at the same address.
const FORGOTTEN_MS: u64 = 24 * 60 * 60 * 1000;

/// Minimum number of nodes for which a failure of all is attributed to this machine's network
/// instead of the nodes.
const NODES_FOR_DOUBT: usize = 3;

/// Name of the member that holds the time, in milliseconds since 1970, at which a probe marked the
/// node offline. Gateways do not receive this member.
pub(crate) const AWAY_SINCE: &str = "unreachableSinceMs";

/// Probes all nodes in rounds until the admin ends.
pub(crate) async fn run(admin: ShenyuAdmin) {
    let mut ending = admin.ending.subscribe();
    let rounds = async {
        let mut rounds = interval(ROUND_TIME);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick fires immediately, when services may not have started yet.
        rounds.tick().await;
        loop {
            rounds.tick().await;
            round(&admin, clock::now_ms()).await;
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
}

/// Probes all nodes once and writes the changes.
pub(crate) async fn round(admin: &ShenyuAdmin, now_ms: u64) {
    let addresses = addresses(&admin.book.read());
    if addresses.is_empty() {
        return;
    }
    let reachable = ask(addresses).await;
    if reachable.len() >= NODES_FOR_DOUBT && reachable.values().all(|answers| !answers) {
        tracing::warn!(
            nodes = reachable.len(),
            "none of the nodes that are registered with ShenYu's admin answers; they are left as they are, \
             for it may be the network of this machine"
        );
        return;
    }
    if !report(&admin.book.read(), &reachable, now_ms) {
        return;
    }
    let written = admin.book.write(move |draft| {
        write(draft, &reachable, now_ms);
        success("", Value::Null)
    });
    if let Err(refusal) = written.await {
        tracing::warn!(reason = refusal.message(), "nodes that are away cannot be marked as off");
    }
}

/// Returns whether each address accepts connections. Addresses without a clear result are left out.
async fn ask(addresses: BTreeSet<String>) -> HashMap<String, bool> {
    let mut probes = JoinSet::new();
    let mut reachable = HashMap::new();
    for address in addresses {
        if probes.len() >= PROBES_AT_ONCE
            && let Some(Ok(done)) = probes.join_next().await
        {
            reachable.extend(done);
        }
        probes.spawn(async move {
            let answers = answers(&address).await;
            answers.map(|answers| (address, answers))
        });
    }
    while let Some(done) = probes.join_next().await {
        reachable.extend(done.ok().flatten());
    }
    reachable
}

async fn answers(address: &str) -> Option<bool> {
    for _ in 0..TRIES {
        let connected = timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match said_by(connected.as_ref().err()) {
            Some(false) => {}
            state => return state,
        }
    }
    Some(false)
}

/// Interprets the outcome of a connection attempt as the state of a node. Returns `None` for
/// failures of this machine, such as exhausted file descriptors: otherwise a flood of clients could
/// mark all nodes offline.
fn said_by(failure: Option<&io::Error>) -> Option<bool> {
    match failure {
        None => Some(true),
        Some(error) if is_no_failure_of_node(error) => None,
        Some(_) => Some(false),
    }
}

/// Change of a node after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    Off,
    On,
    Forgotten,
}

fn nodes(row: &Row) -> impl Iterator<Item = &Row> {
    row::rows(row, "upstreamDataList")
}

/// Returns the `host:port` to probe. Returns `None` for a node that an operator has switched off or
/// whose properties disable health checks.
fn address(node: &Row) -> Option<String> {
    let is_on = row::number(node, "status").unwrap_or(0) == 0;
    if !is_on && !node.contains_key(AWAY_SINCE) {
        return None;
    }
    let properties = row::document(node, "props").unwrap_or_default();
    let properties: Row = serde_json::from_str(&properties).unwrap_or_default();
    if row::flag(&properties, "healthCheckEnabled") == Some(false) {
        return None;
    }
    let url = row::filled(node, "url")?;
    let url = url.trim();
    let (host, port) = url.rsplit_once(':')?;
    let is_address = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_address.then(|| url.to_owned())
}

fn addresses(tables: &Tables) -> BTreeSet<String> {
    let rows = tables.rows(Table::DiscoveryUpstream);
    rows.flat_map(|(_, row)| nodes(row)).filter_map(address).collect()
}

fn verdict(node: &Row, reachable: &HashMap<String, bool>, now_ms: u64) -> Verdict {
    let Some(answers) = address(node).and_then(|address| reachable.get(&address).copied()) else {
        return Verdict::Same;
    };
    let is_on = row::number(node, "status").unwrap_or(0) == 0;
    let since = row::number(node, AWAY_SINCE).and_then(|since| u64::try_from(since).ok());
    match (is_on, answers) {
        (true, false) => Verdict::Off,
        (false, true) => Verdict::On,
        (false, false) if now_ms.saturating_sub(since.unwrap_or(now_ms)) >= FORGOTTEN_MS => {
            Verdict::Forgotten
        }
        (true, true) | (false, false) => Verdict::Same,
    }
}

/// Logs the changes of a round. Returns `false` if nothing changes.
fn report(tables: &Tables, reachable: &HashMap<String, bool>, now_ms: u64) -> bool {
    let mut changes = false;
    for (selector, row) in tables.rows(Table::DiscoveryUpstream) {
        let mut left = 0;
        let mut gone = 0;
        for node in nodes(row) {
            let verdict = verdict(node, reachable, now_ms);
            changes |= verdict != Verdict::Same;
            let url = row::text(node, "url").unwrap_or_default();
            match verdict {
                Verdict::Same if row::number(node, "status").unwrap_or(0) == 0 => left += 1,
                Verdict::Same | Verdict::Forgotten => {}
                Verdict::Off => {
                    gone += 1;
                    tracing::info!(selector, url, "a node is away and marked as off");
                }
                Verdict::On => {
                    left += 1;
                    tracing::info!(selector, url, "a node is back");
                }
            }
        }
        // Logged only in the round in which the last node goes offline, not in later ones.
        if gone > 0 && left == 0 {
            let name = row::text(row, "selectorName").unwrap_or_default();
            tracing::warn!(selector, name, "the last node of a selector is away");
        }
    }
    changes
}

/// Writes the outcome of a round.
fn write(draft: &mut Draft<'_>, reachable: &HashMap<String, bool>, now_ms: u64) {
    let changes =
        |row: &Row| nodes(row).any(|node| verdict(node, reachable, now_ms) != Verdict::Same);
    for (selector, row) in draft.find_all(Table::DiscoveryUpstream, changes) {
        let mut states = BTreeMap::new();
        let mut list = Vec::new();
        for node in nodes(&row) {
            let mut node = node.clone();
            // Evaluated again inside the transaction, because a node may have registered again
            // since its probe.
            let verdict = verdict(&node, reachable, now_ms);
            let state = match verdict {
                Verdict::Same => None,
                Verdict::Off => Some(false),
                Verdict::On => Some(true),
                Verdict::Forgotten => continue,
            };
            if let Some(is_on) = state {
                node.insert("status".to_owned(), i64::from(!is_on).into());
                node.insert("dateUpdated".to_owned(), draft.now.clone().into());
                if is_on {
                    node.remove(AWAY_SINCE);
                    node.insert("startedMs".to_owned(), now_ms.into());
                } else {
                    node.insert(AWAY_SINCE.to_owned(), now_ms.into());
                }
                states.extend(row::text(&node, "url").map(|url| (url, is_on)));
            }
            list.push(Value::Object(node));
        }
        let mut row = (*row).clone();
        row.insert("upstreamDataList".to_owned(), list.into());
        row.insert("dateUpdated".to_owned(), draft.now.clone().into());
        draft.put(Table::DiscoveryUpstream, &selector, row);
        write_handle(draft, &selector, &states, now_ms);
    }
}

/// Updates the nodes in the selector's handle, where gateways before 2.6.1 read them.
fn write_handle(draft: &mut Draft<'_>, id: &str, states: &BTreeMap<String, bool>, now_ms: u64) {
    let Some(selector) = draft.get(Table::Selector, id) else { return };
    let text = row::text(&selector, "handle").unwrap_or_default();
    let Ok(mut handle) = serde_json::from_str::<Value>(&text) else { return };
    let list = match &mut handle {
        Value::Array(list) => Some(list),
        Value::Object(handle) => handle.get_mut("divideUpstreams").and_then(Value::as_array_mut),
        _ => None,
    };
    let mut changes = false;
    for node in list.into_iter().flatten() {
        let url = node.get("upstreamUrl").and_then(Value::as_str).unwrap_or_default();
        if let Some(is_on) = states.get(url).copied()
            && let Some(node) = node.as_object_mut()
        {
            node.insert("status".to_owned(), is_on.into());
            if is_on {
                node.insert("timestamp".to_owned(), json!(now_ms));
            }
            changes = true;
        }
    }
    // Every write is sent to all gateways, so an unchanged row is not written.
    if changes {
        let mut selector = (*selector).clone();
        selector.insert("handle".to_owned(), handle.to_string().into());
        selector.insert("dateUpdated".to_owned(), draft.now.clone().into());
        draft.put(Table::Selector, id, selector);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_marks_no_node_as_off() {
        /// "Too many open files" and "connection refused", as Linux numbers them.
        const MFILE: i32 = 24;
        const REFUSED: i32 = 111;
        for (failure, expected) in [
            (None, Some(true)),
            (Some(io::Error::from_raw_os_error(MFILE)), None),
            (Some(io::Error::from_raw_os_error(REFUSED)), Some(false)),
            (Some(io::ErrorKind::TimedOut.into()), Some(false)),
        ] {
            assert_eq!(said_by(failure.as_ref()), expected, "{failure:?}");
        }
    }
}
