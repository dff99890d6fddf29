//! Other people's suites and clients against the codec behind a socket.

use std::process::Command;
use std::time::Duration;

use crate::socket;
use tollhouse_h2::{FaultScope, Limits};
use tollhouse_testkit::program;

/// Longest run of h2spec: some of its cases wait until nothing comes.
const SUITE_TIME_MAX: Duration = Duration::from_secs(180);

/// Runs all cases, the strict one too.
fn h2spec(limits: Limits) {
    let Some(h2spec) = program::find("h2spec") else { return };
    let address = socket::serve(limits);
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--timeout", "1", "--host", "127.0.0.1", "--port"]);
    let ran = program::run_within(command.arg(address.port().to_string()), SUITE_TIME_MAX);
    assert!(ran.text.contains(" 0 failed"), "{}", ran.text);
    assert!(ran.text.contains("146 tests, 146 passed"), "{}", ran.text);
}

#[test]
fn h2spec_finds_no_failure() {
    h2spec(Limits::default());
}

#[test]
fn h2spec_finds_no_failure_where_faults_reset_streams() {
    h2spec(Limits { faults: FaultScope::Stream, ..Limits::default() });
}

#[test]
fn h2load_gets_all_of_its_answers() {
    let Some(h2load) = program::find("h2load") else { return };
    let address = socket::serve(Limits::default());
    let mut command = Command::new(h2load);
    command.args(["-n", "2000", "-c", "4", "-m", "20", &format!("http://{address}/")]);
    let text = program::run_well(&mut command);
    assert!(text.contains("2000 succeeded, 0 failed, 0 errored"), "{text}");
}
