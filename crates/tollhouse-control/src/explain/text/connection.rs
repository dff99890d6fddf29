//! Finds the stream route that takes a TCP, TLS or UDP connection, and explains why the other
//! stream routes do not.
//!
//! The data plane's own table finds the route. The other routes are explained by their conditions,
//! in the order in which a reader would check them.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::{Problem, StreamRoute};
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::l4::table::{Arrival, StreamEntry};
use tollhouse_proxy::snapshot::Target;
use tollhouse_telemetry::ErrorCode;

use super::super::{BelowHttp, lossy};

/// Maximum number of other routes listed; a file may have thousands.
const ROUTES_SHOWN_MAX: usize = 20;

const STRING: &str = "writing to a string cannot fail";

/// Returns the decision as text, and whether a route takes the connection. `listened` are the ports
/// with a listener.
pub fn connection(
    asked: &BelowHttp<'_>,
    client: IpAddr,
    snapshot: &Snapshot,
    listened: &ListenedPorts,
) -> (String, bool) {
    // If the URL has a host name, the unspecified address stands for the listener's address.
    let local = asked.host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let name = asked.host.to_ascii_lowercase();
    let has_name = asked.scheme == "tls" && asked.host.parse::<IpAddr>().is_err();
    let arrival = Arrival {
        client: client.to_canonical(),
        local: SocketAddr::new(local, asked.port),
        server_name: has_name.then_some(name.as_str()),
    };
    let found = snapshot.streams.find(&arrival);
    let unheard = listened.warning(Some(asked.port), "");
    let BelowHttp { scheme, host, port } = asked;
    let mut text = format!("connection  {scheme} to {host}:{port}, from {client}\n");
    if let Some(Problem { reason, hint, .. }) = unheard {
        writeln!(text, "listener    none: {reason}; {hint}").expect(STRING);
    }
    match found {
        Some(entry) => write_route(&mut text, entry, snapshot),
        None => {
            let code = ErrorCode::RouteNotFound;
            writeln!(text, "route       none\nanswer      it is closed ({code})").expect(STRING);
        }
    }
    let taken = found.map(|entry| &entry.route);
    let routes = snapshot.streams.routes().map(|entry| &entry.route);
    let others = routes.filter(|route| taken.is_none_or(|taken| taken.id != route.id));
    let mut others: Vec<&StreamRoute> = others.collect();
    others.sort_by_key(|route| route.id.as_str());
    write_others(&mut text, &others, &arrival);
    (text, found.is_some())
}

fn write_route(text: &mut String, entry: &StreamEntry, snapshot: &Snapshot) {
    let route = &entry.route;
    let name = route.name.as_ref().map(|name| format!(" ({})", lossy(name.as_bytes())));
    writeln!(text, "route       {}{}", route.id, name.unwrap_or_default()).expect(STRING);
    let plugins: Vec<&str> = entry.chain.steps().iter().map(|step| step.name()).collect();
    let plugins = if plugins.is_empty() { "none".to_owned() } else { plugins.join(", ") };
    writeln!(text, "plugins     {plugins}").expect(STRING);
    let upstream = match &entry.target {
        Target::Inline(upstream) => Some(&**upstream),
        Target::Slot(slot) => snapshot.upstreams.get(*slot).and_then(Option::as_deref),
        Target::None => None,
    };
    let Some(upstream) = upstream else {
        let code = ErrorCode::UpstreamNotFound;
        return writeln!(text, "upstream    none: it is closed ({code})").expect(STRING);
    };
    let place =
        upstream.conf.id.as_ref().map_or("its own".to_owned(), |id| format!("upstreams/{id}"));
    writeln!(text, "upstream    {place}: {}", upstream.conf.balance.policy.name()).expect(STRING);
    for node in &upstream.conf.nodes {
        writeln!(text, "            {}:{}  weight {}", node.host, node.port, node.weight)
            .expect(STRING);
    }
}

fn write_others(text: &mut String, others: &[&StreamRoute], arrival: &Arrival<'_>) {
    if others.is_empty() {
        return;
    }
    text.push_str("\nother stream routes\n");
    for route in others.iter().take(ROUTES_SHOWN_MAX) {
        writeln!(text, "  {}  {}", route.id, reason(route, arrival)).expect(STRING);
    }
    if let Some(more @ 1..) = others.len().checked_sub(ROUTES_SHOWN_MAX) {
        writeln!(text, "  and {more} more").expect(STRING);
    }
}

/// Returns the first condition that a route fails.
fn reason(route: &StreamRoute, arrival: &Arrival<'_>) -> String {
    if let Some(port) = route.server_port.filter(|port| *port != arrival.local.port()) {
        return format!("server_port is {port}");
    }
    let local = arrival.local.ip().to_canonical();
    if let Some(network) = route.server_addr.filter(|network| !network.contains(&local)) {
        return format!("server_addr is {network}");
    }
    if let Some(network) = route.remote_addr.filter(|network| !network.contains(&arrival.client)) {
        return format!("remote_addr is {network}");
    }
    match &route.sni {
        Some(sni) if !covers(sni, arrival.server_name) => format!("sni is {sni}"),
        Some(_) => "another name is more exact, or stands before it".to_owned(),
        None => "another route has the name, or stands before it".to_owned(),
    }
}

/// Whether an SNI condition covers a name.
fn covers(sni: &str, name: Option<&str>) -> bool {
    let Some(name) = name else { return false };
    match sni.strip_prefix('*') {
        Some(ending) => name.ends_with(ending),
        None => sni == name,
    }
}
