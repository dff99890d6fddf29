//! The commands of `docs/operate/troubleshooting.md`, run as written on a gateway with the fault that they are for: each
//! exits as the document says, and one of them names the culprit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{run_well, run_within};
use tollhouse_testkit::{ClosedPort, Gateway, Origin};

use crate::documents::Document;
use crate::on_call::{EXPIRED, ask, ask_often, command, gateway_for_jack, get, put};
use crate::support::{gateway, routes, upstream, with};
use crate::tls_support::{Authority, ssl};

const PAGE: &str = "docs/operate/troubleshooting.md";

/// Headings of the symptoms, each with a test below.
const SYMPTOMS: [&str; 10] = [
    "502: a node cannot be used",
    "503: no node, no plugin, or a limit",
    "504: a node is too slow",
    "401, 403, 429: plugins refuse",
    "404: no route",
    "Slow, but no failures",
    "Memory or disk",
    "A certificate, or TLS that fails",
    "An instance of the registry is missing",
    "A change is not visible",
];

/// Time for one command.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A symptom of the document: its heading, and its commands with their exit codes.
struct Symptom {
    heading: String,
    commands: Vec<(String, i32)>,
}

/// The symptoms of the document, in order.
fn symptoms() -> Vec<Symptom> {
    let page = Document::read(PAGE);
    let start = page.find("## By symptom").expect("the page has symptoms");
    let end = page.find("## The clock").expect("other sections follow");
    let sections = page[start..end].split("\n### ").skip(1);
    let symptom = |section: &str| {
        let (heading, text) = section.split_once('\n').expect("a heading is a line");
        let document = Document::parse(heading, text);
        let lines = document.blocks("sh").flat_map(str::lines);
        let commands = lines.map(|line| {
            let (command, code) = line.split_once("# exits ").expect("each has an exit code");
            (command.trim().to_owned(), code.trim().parse().expect("a number"))
        });
        Symptom { heading: heading.to_owned(), commands: commands.collect() }
    };
    sections.map(symptom).collect()
}

/// Runs the commands of a symptom on a gateway; gives their outputs.
fn work_through(gateway: &Gateway, heading: &str, service: &str) -> Vec<String> {
    let symptoms = symptoms();
    let symptom = symptoms.iter().find(|it| it.heading == heading).expect("the document has it");
    let folder = gateway.folder();
    fs::copy(folder.join("bootstrap.yaml"), folder.join("tollhouse.yaml")).expect("a copy");
    let program = Path::new(env!("CARGO_BIN_EXE_tollhouse")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let (mut outputs, mut id) = (Vec::<String>::new(), None::<String>);
    for (line, code) in &symptom.commands {
        let mut line = line.replace("NAMESPACE/SERVICE", service);
        line = line.replace("127.0.0.1:9091", &gateway.metrics_address().to_string());
        line = line.replace("127.0.0.1:9090", &gateway.control_address().to_string());
        if let Some(id) = &id {
            line = line.replace(" ID", &format!(" {id}"));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(folder).env("PATH", &path);
        shell.env("TOLLHOUSE_DATA_DIR", folder).env_remove("TOLLHOUSE_ADMIN_KEY");
        for (name, address) in
            [("ADMIN", gateway.admin_address()), ("CONTROL", gateway.control_address())]
        {
            shell.env(format!("TOLLHOUSE_LISTEN_{name}"), address.to_string());
        }
        let ran = run_within(&mut shell, TIME_MAX);
        assert_eq!(ran.status.code(), Some(*code), "{line}\n{}", ran.text);
        let last = ran.text.lines().rev().find_map(|it| it.split_once(" id=")?.1.split(' ').next());
        id = last.map(str::to_owned).or(id);
        outputs.push(ran.text);
    }
    outputs
}

/// Checks that a symptom's commands exit as documented and that one of them names the culprit.
fn check(gateway: &Gateway, symptom: usize, culprit: &str) {
    let outputs = work_through(gateway, SYMPTOMS[symptom], "prod/orders");
    assert!(outputs.iter().any(|text| text.contains(culprit)), "{culprit}: {outputs:#?}");
}

#[test]
fn each_symptom_has_three_commands_and_a_test() {
    let symptoms = symptoms();
    let headings: Vec<&str> = symptoms.iter().map(|it| it.heading.as_str()).collect();
    assert_eq!(headings, SYMPTOMS);
    assert!(symptoms.iter().all(|it| it.commands.len() == 3));
}

#[test]
fn a_502_leads_to_its_node() {
    let closed = ClosedPort::new();
    let gateway = gateway().without_resources().start();
    put(
        &gateway,
        "/routes/billing",
        &json!({"uri": "/*", "upstream": upstream([closed.address()])}),
    );
    ask_often(&gateway, &get("/", ""), 502);
    check(&gateway, 0, &closed.address().to_string());
}

#[test]
fn a_503_leads_to_the_object_that_cannot_be_used() {
    let origin = Origin::named("a");
    let route = json!({
        "id": "safe", "uri": "/*", "plugins": {"key-auht": {}},
        "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().resources(&routes([route])).set("listen.admin", "127.0.0.1:0").start();
    ask_often(&gateway, &get("/", ""), 503);
    check(&gateway, 1, "key-auht");
}

#[test]
fn a_504_leads_to_its_node() {
    let silent = Origin::script(|connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let timeout = json!({"timeout": {"connect": 5, "send": 5, "read": 0.05}});
    let slow = with(upstream([silent.address()]), timeout);
    let gateway = gateway().without_resources().start();
    put(&gateway, "/routes/slow", &json!({"uri": "/*", "upstream": slow}));
    ask_often(&gateway, &get("/", ""), 504);
    check(&gateway, 2, &silent.address().to_string());
}

#[test]
fn a_401_leads_to_its_plugin_and_route() {
    let origin = Origin::named("a");
    let gateway = gateway_for_jack(&origin);
    ask_often(&gateway, &get("/", &format!("Authorization: {EXPIRED}\r\n")), 401);
    check(&gateway, 3, "route=orders");
}

#[test]
fn a_404_leads_to_its_path() {
    let origin = Origin::named("a");
    let gateway = gateway().without_resources().start();
    put(
        &gateway,
        "/routes/1",
        &json!({"uri": "/orders", "upstream": upstream([origin.address()])}),
    );
    ask_often(&gateway, &get("/ordres", ""), 404);
    check(&gateway, 4, "/ordres");
}

#[test]
fn slowness_leads_to_the_node_that_takes_the_time() {
    let plugins = json!({
        "fault-injection": {"delay": {"duration": 0.4}}, "mocking": {"response_example": "a"},
    });
    let node = gateway().resources(&routes([json!({"id": "1", "uri": "/*", "plugins": plugins})]));
    let node = node.start();
    let gateway = gateway().without_resources().start();
    put(&gateway, "/routes/1", &json!({"uri": "/*", "upstream": upstream([node.address()])}));
    (0..2).for_each(|_| assert_eq!(ask(&gateway, "/report"), 200));
    check(&gateway, 5, &format!("{}(200 in", node.address()));
}

#[test]
fn a_full_disk_leads_to_the_lost_log_entries() {
    let origin = Origin::named("a");
    // Each write to this file fails as on a disk that is full.
    let gateway = gateway().without_resources().set("access_log.format", "json");
    let gateway = gateway.set("access_log.file", "/dev/full").start();
    put(&gateway, "/routes/1", &json!({"uri": "/*", "upstream": upstream([origin.address()])}));
    wait_for("a lost line", || {
        ask(&gateway, "/");
        let findings = gateway.control("/v1/findings").to_string();
        findings.contains("log_entries_lost").then_some(())
    });
    check(&gateway, 6, "lost since the start");
}

#[test]
fn a_certificate_that_has_ended_is_named() {
    let authority = Authority::new("servers");
    let gateway = gateway().tls().without_resources().start();
    put(
        &gateway,
        "/ssls/shop",
        &ssl("shop", &["shop.test"], &authority.expired_server(&["shop.test"])),
    );
    check(&gateway, 7, "the certificate shop has ended");
}

#[test]
fn a_missing_instance_is_named() {
    let gateway = gateway().without_resources().registry().start();
    let words = ["registry", "register", "prod/orders", "10.0.0.7:80", "--ttl", "1"];
    run_well(&mut command(&gateway, &words));
    wait_for("the end of its time", || {
        gateway.control("/v1/findings").to_string().contains("service_empty").then_some(())
    });
    check(&gateway, 8, "registry service prod/orders has no healthy instance");
}

#[test]
fn a_document_that_cannot_be_read_is_named() {
    let origin = Origin::named("a");
    let route = json!({"id": "old", "uri": "/old", "upstream": upstream([origin.address()])});
    let gateway = gateway().resources(&routes([route])).set("listen.admin", "127.0.0.1:0").start();
    gateway.write_resources("{\"routes\": [");
    wait_for("the refusal", || {
        gateway.control("/v1/findings").to_string().contains("was refused").then_some(())
    });
    check(&gateway, 9, "the last document was refused");
}
