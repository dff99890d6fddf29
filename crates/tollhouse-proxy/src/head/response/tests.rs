//! Golden tables: the node's head, to the exact head for the client.

use std::sync::LazyLock;

use tollhouse_http::HeadLimits;

use super::*;

const NOW: FieldValue<'_> = FieldValue::literal("Thu, 01 Jan 1970 00:00:00 GMT");
const DATE_LINE: &str = "Date: Thu, 01 Jan 1970 00:00:00 GMT";
const SERVER_LINE: &str = "Server: tollhouse";

fn head_text(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\r\n")).chain(["\r\n".to_owned()]).collect()
}

fn facts(connection: ConnectionNote) -> ServerFacts<'static> {
    static LINES: LazyLock<ServerLines> = LazyLock::new(|| {
        let mut lines = ServerLines::default();
        for server in ["somebody else", "tollhouse"] {
            lines.write_anew(FieldValue::literal(server), NOW);
        }
        lines
    });
    ServerFacts { lines: &LINES, connection }
}

/// One row: what the request was, what the node says, what is decided about it.
struct Case<'a> {
    method: &'a str,
    node: &'a [&'a str],
    framing: Framing,
    trailers: Trailers,
    connection: ConnectionNote,
    upstream_status: Option<FieldValue<'a>>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            method: "GET",
            node: &[],
            framing: Framing::Length(1),
            trailers: Trailers::Dropped,
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
        framing: case.framing,
        trailers: case.trailers,
        facts: facts(case.connection),
        upstream_status: case.upstream_status,
        status: None,
    }
    .write(&mut out);
    let out = String::from_utf8(out).expect("text");
    let written = out.strip_prefix("kept|").expect("the head is appended");
    assert_eq!(written, head_text(client), "{:?}", case.node);
}

/// An answer to GET with a body of one byte.
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
            "Content-Length: 1",
            "set-cookie:  b=2 ",
            "X-Empty:",
        ],
        &[
            "HTTP/1.1 200 OK",
            "Content-Type: text/plain",
            "set-cookie: a=1",
            "set-cookie:  b=2 ",
            "X-Empty:",
            "Content-Length: 1",
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
fn framing_is_what_was_decided_and_never_what_the_node_wrote() {
    for node in [
        &["HTTP/1.1 200 OK", "Transfer-Encoding: CHUNKED", "A: 1"][..],
        &["HTTP/1.1 200 OK", "Content-Length: 007", "A: 1"],
        &["HTTP/1.1 200 OK", "A: 1"],
    ] {
        for (framing, line) in [
            (Framing::Omitted, None),
            (Framing::Length(7), Some("Content-Length: 7")),
            (Framing::Chunked, Some("Transfer-Encoding: chunked")),
        ] {
            let client: Vec<&str> = ["HTTP/1.1 200 OK", "A: 1"]
                .into_iter()
                .chain(line)
                .chain([DATE_LINE, SERVER_LINE])
                .collect();
            check(&Case { node, framing, ..Case::default() }, &client);
        }
    }
}

#[test]
fn trailers_are_announced_where_they_pass() {
    let node = &["HTTP/1.1 200 OK", "Trailer: X-Sum", "Transfer-Encoding: chunked"][..];
    let framed = "Transfer-Encoding: chunked";
    let case = Case { node, framing: Framing::Chunked, ..Case::default() };
    check(&case, &["HTTP/1.1 200 OK", framed, DATE_LINE, SERVER_LINE]);
    let announced = ["HTTP/1.1 200 OK", "Trailer: X-Sum", framed, DATE_LINE, SERVER_LINE];
    check(&Case { trailers: Trailers::Passed, ..case }, &announced);
}

#[test]
fn a_switch_of_protocols_says_which() {
    check(
        &Case {
            node: &[
                "HTTP/1.1 101 Switching Protocols",
                "Connection: Upgrade",
                "Upgrade: WebSocket",
                "Sec-WebSocket-Accept: y",
                "Content-Length: 0",
            ],
            framing: Framing::Omitted,
            ..Case::default()
        },
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
        upstream_status: Some(FieldValue::literal("504, 502")),
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
        (&["HTTP/1.1 102 Processing", "Content-Length: 0"], &["HTTP/1.1 102 Processing"]),
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
    let local = |status, content_type, bytes, connection| {
        let facts = facts(connection);
        let mut out = Vec::new();
        let status = Status::new(status).expect("a status");
        let (content_type, framing) = (FieldValue::literal(content_type), Framing::Length(bytes));
        LocalResponse { status, content_type, framing, facts, has_date: false }.write(&mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        local(404, "text/plain", 36, ConnectionNote::None),
        head_text(&[
            "HTTP/1.1 404 Not Found",
            DATE_LINE,
            SERVER_LINE,
            "Content-Type: text/plain",
            "Content-Length: 36",
        ])
    );
    assert_eq!(
        local(200, "", 0, ConnectionNote::Close),
        head_text(&[
            "HTTP/1.1 200 OK",
            DATE_LINE,
            SERVER_LINE,
            "Connection: close",
            "Content-Length: 0",
        ])
    );
}
