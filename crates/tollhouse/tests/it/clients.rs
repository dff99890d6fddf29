//! Clients and servers that people have: curl, ab, h2load, wrk, Python, Go. Each does through the
//! gateway what it does every day; a machine without one skips its test with a message.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{Connection, Gateway, Origin};

use crate::support::{everything_to, gateway, gateway_to, routes, upstream};

/// Requests in one run of a load tool.
const REQUESTS: usize = 5_000;

/// For Go to compile its standard library when it never has on this machine.
const GO_BUILD_TIME: Duration = Duration::from_secs(240);

/// Answers with what it was sent: the method in a header, the body as the body.
fn echo(connection: &mut Connection) {
    while let Some(request) = connection.request() {
        let (method, length) = (request.method(), request.body.len());
        connection.send(format!(
            "HTTP/1.1 200 OK\r\nX-Method: {method}\r\nContent-Length: {length}\r\n\r\n"
        ));
        if method != "HEAD" {
            connection.send(&request.body);
        }
    }
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}/echo", gateway.address())
}

#[test]
fn curl_gets_what_it_asks_for() {
    let Some(curl) = program::find("curl") else { return };
    let origin = Origin::script(echo);
    let gateway = gateway_to(&origin);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("upload");
    std::fs::write(&file, vec![b'x'; 3_000_000]).expect("the folder takes files");
    let upload = file.to_str().expect("a temporary path is text");
    let url = url(&gateway);
    let cases: [(&[&str], &str); 8] = [
        (&[&url], "200 0 1"),
        (&["-X", "DELETE", &url], "200 0 1"),
        (&["-I", "-o", "-", &url], "200 0 1"),
        (&["-d", "hello", &url], "200 5 1"),
        (&["-T", upload, &url], "200 3000000 1"),
        (
            &["-T", upload, "-H", "Expect: 100-continue", "--expect100-timeout", "7", &url],
            "200 3000000 1",
        ),
        (&["-T", upload, "-H", "Transfer-Encoding: chunked", &url], "200 3000000 1"),
        (&["--http1.0", "-d", "hello", &url], "200 5 1"),
    ];
    for (arguments, expected) in cases {
        let mut command = Command::new(&curl);
        command.args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "\n%{http_code} %{size_download} %{num_connects}",
        ]);
        let text = program::run_well(command.args(arguments));
        assert_eq!(text.lines().last(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn curl_keeps_its_connection() {
    let Some(curl) = program::find("curl") else { return };
    let origin = Origin::script(echo);
    let gateway = gateway_to(&origin);
    let mut command = Command::new(curl);
    command.args(["-sS", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} "]);
    let text = program::run_well(command.arg(url(&gateway)).arg(url(&gateway)));
    assert_eq!(text, "1 0 ");
}

#[test]
fn ab_keeps_its_connections_over_one_zero() {
    let Some(ab) = program::find("ab") else { return };
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let count = REQUESTS.to_string();
    let mut command = Command::new(ab);
    command.args(["-k", "-q", "-c", "8", "-n", &count]);
    let text = program::run_well(command.arg(url(&gateway)));
    for (name, value) in
        [("Complete requests", &*count), ("Failed requests", "0"), ("Keep-Alive requests", &*count)]
    {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.ends_with(&format!(" {value}")), "{name}: {text}");
    }
    assert!(!text.contains("Non-2xx"), "{text}");
}

#[test]
fn h2load_gets_an_answer_to_every_request() {
    let Some(h2load) = program::find("h2load") else { return };
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut command = Command::new(h2load);
    command.args(["--h1", "-c", "8", "-t", "1", "-n", &REQUESTS.to_string()]);
    let text = program::run_well(command.arg(url(&gateway)));
    let expected = format!("{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout");
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains(&format!("status codes: {REQUESTS} 2xx")), "{text}");
}

#[test]
fn wrk_sees_no_error() {
    let Some(wrk) = program::find("wrk") else { return };
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let text = program::run_well(Command::new(wrk).args(["-t1", "-c8", "-d1s"]).arg(url(&gateway)));
    assert!(text.contains("Requests/sec"), "{text}");
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
}

pub(crate) fn python_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name)
}

#[test]
fn pythons_client_keeps_one_connection_for_everything() {
    let Some(python) = program::python() else { return };
    let origin = Origin::script(echo);
    let gateway = gateway_to(&origin);
    let mut command = Command::new(python);
    command.arg(python_script("http_client.py")).arg(gateway.address().to_string());
    assert_eq!(program::run_well(&mut command), "");
}

/// The address that a server prints first.
pub(crate) fn address_of(server: &Running) -> SocketAddr {
    server.output().wait_line("an address", |line| line.trim().parse().ok())
}

#[test]
fn websockets_talk_through_the_gateway() {
    let Some(python) = program::python() else { return };
    let script = python_script("websocket.py");
    let server = Running::start(Command::new(&python).arg(&script).arg("serve"));
    let route = json!({
        "id": "chat", "uri": "/chat", "enable_websocket": true,
        "upstream": upstream([address_of(&server)]),
    });
    let gateway = gateway().resources(&routes([route])).start();
    let mut command = Command::new(&python);
    command.arg(&script).arg("ask").arg(gateway.address().to_string());
    assert_eq!(program::run_well(&mut command), "");
}

#[test]
fn gos_client_and_server_understand_each_other_through_the_gateway() {
    let Some(go) = program::find("go") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let peer = folder.path().join("peer");
    let mut build = Command::new(go);
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go"));
    build.args(["build", "-o"]).arg(&peer).arg(".");
    let built = program::run_within(&mut build, GO_BUILD_TIME);
    assert!(built.status.success(), "{}", built.text);
    let server = Running::start(Command::new(&peer).arg("serve"));
    let resources = everything_to(address_of(&server));
    let gateway = gateway().resources(&resources).start();
    let mut command = Command::new(&peer);
    command.arg("ask").arg(gateway.address().to_string());
    assert_eq!(program::run_well(&mut command), "");
}
