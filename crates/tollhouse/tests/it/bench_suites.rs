//! `tollhouse bench suite` from outside: everything that a suite needs is started, measured and stopped.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollhouse_load::report::{self, Report};
use tollhouse_testkit::program::{self, run_within};

/// A suite starts and stops several programs, each with a store of its own, on a disk that may be busy.
const PATIENCE: Duration = Duration::from_secs(240);

/// Runs a suite for a moment, and returns its report.
fn glance(words: &[&str], folder: &Path) -> Report {
    glance_by(Command::new(env!("CARGO_BIN_EXE_tollhouse")), words, folder)
}

fn glance_by(mut command: Command, words: &[&str], folder: &Path) -> Report {
    command.args(["bench", "suite"]).args(words).arg("--glance").env("NO_COLOR", "1");
    let ran = run_within(command.current_dir(folder), PATIENCE);
    assert!(ran.status.success(), "{}", ran.text);
    let text = ran.text;
    let stem = words[0];
    assert!(text.contains(&format!("written: {stem}.json, {stem}.html")), "{text}");
    let page = fs::read_to_string(folder.join(format!("{stem}.html"))).expect("a page");
    assert!(page.contains("</html>"));
    report::load(&folder.join(format!("{stem}.json"))).expect("a report")
}

fn subjects(report: &Report) -> BTreeSet<&str> {
    report.results.iter().map(|result| result.subject.as_str()).collect()
}

/// The processes that were watched have ended.
fn check_nothing_is_left(report: &Report) {
    let watched = report.results.iter().flat_map(|result| &result.processes);
    let pids: BTreeSet<u32> = watched
        .filter(|process| process.role != "generator")
        .flat_map(|process| process.pids.iter().copied())
        .collect();
    assert!(!pids.is_empty(), "the upstream and the gateway were watched");
    let commands = pids.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")));
    for command in commands.flatten() {
        assert!(!command.contains("tollhouse"), "still running: {command}");
    }
}

#[test]
fn shenyus_suite_measures_the_upstream_and_the_gateway_and_stops_both() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["shenyu"], folder.path());
    assert_eq!(report.suite.as_deref(), Some("shenyu"));
    assert_eq!(subjects(&report), BTreeSet::from(["direct", "tollhouse"]));
    // Directly before and after, and through the gateway with four numbers of connections.
    assert_eq!(report.results.len(), 6);
    assert!(report.results.iter().all(|result| result.counts.failed == 0));
    assert!(report.configurations.contains_key("tollhouse/resources.json"));
    assert!(report.published.iter().any(|row| row.subject.contains("published")));
    assert!(
        report.warnings.iter().any(|warning| warning.rule == "duration"),
        "a moment is too short"
    );
    check_nothing_is_left(&report);
}

#[test]
fn shenyus_suite_starts_shenyus_own_gateway_and_leads_it_to_the_upstream() {
    let Some(gateway) = program::find("shenyu-gateway-2.4.3") else { return };
    let own = gateway.parent().expect("it lies in a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own).chain(std::env::split_paths(&path));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.env("PATH", std::env::join_paths(folders).expect("folders without a colon"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance_by(command, &["shenyu", "--peers", "shenyu"], folder.path());
    let peers = ["shenyu 2.4.3, as shipped", "shenyu 2.4.3, keep-alive"];
    assert_eq!(subjects(&report), BTreeSet::from(["direct", "tollhouse", peers[0], peers[1]]));
    // It says 200 to everything: that the upstream's body came is what counts.
    assert!(
        report
            .results
            .iter()
            .all(|result| result.counts.failed == 0 && result.counts.succeeded > 0)
    );
    assert!(report.configurations["shenyu 2.4.3, keep-alive/arguments"].contains("keepAlive=true"));
    check_nothing_is_left(&report);
}

#[test]
fn ngxway_preset_columns_and_report_as_ab_asks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["ngxway"], folder.path());
    assert_eq!(subjects(&report), BTreeSet::from(["direct", "tollhouse", "tollhouse, cached"]));
    assert!(report.results.iter().all(|result| result.counts.succeeded == 200));
    assert!(report.results.iter().all(|result| result.name == "-n 10000 -c 32"));
    check_nothing_is_left(&report);
}

#[test]
fn api7s_suite_saturates_and_then_asks_at_a_rate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["api7"], folder.path());
    let paced: Vec<_> = report.results.iter().filter(|result| result.open_loop).collect();
    assert_eq!(paced.len(), 2);
    assert!(paced.iter().all(|result| result.subject == "tollhouse, 60 % of its rate"));
    assert!(report.results.iter().all(|result| result.counts.failed == 0));
    check_nothing_is_left(&report);
}

#[test]
fn polaris_suite_measures_a_registry_that_answers_every_call_as_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["polaris"], folder.path());
    assert_eq!(subjects(&report), BTreeSet::from(["tollhouse"]));
    let names: Vec<&str> = report.results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, ["register", "heartbeat", "discover", "deregister"]);
    for result in &report.results {
        assert_eq!(result.counts.failed, 0, "{}: {:?}", result.name, result.counts.messages);
        assert!(result.counts.succeeded > 0, "{}", result.name);
    }
    assert!(report.configurations.contains_key("tollhouse/tollhouse.yaml"));
    check_nothing_is_left(&report);
}

#[test]
fn the_suite_of_connections_holds_them_to_a_server_and_to_the_gateway() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["connections"], folder.path());
    assert_eq!(subjects(&report), BTreeSet::from(["server", "tollhouse"]));
}

#[test]
fn the_suite_of_proxies_measures_every_size_directly_and_through_the_gateway() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = glance(&["proxy"], folder.path());
    assert_eq!(subjects(&report), BTreeSet::from(["direct", "tollhouse"]));
    let names: BTreeSet<&str> = report.results.iter().map(|it| it.name.as_str()).collect();
    let expected = ["1 KiB, 64 connections", "2 KiB, 1 connection", "2 KiB, 64 connections"];
    assert_eq!(names, BTreeSet::from(expected));
    assert!(report.results.iter().all(|result| result.counts.failed == 0));
    check_nothing_is_left(&report);
}

#[test]
fn what_a_suite_lacks_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, part) in [
        (&["polaris", "--target", "127.0.0.1:1"][..], "cannot be measured"),
        (&["shenyu", "--baseline", "false"][..], "ended at once"),
        (&["shenyu", "--peers", "shenyu=http://127.0.0.1:1/"][..], "--upstream-port"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
        command.args(["bench", "suite"]).args(words).arg("--glance").current_dir(folder.path());
        let ran = run_within(&mut command, PATIENCE);
        assert_eq!(ran.status.code(), Some(2), "{}", ran.text);
        let said: Vec<&str> = ran.text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(said.len() == 1 && said[0].contains(part), "{part}: {}", ran.text);
    }
}
