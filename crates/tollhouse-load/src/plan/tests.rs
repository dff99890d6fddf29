//! Plans as people write them, and what they are told when one is wrong: the whole message, with its place
//! and its remedy.

use std::time::Duration;

use super::*;
use crate::case::{Body, Protocol};
use crate::pace::Pace;
use crate::resource::Selector;

fn plan(text: &str) -> Plan {
    Plan::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn a_plan_is_read_with_defaults_and_a_matrix() {
    let plan = plan(
        "
name: shenyu by hand
about: Two ways to the same mock.
repeat: 3
baseline: direct
watch: [upstream=port:8000, {role: target, what: {port: 9080}}]
defaults:
  target: http://127.0.0.1:9080/
  load: {duration: 30s, warm_up: 3, timeout: 2s}
  http:
    headers: {accept: '*/*', x-version: 1.10}
  checks: {status: [200], body_bytes: 2048}
cases:
  - name: direct
    target: http://127.0.0.1:8000/
    load: {connections: 600}
  - name: '{connections} connections'
    subject: tollhouse
    watch: [gateway=pid:5]
    matrix:
      load.connections: [600, 800]
    http: {method: POST, body: {text: hello}}
    thresholds: [p99 < 50ms]
",
    );
    assert_eq!((plan.repeat, plan.cases.len()), (3, 3));
    assert_eq!(plan.watch[1], Watched::new("target", Selector::Port(9080)));
    let [direct, first, second] = plan.cases.as_slice() else { panic!("three cases") };
    assert_eq!(direct.subject, DIRECT);
    assert_eq!(direct.case.target, "http://127.0.0.1:8000/");
    assert_eq!(direct.case.load.warm_up, Duration::from_secs(3));
    assert_eq!((first.case.name.as_str(), first.case.load.connections), ("600 connections", 600));
    assert_eq!((second.case.name.as_str(), second.case.load.connections), ("800 connections", 800));
    assert_eq!(second.subject, "tollhouse");
    assert_eq!(second.watch, [Watched::new("gateway", Selector::Pid(5))]);
    assert_eq!(second.case.http.body, Some(Body::Text("hello".into())));
    assert_eq!(second.case.http.headers[1], ("x-version".to_owned(), "1.10".to_owned()));
    assert_eq!(second.case.load.duration, Some(Duration::from_secs(30)));
    assert_eq!(second.case.thresholds[0].to_string(), "p99 < 50ms");
}

#[test]
fn paces_and_messages_are_written_as_yaml() {
    let plan = plan(
        "
cases:
  - target: grpc://h:8091
    load: {pace: {steps: {start: 5, step: 5, end: 20, every: 10s}}, connections: 2, streams: 8}
    grpc:
      call: a.B.C
      data: {json: {name: '{{randomString 8}}', port: 80}}
      metadata: {token: x}
  - {target: ws://h/, message: 5, load: {pace: closed}}
  - target: http://h/
    checks: {body_json: {/code: 200}}
    http: {urls: [{url: /a, weight: 3}, {url: /b}]}
",
    );
    let [grpc, socket, http] = plan.cases.as_slice() else { panic!("three cases") };
    assert!(matches!(grpc.case.load.pace, Pace::Steps(steps) if steps.end == 20.0));
    let call = grpc.case.grpc.as_ref().expect("a call");
    let json = r#"{"name":"{{randomString 8}}","port":80}"#;
    assert_eq!(call.data, Some(GrpcData::Json(json.into())));
    assert_eq!((socket.case.protocol(), socket.case.message.as_str()), (Protocol::WebSocket, "5"));
    assert_eq!(http.case.name, "http://h/", "a case without a name has its target's");
    assert_eq!(http.case.checks.body_json, Some(("/code".to_owned(), serde_json::json!(200))));
    assert_eq!(http.case.http.urls[0].weight, 3);
}

fn check(text: &str, expected: &str) {
    let why = Plan::parse(text).expect_err(text);
    assert_eq!(why, expected, "{text}");
}

#[test]
fn what_is_wrong_is_told_with_line_column_and_key() {
    check("", "the plan is empty; it needs `cases:` with at least one case");
    check("name: a", "line 1, column 1: `cases` is missing; write a list of at least one case");
    check("cases: []", "line 1, column 8: cases: is a list; write a list of at least one case");
    check("cases: [5]", "line 1, column 9: cases[0]: is `5`; write a map with `target:`");
    check("cases: [{name: a}]", "line 1, column 9: cases[0]: `target` is missing");
    check("case: []", "line 1, column 1: case: there is no such key; write `cases`?");
    check(
        "cases:\n- target: http://h/\n  load:\n    conections: 5",
        "line 4, column 5: cases[0].load.conections: there is no such key; write `connections`?",
    );
    check(
        "cases:\n- target: http://h/\n  load: {connections: many}",
        "line 3, column 23: cases[0].load.connections: string \"many\" is not what belongs here; \
         write a whole number of 0 or more",
    );
    check(
        "defaults:\n  load: {connections: 0}\ncases:\n- target: http://h/",
        "line 2, column 23: cases[0].load.connections: is 0; write 1 to 1000000",
    );
    check(
        "cases:\n- target: http://h/\n  http: {body: {text: a, file: b}}",
        "line 3, column 16: cases[0].http.body: is a map of keys; write exactly one of `text`, `file`",
    );
    check(
        "cases:\n- target: http://h/\n  protocol: http3",
        "line 3, column 13: cases[0].protocol: `http3` is not known; write `http1`?",
    );
    check(
        "cases:\n- target: http://h/\n  load: {pace: {steps: {start: 5, step: -1, end: 9, every: 1s}}}",
        "line 3, column 16: cases[0].load.pace: steps.step is -1; it never leads to steps.end",
    );
    check(
        "cases:\n- target: http://h/\n  load: {duration: soon}",
        "line 3, column 20: cases[0].load.duration: unknown unit \"soon\"; use ms, s, m, h or \
         d",
    );
    check(
        "cases:\n- target: ftp://h/",
        "line 2, column 11: cases[0].target: `ftp://h/` scheme `ftp` is not one of http, https, h2c, \
         ws, wss, grpc, grpcs, tcp",
    );
    check("repeat: 0\ncases: [{target: h}]", "line 1, column 9: repeat: is `0`; write 1 to 1000");
    check(
        "baseline: x\ncases: [{target: h}]",
        "line 1, column 11: baseline: is `x`; write the name or the subject of one of the cases",
    );
}

#[test]
fn a_threshold_that_is_none_names_its_place() {
    let why = Plan::parse("cases:\n- target: h\n  thresholds: ['p99 = 5ms']").expect_err("no sign");
    assert!(
        why.starts_with(
            "line 3, column 16: cases[0].thresholds[0]: `p99 = 5ms` is not a threshold"
        ),
        "{why}"
    );
}

#[test]
fn files_of_a_plan_are_looked_for_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("upload.yaml");
    let text =
        "cases:\n- target: http://h/\n  http: {body: {file: body.json}, urls_file: /tmp/urls}";
    std::fs::write(&path, text).expect("the folder can be written");
    let plan = Plan::load(&path).expect("a plan");
    let case = &plan.cases[0].case;
    assert_eq!(case.http.body, Some(Body::File(folder.path().join("body.json"))));
    assert_eq!(case.http.urls_file.as_deref(), Some(Path::new("/tmp/urls")));
    assert_eq!(plan.name, "upload");
    let missing = Plan::load(&folder.path().join("none.yaml")).expect_err("it is not there");
    assert!(missing.to_string().contains("none.yaml: cannot be opened"), "{missing}");
}

#[test]
fn the_examples_of_the_manual_are_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/bench");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the manual has examples") {
        let path = entry.expect("a readable folder").path();
        let plan = Plan::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.cases.len() > 1 || plan.name.contains("gRPC"), "{}", path.display());
        names.extend(plan.cases.into_iter().map(|planned| planned.case.name));
    }
    assert!(names.iter().any(|name| name == "600 connections"), "{names:?}");
}
