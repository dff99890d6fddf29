//! The training load of the published binary: short and long heads, one route and many, bodies of
//! known length and chunked ones, plugins with an access log, and refusals.
//!
//! The load is varied on purpose, because a binary optimized for one request would be slow for all
//! others.

use crate::bench::client::{Connection, get_request};
use crate::bench::gate::{REQUEST, origin::Origin};
use crate::bench::gateway::{self, Bootstrap, key_line};
use crate::bench::process::{Running, free_port, fresh_folder};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Connections that stay open, each with one request at a time.
const CONNECTIONS: usize = 16;
/// Requests of each kind: far more than the counters need, but few enough to finish in half a
/// minute.
const REQUESTS: usize = 48_000;
/// Number of routes, so that finding one needs a search.
const ROUTES: usize = 1_000;

/// Sends the load to an instrumented binary, which writes its counts when it ends.
pub(super) fn run(binary: &Path) -> Result<()> {
    let origin = Origin::start()?;
    for access_log in ["off", "combined"] {
        let folder = fresh_folder()?;
        let port = free_port()?;
        let resources = resources(origin.port());
        let bootstrap = Bootstrap { access_log, ..Bootstrap::from_resources(port, &resources) };
        bootstrap.write(folder.path())?;
        let mut command = Command::new(binary);
        command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
        let mut running = Running::start(command, folder)?;
        running.wait_until_it_answers(port, "/r/0").context("the binary that counts")?;
        for (request, status) in requests() {
            send(port, request.as_bytes(), status)?;
        }
        running.stop();
    }
    Ok(())
}

fn resources(origin_port: u16) -> String {
    let plugins = gateway::key_auth_and_limit();
    let mut routes: Vec<_> = (0..ROUTES)
        .map(|number| gateway::route_with_plugins(origin_port, number, &json!({})))
        .collect();
    let mut guarded = gateway::route_with_plugins(origin_port, ROUTES, &plugins);
    guarded["uri"] = json!("/guarded/*");
    routes.push(guarded);
    json!({ "routes": routes, "consumers": [gateway::consumer(0)] }).to_string()
}

/// Returns every kind of request with the expected status.
fn requests() -> Vec<(String, u16)> {
    let key = key_line(0);
    let body = "a".repeat(900);
    vec![
        (get_request("/r/0", ""), 200),
        (format!("{REQUEST}\r\n"), 200),
        (get_request("/r/731?from=0&to=100", "Accept: */*\r\n"), 200),
        (format!("POST /r/12 HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n{body}"), 200),
        (
            format!(
                "POST /r/12 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 384\r\n{body}\r\n0\r\n\r\n"
            ),
            200,
        ),
        (get_request("/guarded/1", &key), 200),
        (get_request("/guarded/1", ""), 401),
        (get_request("/nobody", ""), 404),
    ]
}

/// Sends one request on every connection, then reads one answer from every connection, and repeats
/// this.
fn send(port: u16, request: &[u8], expected: u16) -> Result<()> {
    let mut connections: Vec<Connection> =
        (0..CONNECTIONS).map(|_| Connection::open(port)).collect::<Result<_>>()?;
    for _ in 0..REQUESTS / CONNECTIONS {
        for connection in &mut connections {
            connection.send(request)?;
        }
        for connection in &mut connections {
            let status = connection.receive()?;
            if status != expected {
                bail!("status {status} instead of {expected} during the training");
            }
        }
    }
    Ok(())
}
