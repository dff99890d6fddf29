//! HTTP/2 towards clients, as h2spec sees it: every rule of RFC 9113 and 7541 that a client can probe.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollhouse_testkit::{Origin, program};

use crate::support::{everything_to, gateway, with};
use crate::tls_support::{Authority, ssl};

/// Longest run of h2spec: some of its cases wait until nothing comes.
const SUITE_TIME_MAX: Duration = Duration::from_secs(180);

/// Runs all cases against a port, the strict one too; gives the cases that fail.
fn h2spec(port: u16, arguments: &[&str]) -> Vec<String> {
    let Some(h2spec) = program::find("h2spec") else { return Vec::new() };
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--timeout", "1", "--host", "127.0.0.1"]);
    command.args(["--port", &port.to_string()]).args(arguments);
    let ran = program::run_within(&mut command, SUITE_TIME_MAX);
    assert!(ran.text.contains("146 tests, "), "{}", ran.text);
    let failed = ran.text.split("Failures:").nth(1).unwrap_or_default();
    let failed = failed.lines().filter_map(|line| line.trim().strip_prefix("× "));
    failed.map(|line| line.split(": ").nth(1).unwrap_or_default().to_owned()).collect()
}

#[test]
fn h2spec_finds_no_failure_of_http2_in_clear_text() {
    let origin = Origin::named("hello");
    let gateway = gateway().resources(&everything_to(origin.address())).start();
    // A port that speaks HTTP/1.1 as well answers what is no preface as a bad request of that.
    let failed = h2spec(gateway.address().port(), &[]);
    let expected = "Sends invalid connection preface";
    assert!(failed.is_empty() || failed == [expected], "{failed:?}");
}

#[test]
fn h2spec_finds_no_failure_over_tls() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("hello");
    let ssls = json!({ "ssls": [ssl("1", &["a.test"], &pair)] });
    let gateway = gateway()
        .tls()
        .set("tls.fallback_sni", "a.test")
        .resources(&with(everything_to(origin.address()), ssls))
        .start();
    let failed = h2spec(gateway.tls_address().port(), &["--tls", "--insecure"]);
    assert!(failed.is_empty(), "{failed:?}");
}
