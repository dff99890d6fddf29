//! Clients of Polaris that are not ours, unchanged, against the registry: its SDK for Go in three
//! versions, its published stubs for Rust, and ghz with the published configuration files.
//!
//! `cargo x test` builds them (sources in `tests/interop`); a machine without one skips its test.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::program::{self, run_within};
use tollhouse_testkit::{Gateway, RawClient};

use crate::support::{discover, gateway, json_request};

/// A client of Polaris asks every two to four seconds, and waits for a silent instance to be found so.
const PATIENCE: Duration = Duration::from_secs(180);

/// Calls of a run of ghz, and how many are under way; the published runs last a minute.
const CALLS: usize = 2_000;
const IN_FLIGHT: usize = 50;

/// The published files, comments and all.
const FILES: [(&str, &str); 4] = [
    ("register", include_str!("../../../tollhouse-dialects/testdata/ghz/register_instance.json")),
    ("heartbeat", include_str!("../../../tollhouse-dialects/testdata/ghz/heartbeat_instance.json")),
    ("discover", include_str!("../../../tollhouse-dialects/testdata/ghz/discover_instance.json")),
    (
        "deregister",
        include_str!("../../../tollhouse-dialects/testdata/ghz/deregister_instance.json"),
    ),
];

/// The service that the published files register instances of.
const SERVICE: &str = "POLARIS-PERF-TEST-1";

fn registry() -> Gateway {
    let registry = gateway().registry().set("registry.console_auth", "false");
    let registry = registry.resources(&json!({})).start();
    add_routing_rule(&registry);
    registry
}

/// The rule that the program for Go's SDK counts on: `env` of a call's query chooses the instances whose
/// metadata has the same.
fn add_routing_rule(registry: &Gateway) {
    let to_env = |env: &str| {
        let text = json!({ "type": "EXACT", "value": env });
        let query = json!({ "type": "QUERY", "key": "env", "value": text });
        let service = json!({ "service": "interop-go-routed", "namespace": "default" });
        let mut destination = service.clone();
        destination["labels"] = json!({ "env": text });
        destination["weight"] = json!(100);
        let anybody = json!({ "service": "*", "namespace": "*", "arguments": [query] });
        json!({ "name": env, "sources": [anybody], "destinations": [destination] })
    };
    let config = json!({
        "@type": "type.googleapis.com/v1.RuleRoutingConfig",
        "rules": [to_env("dev"), to_env("test")],
    });
    let rule = json!([{
        "name": "by-env", "namespace": "default", "enable": true,
        "routing_policy": "RulePolicy", "routing_config": config,
    }]);
    let request = json_request("/naming/v2/routings", &rule);
    let answer = RawClient::connect(registry.registry_addresses().1).ask(request);
    let answer: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    assert_eq!(answer["code"], 200_000, "{answer}");
}

/// Runs a client of the registry to its end; what it printed. `None`, with a message, where it is not.
fn ask_with(client: &str) -> Option<String> {
    let client = program::find(client)?;
    let registry = registry();
    let (grpc, _) = registry.registry_addresses();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(client);
    // The SDK for Go keeps logs and a cache where it runs.
    let ran = run_within(command.arg(grpc.to_string()).current_dir(folder.path()), PATIENCE);
    assert!(ran.status.success(), "{}", ran.text);
    Some(ran.text)
}

/// Every step of the program for Go's SDK.
fn check_go(version: &str) {
    let Some(text) = ask_with(&format!("polaris-go-{version}")) else { return };
    assert_eq!(text.lines().filter(|line| line.starts_with("ok: ")).count(), 25, "{text}");
}

#[test]
fn polaris_go_1_6_1_registers_discovers_watches_and_reads_files() {
    check_go("v1.6.1");
}

#[test]
fn polaris_go_1_7_0_registers_discovers_watches_and_reads_files() {
    check_go("v1.7.0");
}

#[test]
fn polaris_go_1_7_1_registers_discovers_watches_and_reads_files() {
    check_go("v1.7.1");
}

#[test]
fn the_published_stubs_for_rust_understand_every_answer() {
    let Some(text) = ask_with("polaris-specification-client") else { return };
    assert_eq!(text.lines().filter(|line| line.starts_with("ok: ")).count(), 8, "{text}");
}

/// A folder with the four files, and where they look for it the description of the protocol.
fn folder(edit: impl Fn(&str) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let protocol = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tollhouse-polaris/proto/polaris");
    let place = folder.path().join("polaris");
    std::fs::create_dir(&place).expect("the folder takes folders");
    for entry in std::fs::read_dir(protocol).expect("the protocol's folder") {
        let file = entry.expect("an entry");
        std::fs::copy(file.path(), place.join(file.file_name())).expect("copied");
    }
    let services = place.join("services.proto");
    std::fs::rename(services, folder.path().join("grpcapi.proto")).expect("renamed");
    for (name, text) in FILES {
        let path = folder.path().join(format!("{name}_instance.json"));
        std::fs::write(path, edit(text)).expect("written");
    }
    folder
}

/// The lines that are no comments, as the published page asks of those who use real ghz.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// One published call with either ghz: every one is answered with status OK.
fn call(ghz: &mut Command, folder: &Path, name: &str, address: SocketAddr) {
    let (calls, in_flight) = (CALLS.to_string(), IN_FLIGHT.to_string());
    ghz.arg(format!("--config=./{name}_instance.json"));
    ghz.args(["-n", &calls, "-c", &in_flight, "-O", "json"]).arg(address.to_string());
    let ran = run_within(ghz.current_dir(folder), PATIENCE);
    let report = ran.text.find('{').map(|start| &ran.text[start..]).unwrap_or_default();
    let mut reports = serde_json::Deserializer::from_str(report).into_iter::<Value>();
    let report = reports.next().and_then(Result::ok);
    let report = report.unwrap_or_else(|| panic!("{name}: no report: {}", ran.text));
    assert_eq!(report["statusCodeDistribution"], json!({ "OK": CALLS }), "{name}: {report:.2000}");
}

/// The four published calls one after the other, and what has become of the registry in between.
fn check_published_calls(folder: &Path, ghz: impl Fn() -> Command) {
    let registry = registry();
    let (grpc, http) = registry.registry_addresses();
    let count = || {
        let found = discover(http, SERVICE);
        assert_eq!(found["code"], 200_000, "{found:.500}");
        found["instances"].as_array().map_or(0, Vec::len)
    };
    call(&mut ghz(), folder, "register", grpc);
    assert_eq!(count(), CALLS, "every registration is there");
    call(&mut ghz(), folder, "heartbeat", grpc);
    call(&mut ghz(), folder, "discover", grpc);
    call(&mut ghz(), folder, "deregister", grpc);
    assert_eq!(count(), 0, "every one is gone");
}

#[test]
fn the_published_files_of_ghz_are_answered_without_an_error() {
    let Some(ghz) = program::find("ghz") else { return };
    let folder = folder(without_comments);
    check_published_calls(folder.path(), || Command::new(&ghz));
}

#[test]
fn the_published_files_of_ghz_are_answered_to_our_own_ghz_as_they_stand() {
    let folder = folder(str::to_owned);
    check_published_calls(folder.path(), || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
        command.args(["bench", "ghz"]);
        command
    });
}
