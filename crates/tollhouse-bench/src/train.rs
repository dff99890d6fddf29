//! Training load for profile-guided optimization of the published binary: short and long heads, one
//! route and many, bodies of known length and chunked ones, plugins with an access log, and
//! refusals.
//!
//! The load is varied on purpose, because a binary optimized for one request would be slow for all
//! others.

use crate::client::{get_request, probe};
use crate::gate::{self, REQUEST, origin::Origin};
use crate::gateway::{self, key_line};
use crate::shell::fresh_folder;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use tollhouse_testbed::{Bootstrap, Program, free_port};

/// Number of requests of each kind: far more than the profile needs, but few enough to finish in
/// half a minute.
const REQUESTS: usize = 48_000;
/// Number of routes, so that finding one needs a search.
const ROUTES: usize = 1_000;

/// Sends the load to an instrumented binary, which writes its profile when it ends.
pub(crate) fn run(binary: &Path) -> Result<()> {
    let origin = Origin::start()?;
    for access_log in ["off", "combined"] {
        let folder = fresh_folder()?;
        let port = free_port()?;
        let listen = gateway::listen(port)?;
        let bootstrap = Bootstrap { listen, access_log, ..Bootstrap::default() };
        let resources = resources(origin.port());
        let mut command = Command::new(binary);
        command.args(["run", "--config"]);
        command.arg(gateway::write(folder.path(), &bootstrap, &resources)?);
        let program = Program::start_in("tollhouse", folder, command)?;
        let probe = probe("/r/0", "");
        program.wait_until_it_answers(port, &probe).context("the binary that counts")?;
        for (request, status) in requests() {
            gate::send(port, &request, gate::Repeats { requests: REQUESTS, status })?;
        }
        program.stop();
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
        (get_request("/missing", ""), 404),
    ]
}
