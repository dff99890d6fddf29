//! Origin behind the proxies: an nginx on the core of the load, which answers any path with a body
//! of a given size and keeps its connections open.

use super::plan::{Core, Plan};
use crate::client::probe;
use crate::shell;
use anyhow::Result;
use tollhouse_testbed::{Nginx, Program, free_port};

/// Maximum size in bytes of a body that is part of nginx's configuration; larger bodies are in a
/// file.
const LITERAL_BYTES_MAX: usize = 3072;

pub(crate) struct Origin {
    pub(crate) port: u16,
    pub(crate) program: Program,
}

/// Starts an origin whose responses have `body_bytes` bytes of body.
pub(crate) fn start(plan: &Plan, body_bytes: usize) -> Result<Origin> {
    let folder = shell::fresh_folder()?;
    let port = free_port()?;
    let body = "x".repeat(body_bytes);
    let location = if body_bytes <= LITERAL_BYTES_MAX {
        format!("return 200 \"{body}\";")
    } else {
        std::fs::write(folder.path().join("body"), body)?;
        let root = folder.path().display();
        format!("root {root}; rewrite ^ /body break; sendfile on; open_file_cache max=8;")
    };
    let server = server(port, "", &location);
    let program = plan.nginx_in(Core::Load, folder, &configuration(&server))?;
    program.wait_until_it_answers(port, &probe("/", ""))?;
    Ok(Origin { port, program })
}

/// Starts an nginx that answers every request with `ok`, on the core of the program under test.
/// `protocol` is appended to the address in nginx's `listen` directive: empty, or ` http2`. Returns
/// the port and the program.
pub(crate) fn start_null(plan: &Plan, protocol: &str) -> Result<(u16, Program)> {
    let port = free_port()?;
    let server = server(port, protocol, "return 200 \"ok\";");
    let program = plan.nginx(Core::Proxy, &configuration(&server))?;
    program.wait_until_it_listens(port)?;
    Ok((port, program))
}

fn configuration(server: &str) -> Nginx<'_> {
    let http = "  client_max_body_size 0;\n";
    Nginx { workers: 1, connections: 20_000, upstreams: &[], kept: 0, http, server }
}

fn server(port: u16, protocol: &str, location: &str) -> String {
    format!(
        "    listen 127.0.0.1:{port}{protocol} backlog=4096;\n    \
         location / {{ default_type text/plain; {location} }}\n"
    )
}
