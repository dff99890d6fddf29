//! gRPC as others speak it: the interoperability suites that grpc-go and grpc-java publish, each between its own client
//! and its own server, and ghz and grpcurl before a node of grpc-go.
//!
//! `cargo x install` builds them (sources in `tests/interop`); a machine without one skips its test.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::Gateway;
use tollhouse_testkit::program::{self, Running, run_within};

use crate::clients::{address_of, python_script};
use crate::support::gateway;
use crate::tls_support::{Authority, ssl};

/// The suites' names, as programs.
const GO: &str = "grpc-go";
const JAVA: &str = "grpc-java";

/// A suite has cases that wait on purpose.
const PATIENCE: Duration = Duration::from_secs(120);

/// Cases of the suite.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

/// A suite's own server.
struct Node {
    _running: Running,
    address: SocketAddr,
}

impl Node {
    fn start(program: &Path) -> Self {
        let running = Running::start(Command::new(program).arg("--serve"));
        let address = running.output().wait_line_within(PATIENCE, "the node", |line| {
            line.strip_prefix("serves ").map(|address| address.parse().expect("an address"))
        });
        Self { _running: running, address }
    }
}

/// A gateway before it, in clear text and over TLS, and the certificate of whoever has signed for `a.test`.
fn gateway_before(node: &Node) -> (Gateway, Authority) {
    let authority = Authority::new("root");
    let resources = json!({
        "routes": [{
            "id": "calls", "uri": "/grpc.*",
            "upstream": { "scheme": "grpc", "nodes": { node.address.to_string(): 1 } },
        }],
        "ssls": [ssl("1", &["a.test"], &authority.server(&["a.test"]))],
    });
    (gateway().tls().resources(&resources).start(), authority)
}

fn run_suite(command: &mut Command, how: &str) {
    let ran = run_within(command, PATIENCE);
    for case in CASES {
        let passed = format!("passed {case}");
        assert!(ran.text.lines().any(|line| line == passed), "{how}: {case}\n{}", ran.text);
    }
    assert!(ran.status.success(), "{how}: {}", ran.text);
}

fn suite_passes(client: &Path, node: &Node) {
    let (gateway, authority) = gateway_before(node);
    let plain = gateway.address().to_string();
    run_suite(Command::new(client).args(["--call", &plain]), "in clear text");
    let ca = gateway.folder().join("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("a file");
    let tls = gateway.tls_address().to_string();
    let mut command = Command::new(client);
    command.args(["--call", &tls, "--name", "a.test", "--ca"]).arg(&ca);
    run_suite(&mut command, "over TLS");
}

#[test]
fn the_suite_of_grpc_in_go_passes_through_the_gateway() {
    let Some(go) = program::find(GO) else { return };
    suite_passes(&go, &Node::start(&go));
}

#[test]
fn the_suite_of_grpc_in_java_passes_through_the_gateway() {
    let Some(java) = program::find(JAVA) else { return };
    suite_passes(&java, &Node::start(&java));
}

/// Calls of one connection, each of which brings two WINDOW_UPDATEs: twice the burst that is allowed.
const PYTHON_CALLS: &str = "10000";

fn call_from_python(python: &Path, address: SocketAddr, method: &str) {
    let mut command = Command::new(python);
    command.arg(python_script("grpc_calls.py")).arg("call");
    command.arg(address.to_string()).args([method, PYTHON_CALLS]);
    let ran = run_within(&mut command, PATIENCE);
    assert!(ran.status.success() && ran.text.is_empty(), "{}", ran.text);
}

#[test]
fn pythons_client_makes_short_calls_without_end_over_one_connection() {
    let Some(python) = program::python() else { return };
    let script = python_script("grpc_calls.py");
    let server = Running::start(Command::new(&python).arg(script).arg("serve"));
    let node = address_of(&server).to_string();
    let resources = json!({ "routes": [{
        "id": "calls", "uri": "/a.Echo/*", "upstream": { "scheme": "grpc", "nodes": { node: 1 } },
    }]});
    let gateway = gateway().registry().resources(&resources).start();
    call_from_python(&python, gateway.address(), "/a.Echo/Say");
    // Answered with a code, since it names no instance: as short an answer as there is.
    let (registry, _) = gateway.registry_addresses();
    call_from_python(&python, registry, "/v1.PolarisGRPC/Heartbeat");
}

#[test]
fn grpcurl_lists_describes_and_calls_through_the_gateway() {
    let (Some(go), Some(grpcurl)) = (program::find(GO), program::find("grpcurl")) else { return };
    let node = Node::start(&go);
    let (gateway, authority) = gateway_before(&node);
    let ca = gateway.folder().join("ca.pem");
    std::fs::write(&ca, &authority.pem).expect("a file");
    let plain = gateway.address().to_string();
    let run = |words: &[&str]| run_within(Command::new(&grpcurl).args(words), PATIENCE);
    let listed = run(&["-plaintext", &plain, "list"]);
    let is_listed = listed.text.lines().any(|line| line == "grpc.testing.TestService");
    assert!(is_listed, "{}", listed.text);
    let described = run(&["-plaintext", &plain, "describe", "grpc.testing.TestService.UnaryCall"]);
    assert!(described.text.contains("rpc UnaryCall ("), "{}", described.text);
    let calls = [
        // One message, and as many as are asked for, both ways.
        ("UnaryCall", r#"{"response_size": 3}"#, 0, &["\"AAAA\""][..]),
        (
            "FullDuplexCall",
            r#"{"response_parameters": [{"size": 3}]} {"response_parameters": [{"size": 6}]}"#,
            0,
            &["\"AAAA\"", "\"AAAAAAAA\""],
        ),
        // What a call fails with is the exit code, counted from 64.
        (
            "UnaryCall",
            r#"{"response_status": {"code": 5, "message": "not here"}}"#,
            64 + 5,
            &["NotFound", "not here"],
        ),
    ];
    let tls = gateway.tls_address().to_string();
    let ca = ca.to_str().expect("a path of ASCII");
    let over_tls = ["-cacert", ca, "-authority", "a.test"];
    for (how, address) in [(&["-plaintext"][..], &plain), (&over_tls, &tls)] {
        for (method, message, code, said) in calls {
            let method = format!("grpc.testing.TestService/{method}");
            let ran = run(&[how, &["-d", message, address, &method]].concat());
            assert_eq!(ran.status.code(), Some(code), "{how:?}: {}", ran.text);
            assert!(said.iter().all(|word| ran.text.contains(word)), "{how:?}: {}", ran.text);
        }
    }
}

#[test]
fn ghz_finds_services_by_reflection_and_calls_them_through_the_gateway() {
    let (Some(go), Some(ghz)) = (program::find(GO), program::find("ghz")) else { return };
    let node = Node::start(&go);
    let (gateway, _) = gateway_before(&node);
    let mut command = Command::new(ghz);
    command.args(["--insecure", "--call", "grpc.testing.TestService/UnaryCall"]);
    command.args(["-d", r#"{"response_size": 1000}"#, "-O", "json"]);
    command
        .args(["-n", "200", "-c", "10", "--connections", "2"])
        .arg(gateway.address().to_string());
    let ran = run_within(&mut command, PATIENCE);
    let report: Value = serde_json::from_str(ran.text.trim()).expect("a report");
    assert_eq!(report["statusCodeDistribution"], json!({ "OK": 200 }), "{}", ran.text);
}
