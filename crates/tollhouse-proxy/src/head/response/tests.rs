//! Golden tables: the node's head, to the exact head for the client.

use tollhouse_http::HeadLimits;

use super::*;

const DATE: &[u8] = b"Thu, 01 Jan 1970 00:00:00 GMT";
const DATE_LINE: &str = "Date: Thu, 01 Jan 1970 00:00:00 GMT";
const SERVER_LINE: &str = "Server: tollhouse";

fn head_text(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\r\n")).chain(["\r\n".to_owned()]).collect()
}

fn facts(connection: ConnectionNote) -> ServerFacts<'static> {
    ServerFacts { server: b"tollhouse", date: DATE, connection }
}

/// One row: what the request was, what the node says, what is decided about it.
struct Case<'a> {
    method: &'a str,
    node: &'a [&'a str],
    reframe: Reframe,
    connection: ConnectionNote,
    upstream_status: Option<&'a [u8]>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            method: "GET",
            node: &[],
            reframe: Reframe::Keep,
            connection: ConnectionNote::None,
            upstream_status: None,
        }
    }
}

fn parsed(node: &[&str], method: &str) -> (ResponseHead, Vec<u8>) {
    let mut bytes = head_text(node).into_bytes();
    let mut head = ResponseHead::default();
    let whole = head.parse(&bytes, &HeadLimits::default(), method.as_bytes());
    assert!(whole.expect("a good head"), "{node:?}");
    // What follows in the buffer is not part of the head.
    bytes.extend_from_slice(b"BODY: not a header\r\n");
    (head, bytes)
}

fn check(case: &Case<'_>, client: &[&str]) {
    let (head, bytes) = parsed(case.node, case.method);
    let mut out = b"kept|".to_vec();
    RelayedResponse {
        head: &head,
        bytes: &bytes,
        reframe: case.reframe,
        facts: facts(case.connection),
        upstream_status: case.upstream_status,
        status: None,
    }
    .write(&mut out);
    let out = String::from_utf8(out).expect("text");
    let written = out.strip_prefix("kept|").expect("the head is appended");
    assert_eq!(written, head_text(client), "{:?}", case.node);
}

/// An answer to GET that is passed on without reframing.
fn check_plain(node: &[&str], client: &[&str]) {
    check(&Case { node, ..Case::default() }, client);
}

#[test]
fn lines_are_copied_in_order_and_the_server_is_the_gateway() {
    check_plain(
        &[
            "HTTP/1.1 200 OK",
            "Server: origin/1.0",
            "Content-Type: text/plain",
            "set-cookie: a=1",
            "Content-Length: 5",
            "set-cookie:  b=2 ",
            "X-Empty:",
        ],
        &[
            "HTTP/1.1 200 OK",
            "Content-Type: text/plain",
            "set-cookie: a=1",
            "Content-Length: 5",
            "set-cookie:  b=2 ",
            "X-Empty:",
            DATE_LINE,
            SERVER_LINE,
        ],
    );
}

#[test]
fn the_nodes_date_stays_and_a_missing_one_is_added() {
    check_plain(
        &["HTTP/1.1 200 OK", "date: then", "Content-Length: 1"],
        &["HTTP/1.1 200 OK", "date: then", "Content-Length: 1", SERVER_LINE],
    );
    check_plain(
        &["HTTP/1.1 200 OK", "Content-Length: 1"],
        &["HTTP/1.1 200 OK", "Content-Length: 1", DATE_LINE, SERVER_LINE],
    );
}

#[test]
fn the_status_line_keeps_its_status_and_reason_whatever_version_the_node_speaks() {
    for (node, client) in [
        ("HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
        ("HTTP/1.0 200 OK", "HTTP/1.1 200 OK"),
        ("HTTP/1.1 404 No, not here", "HTTP/1.1 404 No, not here"),
        ("HTTP/1.1 200 ", "HTTP/1.1 200 "),
        ("HTTP/1.1 799 Odd", "HTTP/1.1 799 Odd"),
    ] {
        check_plain(
            &[node, "Content-Length: 1"],
            &[client, "Content-Length: 1", DATE_LINE, SERVER_LINE],
        );
    }
}

#[test]
fn hop_by_hop_lines_stay_behind_and_so_does_what_connection_names() {
    check_plain(
        &[
            "HTTP/1.1 200 OK",
            "Connection: close, X-Internal",
            "A: 1",
            "x-internal: secret",
            "Keep-Alive: timeout=5",
            "Proxy-Connection: close",
            "B: 2",
            "Upgrade: h2c",
            "Content-Length: 1",
        ],
        &["HTTP/1.1 200 OK", "A: 1", "B: 2", "Content-Length: 1", DATE_LINE, SERVER_LINE],
    );
}

#[test]
fn framing_follows_what_is_done_to_the_body() {
    let chunked = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "A: 1"];
    let closing = ["HTTP/1.1 200 OK", "A: 1"];
    let old = ["HTTP/1.0 200 OK", "A: 1"];
    let bare = ["HTTP/1.1 200 OK", "A: 1", DATE_LINE, SERVER_LINE];
    let framed = ["HTTP/1.1 200 OK", "A: 1", "Transfer-Encoding: chunked", DATE_LINE, SERVER_LINE];
    for (node, reframe, client) in [
        (&chunked[..], Reframe::Keep, &framed[..]),
        (&chunked, Reframe::Decode, &bare),
        (&closing, Reframe::Encode, &framed),
        (&closing, Reframe::Keep, &bare),
        (&old, Reframe::Encode, &framed),
    ] {
        check(&Case { node, reframe, ..Case::default() }, client);
    }
}

#[test]
fn answers_without_a_body_keep_the_length_that_they_declare_and_nothing_else() {
    for (method, status_line, framing, passed) in [
        ("HEAD", "HTTP/1.1 200 OK", "Content-Length: 500", Some("Content-Length: 500")),
        ("HEAD", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked", None),
        ("HEAD", "HTTP/1.1 200 OK", "A: 1", Some("A: 1")),
        ("GET", "HTTP/1.1 304 Not Modified", "Content-Length: 500", Some("Content-Length: 500")),
        ("GET", "HTTP/1.1 304 Not Modified", "Transfer-Encoding: chunked", None),
        ("GET", "HTTP/1.1 204 No Content", "A: 1", Some("A: 1")),
        ("GET", "HTTP/1.1 204 No Content", "Transfer-Encoding: chunked", None),
    ] {
        let client: Vec<&str> = [Some(status_line), passed, Some(DATE_LINE), Some(SERVER_LINE)]
            .into_iter()
            .flatten()
            .collect();
        check(&Case { method, node: &[status_line, framing], ..Case::default() }, &client);
    }
}

#[test]
fn a_switch_of_protocols_says_which() {
    check_plain(
        &[
            "HTTP/1.1 101 Switching Protocols",
            "Connection: Upgrade",
            "Upgrade: WebSocket",
            "Sec-WebSocket-Accept: y",
        ],
        &[
            "HTTP/1.1 101 Switching Protocols",
            "Sec-WebSocket-Accept: y",
            DATE_LINE,
            SERVER_LINE,
            "Upgrade: WebSocket",
            "Connection: upgrade",
        ],
    );
}

#[test]
fn what_becomes_of_the_connection_is_the_gateways_to_say() {
    for (connection, said) in [
        (ConnectionNote::None, None),
        (ConnectionNote::Close, Some("Connection: close")),
        (ConnectionNote::KeepAlive, Some("Connection: keep-alive")),
    ] {
        let node = &["HTTP/1.1 200 OK", "Connection: close", "Content-Length: 1"];
        let client: Vec<&str> = ["HTTP/1.1 200 OK", "Content-Length: 1", DATE_LINE, SERVER_LINE]
            .into_iter()
            .chain(said)
            .collect();
        check(&Case { node, connection, ..Case::default() }, &client);
    }
}

#[test]
fn the_statuses_of_all_nodes_are_shown_on_demand() {
    let case = Case {
        node: &["HTTP/1.1 502 Bad Gateway", "Content-Length: 1"],
        upstream_status: Some(b"504, 502"),
        connection: ConnectionNote::Close,
        ..Case::default()
    };
    check(
        &case,
        &[
            "HTTP/1.1 502 Bad Gateway",
            "Content-Length: 1",
            DATE_LINE,
            SERVER_LINE,
            "Connection: close",
            "X-APISIX-Upstream-Status: 504, 502",
        ],
    );
}

#[test]
fn interim_answers_pass_without_additions() {
    for (node, client) in [
        (
            &["HTTP/1.1 103 Early Hints", "Link: </a>", "Connection: close", "Server: o"][..],
            &["HTTP/1.1 103 Early Hints", "Link: </a>", "Server: o"][..],
        ),
        (&["HTTP/1.1 102 Processing"], &["HTTP/1.1 102 Processing"]),
        (&["HTTP/1.0 103 Early Hints"], &["HTTP/1.1 103 Early Hints"]),
    ] {
        let (head, bytes) = parsed(node, "GET");
        let mut out = Vec::new();
        write_interim(&mut out, &head, &bytes);
        assert_eq!(String::from_utf8(out).expect("text"), head_text(client));
    }
}

#[test]
fn answers_of_the_gateways_own_are_complete() {
    let local = |status, content_type, headers, body_bytes, connection| {
        let facts = facts(connection);
        let mut out = Vec::new();
        LocalResponse { status, content_type, headers, body_bytes, facts }.write(&mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        local(404, "text/plain", &[], 36, ConnectionNote::None),
        head_text(&[
            "HTTP/1.1 404 Not Found",
            DATE_LINE,
            SERVER_LINE,
            "Content-Type: text/plain",
            "Content-Length: 36",
        ])
    );
    assert_eq!(
        local(200, "", &[("Allow", b"GET"), ("X-A", b"")], 0, ConnectionNote::Close),
        head_text(&[
            "HTTP/1.1 200 OK",
            DATE_LINE,
            SERVER_LINE,
            "Connection: close",
            "Content-Length: 0",
            "Allow: GET",
            "X-A: ",
        ])
    );
}
