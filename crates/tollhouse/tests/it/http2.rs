//! HTTP/2 towards clients, as h2spec sees it: every rule of RFC 9113 and 7541 that a client can probe; and
//! which hosts a connection serves.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollhouse_testkit::{Origin, program};

use crate::http2_clients::{Http2Client, run};
use crate::support::{everything_to, gateway, with};
use crate::tls_support::{Authority, TlsOptions, ssl};

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

#[test]
fn a_connection_of_http2_serves_the_hosts_that_its_certificate_covers_and_no_others() {
    let (authority, clients) = (Authority::new("root"), Authority::new("clients"));
    let names = ["a.test", "b.test", "*.wild.test", "mutual.test", "192.0.2.7", "2001:db8::7"];
    let wide = authority.server(&names);
    let narrow = authority.server(&["c.test"]);
    let origin = Origin::named("hello");
    let asks = json!({ "client": { "ca": clients.pem } });
    let ssls = json!({ "ssls": [
        ssl("1", &["a.test", "*.wild.test"], &wide),
        ssl("2", &["c.test"], &narrow),
        with(ssl("3", &["mutual.test"], &wide), asks),
    ] });
    let gateway = gateway()
        .tls()
        .set("tls.fallback_sni", "a.test")
        .resources(&with(everything_to(origin.address()), ssls))
        .start();
    let shown = clients.client("good");
    let options = || TlsOptions::showing(&authority, &shown).offering(&["h2"]);
    let (named, nameless) = (options().build(), options().nameless().build());
    let table = [
        // The host that it was opened for, and those that the certificate stands for.
        (&named, "a.test", &["a.test", "A.Test", "a.test:8443", "b.test", "x.wild.test"][..], 200),
        (
            &named,
            "a.test",
            &["c.test", "unknown.test", "wild.test", "x.y.wild.test", "127.0.0.1"],
            421,
        ),
        // Addresses that it stands for, however they are written.
        (
            &named,
            "a.test",
            &["192.0.2.7", "192.0.2.7:8443", "[2001:db8::7]", "[2001:db8:0::7]:443"],
            200,
        ),
        (&named, "a.test", &["192.0.2.8", "[2001:db8::8]"], 421),
        (&named, "c.test", &["192.0.2.7"], 421),
        (&named, "x.wild.test", &["x.wild.test", "y.wild.test", "a.test"], 200),
        (&named, "c.test", &["c.test", "c.test."], 200),
        (&named, "c.test", &["a.test", "xc.test", "c.test.a.test"], 421),
        // Whoever asks for certificates is asked by name, whatever the certificate stands for.
        (&named, "a.test", &["mutual.test"], 421),
        (&named, "mutual.test", &["mutual.test", "a.test"], 200),
        // Without a name: what nothing else stands for.
        (&nameless, "a.test", &["a.test", "b.test", "127.0.0.1", "[::1]", "unknown.test"], 200),
        (&nameless, "a.test", &["c.test", "mutual.test"], 421),
    ];
    run(async {
        let mut served = 0;
        for (client, opened, hosts, expected) in table {
            let connection = Http2Client::tls(client, gateway.tls_address(), opened).await;
            let connection = connection.expect("it is served");
            for host in hosts {
                let answer = connection.get(host, "/").await.expect("an answer");
                assert_eq!(answer.status, expected, "{host} over {opened}");
                assert_eq!(answer.text == "hello", expected == 200, "{}", answer.text);
                served += usize::from(expected == 200);
            }
        }
        assert_eq!(origin.requests().len(), served, "nothing else has reached the node");
        let plain = Http2Client::plain(gateway.address()).await.expect("it is served");
        assert_eq!(plain.get("unknown.test", "/").await.expect("an answer").status, 200);
    });
    gateway.wait_failures("misdirected_request", 14);
}
