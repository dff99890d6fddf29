//! `tollhouse bench connections` as a user runs it: processes that hold, processes that serve, a report,
//! and nothing left behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;
use tollhouse_testkit::Origin;
use tollhouse_testkit::program::run;

use crate::support::gateway_to;

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(["bench", "connections"]).args(words).env("NO_COLOR", "1");
    command
}

#[test]
fn both_ends_are_processes_of_their_own_and_what_each_costs_is_reported() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("result.json");
    let words = ["--serve", "-n", "300", "--rate", "3000", "--hold", "0s", "--processes", "2"];
    let ran = run(bench(&words).arg("--json").arg(&file));
    assert_eq!(ran.status.code(), Some(0), "{}", ran.text);
    assert!(ran.text.contains("300 of 300"), "{}", ran.text);
    let report: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("written")).expect("JSON");
    let result = &report["results"][0];
    assert_eq!(result["held"]["at_end"], 300);
    let pids = |index: usize| {
        let series = &result["processes"][index];
        let pids = series["pids"].as_array().expect("a list").clone();
        (series["role"].as_str().expect("a word").to_owned(), pids)
    };
    let ((holder, holders), (server, servers)) = (pids(0), pids(1));
    assert_eq!((holder.as_str(), server.as_str()), ("holder", "server"));
    assert!(holders.len() == 2 && !servers.is_empty() && !holders.contains(&servers[0]));
    for pid in holders.iter().chain(&servers) {
        let place = format!("/proc/{pid}/cmdline");
        let still = std::fs::read_to_string(&place).unwrap_or_default();
        assert!(!still.contains("--part"), "{pid} is left behind: {still}");
    }
    let shown = run(Command::new(env!("CARGO_BIN_EXE_tollhouse"))
        .args(["bench", "report"])
        .arg(&file)
        .env("NO_COLOR", "1"));
    assert!(shown.text.contains("300 of 300"), "{}", shown.text);
}

#[test]
fn a_gateway_holds_connections_that_say_nothing_and_answers_signs_of_life() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let url = format!("http://{}/", gateway.address());
    for more in [&["--hold", "0s"][..], &["--hold", "1s", "--ping", "200ms"][..]] {
        let ran = run(bench(&[&url, "-n", "50"]).args(more));
        assert_eq!(ran.status.code(), Some(0), "{}", ran.text);
        assert!(ran.text.contains("target"), "the gateway is measured: {}", ran.text);
    }
}

#[test]
fn ctrl_c_ends_holding_and_still_reports() {
    let mut child = bench(&["--serve", "-n", "20", "--hold", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut progress = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    progress.read_line(&mut line).expect("it tells how it goes");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{line}{text}");
    assert!(text.contains("by Ctrl-C") && text.contains("of 20 when holding ended"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_one_line_and_exit_code_2() {
    for (words, part) in [
        (&["--serve", "-n", "9000000", "--processes", "1"][..], "prlimit"),
        (&["127.0.0.1:1"][..], "refused"),
        (&["--serve", "-n", "0"][..], "--connections"),
        (&[][..], "--serve"),
        (&["ftp://127.0.0.1/"][..], "ftp"),
    ] {
        let ran = run(&mut bench(words));
        assert_eq!(ran.status.code(), Some(2), "{words:?}: {}", ran.text);
        let line = ran.text.trim();
        assert!(line.starts_with("error: ") && line.contains(part), "{words:?}: {line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn the_table_of_limits_names_the_commands_that_help() {
    let ran = run(&mut bench(&["--serve", "-n", "90000000", "--preflight"]));
    assert_eq!(ran.status.code(), Some(2), "{}", ran.text);
    assert!(ran.text.contains("TOO SMALL") && ran.text.contains("sudo "), "{}", ran.text);
}
