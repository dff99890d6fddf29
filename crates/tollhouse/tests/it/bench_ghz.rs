//! `tollhouse bench ghz` as scripts use it: the flags and files of ghz, output in its formats, and counts
//! that agree with the server's.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollhouse_mock::{Behaviour, Mock};
use tollhouse_testkit::program::{run, run_well};

const PROTO: &str = "syntax = \"proto3\"; package v1;\n\
    service PolarisGRPC { rpc Heartbeat(Instance) returns (Instance) {} }\n\
    message Instance { string id = 1; string service = 2; string namespace = 3;\n\
    bool healthy = 4; bool isolate = 5; string mtime = 6; }\n";

fn ghz(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(["bench", "ghz"]).args(words.split(' ')).current_dir(folder);
    command
}

fn mock() -> Mock {
    Mock::start(Behaviour { workers: 1, ..Behaviour::default() }).expect("a mock starts")
}

/// A folder with the published heartbeat configuration, its `.proto` file beside it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let published =
        include_str!("../../../tollhouse-dialects/testdata/ghz/heartbeat_instance.json");
    std::fs::write(folder.path().join("heartbeat_instance.json"), published).expect("written");
    std::fs::write(folder.path().join("grpcapi.proto"), PROTO).expect("written");
    folder
}

/// What a happy run prints, without the doubts about so short a one: they come on the other stream, and may stand
/// between any two lines.
fn report(command: &mut Command) -> String {
    let text = run_well(command);
    let lines = text.lines().filter(|line| !line.starts_with("tollhouse: "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_published_configuration_is_measured_as_it_stands() {
    let (mock, folder) = (mock(), folder());
    let words = format!(
        "--config=./heartbeat_instance.json -c 10 -x 1s -O json --name beat {}",
        mock.address()
    );
    let text = report(&mut ghz(folder.path(), &words));
    let line = text.lines().next().expect("a report");
    let report: Value = serde_json::from_str(line).expect("a report of ghz");
    assert_eq!(report["endReason"], "timeout", "a time overrules the total of 1");
    assert_eq!(report["options"]["call"], "v1.PolarisGRPC.Heartbeat");
    assert_eq!(report["options"]["concurrency"], 10);
    let count = report["count"].as_u64().expect("a count");
    assert!((count..=count + 10).contains(&mock.requests()), "{count} of {}", mock.requests());
    assert_eq!(report["statusCodeDistribution"]["OK"].as_u64(), Some(count));
    assert_eq!(report["details"].as_array().map(|list| list.len() as u64), Some(count));
    assert_eq!(report["histogram"].as_array().map(Vec::len), Some(11));
}

#[test]
fn a_total_is_exact_and_the_summary_is_that_of_ghz() {
    let (mock, folder) = (mock(), folder());
    let words = format!(
        "--insecure --proto grpcapi.proto --call v1.PolarisGRPC/Heartbeat -d {{\"id\":\"{{{{.RequestNumber}}}}\"}} -n 50 -c 7 --connections 3 {}",
        mock.address()
    );
    let text = report(&mut ghz(folder.path(), &words));
    assert!(text.contains("\nSummary:\n  Count:\t50\n  Total:\t"), "{text}");
    assert!(text.contains("\nStatus code distribution:\n  [OK]   50 responses   \n"), "{text}");
    assert_eq!(mock.requests(), 50);
}

#[test]
fn what_cannot_be_measured_is_one_line_and_exit_code_2() {
    let folder = folder();
    for (words, expected) in [
        (
            "--call v1.PolarisGRPC.Heartbeat --insecure --proto grpcapi.proto 127.0.0.1:1",
            "127.0.0.1:1",
        ),
        ("--config=none.json", "none.json: cannot be opened"),
        (
            "--config=heartbeat_instance.json --call v1.PolarisGRPC.Hertbeat 127.0.0.1:1",
            "Heartbeat",
        ),
        ("--config=heartbeat_instance.json -d {\"id\":\"{{.RequestNumbr}}\"}", "`.RequestNumber`"),
        ("--concurency 5 h:1", "did you mean `--concurrency`?"),
        ("--call a.B.C -o nowhere/x.json h:1", "its folder is not there"),
    ] {
        let ran = run(&mut ghz(folder.path(), words));
        assert_eq!(ran.status.code(), Some(2), "{words}: {}", ran.text);
        assert!(ran.text.contains(expected), "{words}: {}", ran.text);
        assert_eq!(ran.text.lines().count(), 1, "{words}: {}", ran.text);
    }
}

#[test]
fn the_page_is_our_own() {
    let (mock, folder) = (mock(), folder());
    let words =
        format!("--config=heartbeat_instance.json -n 20 -O html -o page.html {}", mock.address());
    let text = run_well(&mut ghz(folder.path(), &words));
    assert!(text.starts_with("tollhouse: Lasted "), "only the doubt about so short a run: {text}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.contains("<!doctype html>") || page.contains("<!DOCTYPE html>"), "{page:.200}");
}
