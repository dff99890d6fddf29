//! `tollhouse bench` from outside: what it counts against what the server counted, its files, its exit
//! codes, and that it ends as it should.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollhouse_load::report::{self, Report};
use tollhouse_load::result::End;
use tollhouse_mock::{Behaviour, Mock};
use tollhouse_testkit::program::{Ran, run, run_well};

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.arg("bench").args(words).env("NO_COLOR", "1");
    command
}

fn mock() -> Mock {
    Mock::start(Behaviour::default()).expect("loopback has ports")
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn report_in(folder: &Path) -> (PathBuf, String) {
    let path = folder.join("result.json");
    let text = path.display().to_string();
    (path, text)
}

fn check_refused(ran: &Ran, part: &str) {
    assert_eq!(ran.status.code(), Some(2), "{}", ran.text);
    let lines: Vec<&str> = ran.text.lines().collect();
    assert_eq!(lines.len(), 1, "one line: {}", ran.text);
    assert!(lines[0].starts_with("error: ") && lines[0].contains(part), "{part}: {}", ran.text);
}

#[test]
fn requests_are_counted_as_the_server_counts_them_and_kept_in_every_format() {
    let mock = mock();
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = run_well(
        bench(&[
            "http",
            &url(mock.address()),
            "-n",
            "300",
            "-c",
            "4",
            "-H",
            "Authorization: secret",
        ])
        .args(["--expect-text", "ok", "--threshold", "failures < 1"])
        .args(["--json", &at("r.json"), "--html", &at("r.html"), "--csv", &at("r.csv")])
        .args(["--hgrm", &at("r.hgrm"), "--prometheus", &at("r.prom")]),
    );
    assert_eq!(mock.requests(), 300, "{text}");
    assert!(
        text.contains("300 completed, 0 failed") && text.contains("met     failures < 1"),
        "{text}"
    );
    let kept = report::load(&folder.path().join("r.json")).expect("a report");
    let [result] = kept.results.as_slice() else { panic!("one result") };
    assert_eq!((result.counts.succeeded, result.response_time.count), (300, 300));
    assert_eq!(result.counts.body_bytes, 600);
    assert!(!kept.environment.kernel.is_empty() && kept.command[1] == "bench");
    for (name, part) in [
        ("r.json", "littles-law"),
        ("r.html", "</html>"),
        ("r.csv", ",300,300,0,"),
        ("r.hgrm", "#[Mean"),
        ("r.prom", "response_time_seconds_count"),
    ] {
        let file = fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(part == "littles-law" || file.contains(part), "{name} without {part}");
        assert!(!file.contains("secret"), "{name} shows a credential");
    }
    let again = run_well(&mut bench(&["report", &at("r.json")]));
    assert!(again.contains("300 completed, 0 failed"), "{again}");
    run_well(&mut bench(&["report", &at("r.json"), "-o", &at("again.csv")]));
    let csv = fs::read_to_string(folder.path().join("again.csv")).expect("it was written");
    assert!(csv.starts_with("subject,case,"), "{csv}");
}

#[test]
fn a_missed_threshold_is_exit_code_1() {
    let mock = mock();
    let words = ["http", &url(mock.address()), "-n", "50", "-c", "2", "--threshold", "p50 < 1ns"];
    let ran = run(&mut bench(&words));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
    assert!(ran.text.contains("missed  p50 < 1ns"), "{}", ran.text);
    // Who wants no report is told why the run failed all the same, in one line.
    let ran = run(bench(&words).arg("--quiet"));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
    assert_eq!(ran.text.lines().count(), 1, "{}", ran.text);
    assert!(ran.text.starts_with("error: "), "{}", ran.text);
    assert!(ran.text.contains("threshold missed: p50 < 1ns"), "{}", ran.text);
}

#[test]
fn what_cannot_be_measured_is_one_line_and_exit_code_2() {
    let mock = mock();
    let target = url(mock.address());
    let tls = target.replace("http:", "https:");
    for (words, part) in [
        (&["http", "http://127.0.0.1:1/"][..], "Connection refused"),
        (&["http", "ftp://h/"], "scheme `ftp`"),
        (&["http", "ws://h/"], "bench websocket"),
        (&["http", &target, "-c", "0"], "load.connections: is 0"),
        (&["http", &target, "--rate", "0"], "load.pace: rate is 0"),
        (&["http", &tls], "tls"),
        (&["http", &target, "-b", "@/nowhere/body"], "/nowhere/body"),
        (&["http", &target, "--json", "/nowhere/result.json"], "folder is not there"),
        (&["http", &target, "--watch", "command:no-such-program"], "no-such-program"),
        (&["http", &target, "-n", "10", "--expect-text", "something else"], "something else"),
        (&["grpc", "127.0.0.1:1", "--call", "Method"], "grpc.call: `Method`"),
        (&["run", "/nowhere/plan.yaml"], "/nowhere/plan.yaml"),
        (&["report", "/nowhere/result.json"], "/nowhere/result.json"),
    ] {
        // `report` and `run` of nothing have no progress to be quiet about.
        let mut command = bench(words);
        if !matches!(words[0], "report") {
            command.arg("--quiet");
        }
        check_refused(&run(&mut command), part);
    }
}

#[test]
fn a_status_that_is_no_success_is_said_once_and_with_the_option_that_takes_it() {
    let statuses = "429".parse().expect("a status");
    let mock = Mock::start(Behaviour { statuses, ..Behaviour::default() }).expect("a port");
    let ran = run(&mut bench(&["http", &url(mock.address()), "-n", "20", "-c", "2", "--quiet"]));
    check_refused(&ran, "cannot be measured: status 429; ");
    assert_eq!(ran.text.matches("status 429").count(), 1, "{}", ran.text);
    assert!(ran.text.contains("--expect-status"), "{}", ran.text);
}

#[test]
fn of_two_bounds_the_one_that_ended_the_run_is_printed() {
    let mock = mock();
    let words =
        ["http", &url(mock.address()), "-n", "10", "-d", "10m", "--warm-up", "0s", "-c", "1"];
    let text = run_well(&mut bench(&words));
    assert!(text.contains(", then the bound of 10 requests was reached"), "{text}");
    assert_eq!(mock.requests(), 10, "{text}");
}

#[test]
fn a_plan_is_measured_and_judged() {
    let mock = mock();
    let folder = folder();
    let plan = folder.path().join("plan.yaml");
    let text = format!(
        "name: a plan\nbaseline: direct\ndefaults:\n  target: {}\n  load: {{requests: 40}}\ncases:\n\
         - name: direct\n- name: 'c{{connections}}'\n  subject: again\n  \
         matrix: {{load.connections: [1, 2]}}\n",
        url(mock.address())
    );
    fs::write(&plan, &text).expect("the folder can be written");
    let plan = plan.display().to_string();
    let listed = run_well(&mut bench(&["run", &plan, "--check"]));
    assert!(listed.contains("c2") && listed.contains("3 cases"), "{listed}");
    let (path, json) = report_in(folder.path());
    let shown = run_well(&mut bench(&["run", &plan, "--json", &json]));
    assert!(shown.contains("again, c2") && shown.contains("goodput"), "{shown}");
    let kept: Report = report::load(&path).expect("a report");
    let names: Vec<(&str, &str)> =
        kept.results.iter().map(|it| (it.subject.as_str(), it.name.as_str())).collect();
    let expected = [("direct", "direct"), ("again", "c1"), ("again", "c2"), ("direct", "direct")];
    assert_eq!(names, expected);
    assert_eq!(kept.configurations["plan.yaml"], text);
    assert_eq!(mock.requests(), 160);
    let compared = run_well(&mut bench(&["compare", &json, &json, "--threshold", "5%"]));
    assert!(compared.contains("again"), "{compared}");
    fs::write(&plan, text.replace("requests", "request")).expect("the folder can be written");
    let ran = run(&mut bench(&["run", &plan]));
    check_refused(
        &ran,
        "plan.yaml: line 5, column 10: cases[0].load.request: there is no such key",
    );
}

#[test]
fn an_interrupt_ends_the_case_and_is_reported() {
    let mock = mock();
    let folder = folder();
    let (path, json) = report_in(folder.path());
    let words =
        ["http", &url(mock.address()), "-c", "2", "-d", "10m", "--repeat", "2", "--json", &json];
    let mut child = bench(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test runs");
    let progress = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let is_measuring = std::io::BufRead::lines(progress)
        .map_while(Result::ok)
        .any(|line| line.contains("in flight"));
    assert!(is_measuring, "it never began to measure");
    let pid =
        i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("then interrupted"), "{text}");
    let kept = report::load(&path).expect("a report");
    let [result] = kept.results.as_slice() else { panic!("one result") };
    assert_eq!(result.end, End::Interrupted);
}

#[test]
fn honesty_warnings_judge_published_tables_like_any_other() {
    let text = run_well(&mut bench(&["report", "--published", "shenyu"]));
    assert!(text.contains("INVALID") && text.contains("[littles-law]"), "{text}");
    let alone = run_well(&mut bench(&[]));
    assert!(alone.contains("tollhouse bench http"), "{alone}");
}
