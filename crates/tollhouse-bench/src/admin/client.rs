//! Writes through the Admin API: single requests, or many over several connections.

use crate::client::{Connection, distribute};
use crate::gateway::ADMIN_KEY;
use anyhow::{Result, bail};
use serde_json::Value;
use std::time::Duration;

/// Number of concurrent clients, each with one persistent connection.
pub(crate) const CLIENTS: usize = 16;

/// A connection to the Admin API.
pub(crate) struct Writer {
    connection: Connection,
}

impl Writer {
    pub(crate) fn open(port: u16) -> Result<Self> {
        Ok(Self { connection: Connection::open(port)? })
    }

    /// Puts an object at a path of the Admin API; fails unless it is accepted.
    pub(crate) fn put(&mut self, path: &str, object: &Value) -> Result<()> {
        put(&mut self.connection, path, object)
    }
}

fn put(connection: &mut Connection, path: &str, object: &Value) -> Result<()> {
    let start = format!("PUT /apisix/admin/{path}");
    let (status, body) = connection.send_json(&start, &key_line(), object)?;
    if !matches!(status, 200 | 201) {
        bail!("{path} was answered {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

/// Returns the header line with the key of the Admin API.
pub(super) fn key_line() -> String {
    format!("X-API-KEY: {ADMIN_KEY}\r\n")
}

/// Puts the objects with numbers below `count`, distributed over all clients, and returns the
/// duration.
pub(crate) fn put_all(
    port: u16,
    count: usize,
    object: impl Fn(usize) -> Object + Sync,
) -> Result<Duration> {
    distribute(CLIENTS, port, count, |connection, number| {
        let Object { path, value } = object(number);
        put(connection, &path, &value)
    })
}

/// Object of the Admin API.
pub(crate) struct Object {
    /// Path below `/apisix/admin/`.
    pub(crate) path: String,
    pub(crate) value: Value,
}
