//! The built-in echo upstream: a small HTTP server on loopback that returns the request it
//! received.
//!
//! A first start uses it as an upstream for the demonstration route. Requests reach it through the
//! data plane, as any other upstream.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use tollhouse_web::{Limits, Listener};

/// Maximum length of an accepted body in bytes; a longer one is refused with 413.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Limits of the listener. Its only expected client is the data plane, which shares few connections
/// among all requests for the demonstration; idle ones outlive the pool's timeout of a minute.
const LIMITS: Limits = Limits {
    name: "echo",
    connections_max: 256,
    head_time_max: Duration::from_secs(75),
    drain_time_max: Duration::ZERO,
};

/// Starts the server on a free port and returns its address.
///
/// # Errors
/// If loopback cannot be listened on.
pub async fn start() -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let app =
        Router::new().fallback(echo).layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX));
    let listener = Listener { socket: listener, tls: None, limits: LIMITS };
    tokio::spawn(tollhouse_web::serve(listener, app, std::future::pending()));
    Ok(address)
}

/// Id of the route for the demonstration.
pub const DEMONSTRATION: &str = "demonstration";

/// Returns the demonstration's route to the echo server.
pub fn demonstration(echo: SocketAddr) -> Value {
    json!({
        "name": "demonstration",
        "uri": "/demo*",
        "upstream": { "type": "roundrobin", "nodes": { (echo.to_string()): 1 } },
    })
}

/// Returns the request, as an upstream sees it, as JSON.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Json<Value> {
    let headers: Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    Json(json!({
        "method": method.as_str(),
        "uri": uri.to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    }))
}
