//! `tollhouse bench wrk`, `wrk2` and `ab` as scripts use them: the same flags, output that the usual
//! lines of awk read, and figures that agree with what the server counted.

use std::net::SocketAddr;
use std::process::Command;

use tollhouse_mock::{Behaviour, Mock, Share};
use tollhouse_testkit::Origin;
use tollhouse_testkit::program::{Ran, run, run_well};

fn bench(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.arg("bench").args(words.split(' ')).env("NO_COLOR", "1");
    command
}

fn mock(behaviour: Behaviour) -> Mock {
    Mock::start(Behaviour { workers: 1, ..behaviour }).expect("a mock starts")
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// The number that follows `name` on the line that begins with it, blanks aside.
fn after(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in:\n{text}"))
}

/// The first word of the line that holds `part`.
fn first_word(text: &str, part: &str) -> u64 {
    let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn wrk_counts_what_the_server_counts() {
    let mock = mock(Behaviour::default());
    let text = run_well(&mut bench(&format!("wrk -t2 -c4 -d1s --latency {}", url(mock.address()))));
    assert!(text.starts_with("Running 1s test @ http://"), "{text}");
    assert!(text.contains("\n  2 threads and 4 connections\n"), "{text}");
    let requests = first_word(&text, " requests in ");
    // What was under way at the end is abandoned: at most one request a connection.
    assert!((requests..=requests + 4).contains(&mock.requests()), "{text}");
    let per_second = after(&text, "Requests/sec:");
    assert!(per_second > 0.5 * requests as f64, "{text}");
    assert!(text.lines().any(|line| line.starts_with("     99%")), "{text}");
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
}

#[test]
fn wrk_sends_what_its_script_says() {
    let origin = Origin::named("a");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("post.lua");
    let text = "wrk.method = \"POST\"\nwrk.body = '{\"a\":1}'\nwrk.path = \"/orders\"\n\
                wrk.headers[\"Content-Type\"] = \"application/json\"\n";
    std::fs::write(&script, text).expect("written");
    let words = format!("wrk -t1 -c1 -d1 -s {} {}", script.display(), url(origin.address()));
    run_well(&mut bench(&words));
    let request = origin.last_request();
    assert_eq!((request.method(), request.target()), ("POST", "/orders"));
    assert_eq!(request.field("content-type"), Some("application/json"));
    assert_eq!(request.field("content-length"), Some("7"));
    assert_eq!(request.field("user-agent"), None, "wrk does not say who asks");
    assert_eq!(request.text(), "{\"a\":1}");
}

#[test]
fn wrk2_keeps_its_rate_and_prints_the_spectrum() {
    let mock = mock(Behaviour::default());
    let words = format!("wrk2 -t1 -c4 -d1 -R200 --u_latency {}", url(mock.address()));
    let text = run_well(&mut bench(&words));
    let requests = first_word(&text, " requests in ");
    assert_eq!(requests, mock.requests(), "{text}");
    assert!(requests <= 200, "{text}");
    assert_eq!(text.matches("  Detailed Percentile spectrum:\n").count(), 2, "{text}");
    assert!(text.contains("(HdrHistogram - Recorded Latency)"), "{text}");
    let trailer = format!("Total count    = {requests:12}]\n");
    assert_eq!(text.matches(&trailer).count(), 2, "{text}");
}

#[test]
fn ab_counts_what_the_server_counts_and_writes_its_percentiles() {
    let mock = mock(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let csv = folder.path().join("a.csv");
    let words = format!("ab -n 500 -c 5 -k -e {} {}", csv.display(), url(mock.address()));
    let text = run_well(&mut bench(&words));
    assert_eq!(mock.requests(), 500);
    for (name, expected) in [
        ("Complete requests:", 500.0),
        ("Failed requests:", 0.0),
        ("Keep-Alive requests:", 500.0),
        ("Concurrency Level:", 5.0),
    ] {
        assert_eq!(after(&text, name), expected, "{text}");
    }
    assert!(after(&text, "Requests per second:") > 0.0);
    assert!(after(&text, "99%") >= after(&text, "50%"), "{text}");
    // The two streams are read side by side: which line comes first is left to chance.
    for line in ["Completed 500 requests\n", "Finished 500 requests\n"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(std::fs::read_to_string(csv).expect("written").lines().count(), 102);
}

#[test]
fn ab_speaks_http_1_0() {
    let origin = Origin::closing_after("HTTP/1.0 200 OK\r\nServer: s/1 (x)\r\n\r\nhello");
    let text = run_well(&mut bench(&format!("ab -n 3 -H X-Y:z {}x", url(origin.address()))));
    assert!(text.contains("\nServer Software:        s/1\n"), "{text}");
    assert!(text.contains("\nDocument Length:        5 bytes\n"), "{text}");
    let request = origin.last_request();
    assert!(request.start_line.ends_with(" HTTP/1.0"), "{}", request.start_line);
    assert_eq!(request.field("x-y"), Some("z"));
    assert_eq!(request.field("connection"), None);
}

#[test]
fn ab_ends_at_a_reset_unless_told_otherwise() {
    let mock =
        mock(Behaviour { reset_rate: Share::new(0.2), seed: Some(3), ..Behaviour::default() });
    let target = url(mock.address());
    let Ran { status, text } = run(&mut bench(&format!("ab -q -n 200 -c 2 {target}")));
    assert_eq!(status.code(), Some(2), "{text}");
    assert!(text.contains("error: ab: an answer could not be received (reset)"), "{text}");
    let text = run_well(&mut bench(&format!("ab -q -r -n 200 -c 2 {target}")));
    let failed = after(&text, "Failed requests:");
    assert!((10.0..100.0).contains(&failed), "{text}");
    assert!(text.contains(&format!("   (Connect: 0, Receive: {failed}, Length: 0, ")), "{text}");
}

#[test]
fn what_cannot_be_done_is_one_line_and_exit_code_2() {
    for (words, part) in [
        ("wrk -t2 -c1 http://127.0.0.1:1/", "wrk: number of connections must be >= threads"),
        ("wrk -c1 -t1 -d1 http://127.0.0.1:1/", "Connection refused"),
        ("wrk -s /nonexistent.lua http://127.0.0.1:1/", "/nonexistent.lua: "),
        ("wrk2 http://127.0.0.1:1/", "Throughput MUST be specified"),
        ("ab http://127.0.0.1:1", "ab: invalid URL"),
        ("ab -B 127.0.0.2 http://127.0.0.1:1/", "ab: -B: "),
        ("ab -e /nonexistent/a.csv http://127.0.0.1:1/", "/nonexistent/a.csv: "),
    ] {
        let Ran { status, text } = run(&mut bench(words));
        assert_eq!(status.code(), Some(2), "{words}: {text}");
        let said: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(said.len() == 1 && said[0].contains(part), "{words}: {text}");
    }
}

#[test]
fn help_lists_the_options_of_the_tool() {
    for (words, option) in [("wrk --help", "--latency"), ("wrk2 -h", "--rate"), ("ab -h", "-n ")] {
        let text = run_well(&mut bench(words));
        assert!(text.starts_with("Usage: tollhouse bench ") && text.contains(option), "{text}");
    }
}
