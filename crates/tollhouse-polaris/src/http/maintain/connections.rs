//! Connections of clients over gRPC.

use super::{read_body, read_query, refused};
use crate::date::DateText;
use crate::grpc::OpenConnection;
use crate::http::HttpApi;
use crate::http::language::Language;
use crate::http::query::Query;
use crate::http::reply::{RESPONSE, Reply, plain};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::UNIX_EPOCH;

/// Names that Polaris has for its gRPC listeners. All listeners here serve both.
const PROTOCOLS: [&str; 2] = ["service-grpc", "config-grpc"];

/// Connections to list.
struct Selection {
    protocol: String,
    host: Option<IpAddr>,
    amount: usize,
}

/// Connections to close.
#[derive(Debug, Deserialize)]
struct Target {
    #[serde(alias = "Protocol")]
    protocol: String,
    #[serde(alias = "Host")]
    host: IpAddr,
    /// Port of one connection; 0 is all from the address.
    #[serde(default, alias = "Port")]
    port: u16,
}

impl Selection {
    fn from_query(query: &Query) -> Result<Self, String> {
        let protocol = query.get("protocol").ok_or("missing param protocol")?;
        check_protocol(protocol)?;
        let host = query.get("host").map(str::parse).transpose();
        let host = host.map_err(|_| "invalid host: expected an IP address")?;
        let amount = query.get("amount").and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self { protocol: protocol.to_owned(), host, amount })
    }
}

fn check_protocol(protocol: &str) -> Result<(), String> {
    if PROTOCOLS.contains(&protocol) {
        return Ok(());
    }
    let known = PROTOCOLS.join(", ");
    Err(format!("connections of {protocol:?} are not listed; expected one of {known}"))
}

/// Counts the connections, in total and by address.
pub(super) async fn counts(api: HttpApi, request: Request) -> Response<Body> {
    answer(&api, &request, "DescribeServerConnections", |selection, total, connections| {
        let hosts = by_host(&connections);
        let hosts: BTreeMap<_, _> =
            hosts.iter().map(|(host, connections)| (host.to_string(), connections.len())).collect();
        json!({"Protocol": selection.protocol, "Total": total, "Host": hosts})
    })
}

/// Lists the connections by address.
pub(super) async fn statistics(api: HttpApi, request: Request) -> Response<Body> {
    answer(&api, &request, "DescribeServerConnStats", |selection, total, connections| {
        let hosts = by_host(&connections);
        let shown = hosts.iter().filter(|(_, connections)| connections.len() >= selection.amount);
        let shown: Vec<Value> =
            shown.map(|(host, connections)| host_json(*host, connections)).collect();
        json!({
            "Protocol": selection.protocol,
            "ActiveConnTotal": total,
            "StatsTotal": hosts.len(),
            "StatsSize": shown.len(),
            "Stats": shown,
        })
    })
}

fn host_json(host: IpAddr, connections: &[OpenConnection]) -> Value {
    let newest = connections.iter().map(|connection| connection.since).max();
    let newest = newest.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    json!({
        "Host": host.to_string(),
        "Amount": connections.len(),
        "LastAccess": DateText::from_unix_seconds(newest.as_secs()).as_str(),
        "Actives": connections.iter().map(|it| it.peer.to_string()).collect::<Vec<_>>(),
    })
}

fn by_host(connections: &[OpenConnection]) -> BTreeMap<IpAddr, Vec<OpenConnection>> {
    let mut hosts = BTreeMap::<IpAddr, Vec<OpenConnection>>::new();
    for connection in connections {
        hosts.entry(connection.peer.ip().to_canonical()).or_default().push(*connection);
    }
    hosts
}

fn answer(
    api: &HttpApi,
    request: &Request,
    function: &'static str,
    text_of: impl FnOnce(&Selection, usize, Vec<OpenConnection>) -> Value,
) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let query = match read_query(api, request, function, &["protocol", "host", "amount"]) {
        Ok(query) => query,
        Err(failure) => return Reply::failure(RESPONSE, &failure).print(language),
    };
    match Selection::from_query(&query) {
        Ok(selection) => {
            let connections = api.connections.list(selection.host);
            let total = match selection.host {
                None => connections.len(),
                Some(_) => api.connections.list(None).len(),
            };
            plain(StatusCode::OK, text_of(&selection, total, connections).to_string())
        }
        Err(text) => refused(text),
    }
}

/// Closes connections; unknown ones are ignored.
pub(super) async fn close(api: HttpApi, request: Request) -> Response<Body> {
    let targets: Vec<Target> = match read_body(&api, request, "CloseConnections").await {
        Ok(targets) => targets,
        Err(response) => return *response,
    };
    if let Some(text) = targets.iter().find_map(|it| check_protocol(&it.protocol).err()) {
        return refused(text);
    }
    for Target { host, port, .. } in targets {
        let closed = api.connections.close(host.to_canonical(), port);
        tracing::info!(%host, port, closed, "an operator closes connections of registry clients");
    }
    plain(StatusCode::OK, "")
}
