//! The suite for HTTP/2 of others, against the registry's server.

use std::process::Command;
use std::time::Duration;

use tollhouse_testkit::program;

/// Longest run of h2spec: some of its cases wait until nothing comes.
const SUITE_TIME_MAX: Duration = Duration::from_secs(180);

#[test]
fn h2spec_finds_no_failure() {
    let Some(h2spec) = program::find("h2spec") else { return };
    let server = super::start();
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--timeout", "1", "--host", "127.0.0.1", "--port"]);
    command.arg(server.address.port().to_string());
    let ran = program::run_within(&mut command, SUITE_TIME_MAX);
    assert!(ran.text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{}", ran.text);
}
