//! Training load for profile-guided optimization of the published binary. The binary is its own
//! client and upstream, so that the load generator is optimized too.
//!
//! The load is varied on purpose, because the compiler optimizes code that the training does not
//! run for size: short and long heads, one route and many, bodies of known length and chunked ones,
//! plugins with an access log, refusals, traces, Lua, ShenYu's rules, HTTP/2, TLS, gRPC, and the
//! calls of the registry.

use crate::admin::{Object, put_all};
use crate::client::{get_request, probe};
use crate::edge::proxy::{self, Certificate, Nodes, Ports};
use crate::gate::{self, REQUEST, origin::Origin};
use crate::gateway::{self, key_line};
use crate::shell::{self, fresh_folder};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use tollhouse_testbed::{Bootstrap, Listen, Program, free_port};

/// Number of requests of each kind: far more than the profile needs, but few enough to finish in
/// two minutes.
const REQUESTS: usize = 48_000;
/// Number of routes, so that finding one needs a search.
const ROUTES: usize = 1_000;
/// Number of routes and of consumers that are written and then read at a start.
const OBJECTS: usize = 10_000;

/// Sends the load to an instrumented binary, which writes its profile when it ends.
pub(crate) fn run(binary: &Path) -> Result<()> {
    routes(binary)?;
    gate::train(binary, REQUESTS)?;
    protocols(binary)?;
    objects(binary)?;
    registry(binary)
}

fn routes(binary: &Path) -> Result<()> {
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

/// Sends requests over HTTP/1.1 and HTTP/2, each with and without TLS, and gRPC calls.
fn protocols(binary: &Path) -> Result<()> {
    let certificates = fresh_folder()?;
    let certificate = Certificate::make(certificates.path())?;
    let node_port = free_port()?;
    let mut command = Command::new(binary);
    command.args(["mock", "--body-bytes", "1024", "--listen", &format!("127.0.0.1:{node_port}")]);
    let node = Program::start_in("mock", fresh_folder()?, command)?;
    node.wait_until_it_listens(node_port)?;

    let ports = Ports::free()?;
    let settings = proxy::tollhouse_settings();
    let bootstrap =
        Bootstrap { listen: ports.listen()?, settings: &settings, ..Bootstrap::default() };
    let nodes = Nodes { http_port: node_port, grpc_port: node_port };
    let resources = proxy::resources(&nodes, &certificate)?;
    let folder = fresh_folder()?;
    let mut command = Command::new(binary);
    command.args(["run", "--config"]);
    command.arg(gateway::write(folder.path(), &bootstrap, &resources)?);
    let gateway = Program::start_in("tollhouse", folder, command)?;
    gateway.wait_until_it_answers(ports.plain, &probe("/r/0", ""))?;

    let Ports { plain, tls } = ports;
    let count = REQUESTS.to_string();
    for (url, shape) in [
        (format!("http://127.0.0.1:{plain}/r/0"), "-c32"),
        (format!("http://127.0.0.1:{plain}/r/0"), "-2 -c10 -m10"),
        (format!("http://127.0.0.1:{plain}/r/0"), "-2 -c64 -m1"),
        (format!("https://127.0.0.1:{tls}/r/0"), "-k -c32"),
        (format!("https://127.0.0.1:{tls}/r/0"), "-k -2 -c10 -m10"),
    ] {
        let mut command = Command::new(binary);
        command.args(["bench", "http", "--quiet", "-n", &count]).args(shape.split(' ')).arg(url);
        shell::output_of(&mut command)?;
    }
    let handshakes = format!("https://127.0.0.1:{tls}/r/0");
    let mut command = Command::new(binary);
    command.args(["bench", "http", "--quiet", "-k", "--no-keep-alive", "-c8", "-n", "4000"]);
    shell::output_of(command.arg(handshakes))?;

    let calls = certificates.path().join("echo.proto");
    std::fs::write(&calls, ECHO)?;
    let mut command = Command::new(binary);
    command.args(["bench", "grpc", "--quiet", "-c10", "-m10", "-n", &count, "--proto"]).arg(calls);
    command.args(["--call", "bench.Echo/Unary", "--data", r#"{"text":"hello"}"#]);
    shell::output_of(command.arg(format!("127.0.0.1:{plain}")))?;
    gateway.stop();
    node.stop();
    Ok(())
}

/// Definition of the calls; the mock returns any message that it gets.
const ECHO: &str = "syntax = \"proto3\"; package bench; message Text { string text = 1; }\n\
    service Echo { rpc Unary(Text) returns (Text); }\n";

/// Writes objects through the Admin API, and starts again with all of them.
fn objects(binary: &Path) -> Result<()> {
    let origin = Origin::start()?;
    let data = fresh_folder()?;
    let (port, admin) = (free_port()?, free_port()?);
    let settings = format!("admin: {{ key: {} }}\n", gateway::ADMIN_KEY);
    let start = || -> Result<Program> {
        let bootstrap = Bootstrap {
            data: Some(data.path()),
            has_resources: false,
            listen: Listen { admin, ..gateway::listen(port)? },
            settings: &settings,
            ..Bootstrap::default()
        };
        let folder = fresh_folder()?;
        let mut command = Command::new(binary);
        command.args(["run", "--config"]).arg(gateway::write(folder.path(), &bootstrap, "")?);
        Ok(Program::start_in("tollhouse", folder, command)?)
    };
    let program = start()?;
    program.wait_until_it_listens(admin)?;
    put_all(admin, OBJECTS, |number| {
        let value = gateway::route_with_plugins(origin.port(), number, &json!({}));
        Object { path: format!("routes/{number}"), value }
    })?;
    put_all(admin, OBJECTS, |number| {
        let path = format!("consumers/{}", gateway::consumer_name(number));
        Object { path, value: gateway::consumer(number) }
    })?;
    program.stop();
    let program = start()?;
    program.wait_until_it_answers(port, &probe(&gateway::route_path(OBJECTS - 1), ""))?;
    program.stop();
    Ok(())
}

/// Registers, discovers and deregisters instances, and sends heartbeats.
fn registry(binary: &Path) -> Result<()> {
    let mut command = Command::new(binary);
    command.args(["bench", "suite", "polaris", "--quick", "--quiet"]);
    shell::output_of(command.current_dir(fresh_folder()?.path()))?;
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
