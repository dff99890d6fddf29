//! Golden tables: the client's head and what the gateway knows, to the exact head for the node.

use proptest::prelude::*;
use tollhouse_http::{BodyLength, HeadLimits};
use tollhouse_plugin::RequestEdits;

use super::*;

use crate::plugins::overlay::{self, Side};

/// Header lines of the gateway's own when nothing is trusted and nothing is known beforehand.
const OWN: &[&str] = &[
    "Host: node.example",
    "X-Real-IP: 10.0.0.9",
    "X-Forwarded-For: 10.0.0.9",
    "X-Forwarded-Proto: http",
    "X-Forwarded-Port: 9080",
    "X-Forwarded-Host: a.example",
];

fn head_text(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\r\n")).chain(["\r\n".to_owned()]).collect()
}

fn written(client: &[&str], trust: Trust, passes_upgrades: bool) -> String {
    written_with(client, trust, passes_upgrades, &HeaderEdits::default())
}

fn written_with(
    client: &[&str],
    trust: Trust,
    passes_upgrades: bool,
    edits: &HeaderEdits,
) -> String {
    let mut text = head_text(client);
    let mut head = RequestHead::default();
    assert!(head.parse(text.as_bytes(), &HeadLimits::default()).expect("a good head"));
    // What follows in the buffer is not part of the head.
    text.push_str("BODY: not a header\r\n");
    let mut out = b"kept|".to_vec();
    let client = ClientFacts {
        remote_address: FieldValue::literal("10.0.0.9"),
        scheme: FieldValue::literal("http"),
        host: FieldValue::literal("a.example"),
        port: 9080,
    };
    // What is kept from request to request must read like what is written anew.
    let mut forwarding = ForwardingLines::default();
    forwarding.write_anew(&ClientFacts { host: FieldValue::literal("b.example"), ..client });
    assert!(forwarding.are_for(b"b.example") && !forwarding.are_for(b"a.example"));
    forwarding.write_anew(&client);
    let is_as_always = trust == Trust::Unconfigured
        && !head.fields.has(Known::XForwardedFor)
        && !edits_chain(edits);
    UpstreamRequest {
        head: &head,
        bytes: text.as_bytes(),
        method: Method::from_head(&head, text.as_bytes()),
        target: OriginForm::from_head(&head, text.as_bytes()),
        host: Authority::parse(b"node.example").expect("a host"),
        about: if is_as_always { About::Always(&forwarding) } else { About::Now(client) },
        trust,
        edits,
        framing: match head.body {
            BodyLength::Known(bytes) => Framing::Length(bytes),
            BodyLength::Chunked => Framing::Chunked,
            _ => Framing::Omitted,
        },
        upgrade: head.upgrade && passes_upgrades,
        trace: None,
    }
    .write(&mut out);
    let out = String::from_utf8(out).expect("text");
    out.strip_prefix("kept|").expect("the head is appended").to_owned()
}

/// Whole heads, line by line.
fn check_whole(client: &[&str], trust: Trust, node: &[&str]) {
    assert_eq!(written(client, trust, false), head_text(node), "{client:?} {trust:?}");
}

/// A request line and what follows the gateway's own lines.
fn check(client: &[&str], request_line: &str, copied: &[&str]) {
    let node = [&[request_line], OWN, copied].concat();
    check_whole(client, Trust::Unconfigured, &node);
}

#[test]
fn the_request_line_is_in_origin_form_and_speaks_http_1_1() {
    for (line, expected) in [
        ("GET / HTTP/1.1", "GET / HTTP/1.1"),
        ("GET /a/b%2Fc?d=e&f HTTP/1.1", "GET /a/b%2Fc?d=e&f HTTP/1.1"),
        ("GET /a? HTTP/1.1", "GET /a? HTTP/1.1"),
        ("GET //a/../b HTTP/1.1", "GET //a/../b HTTP/1.1"),
        ("GET / HTTP/1.0", "GET / HTTP/1.1"),
        ("PURGE /x HTTP/1.1", "PURGE /x HTTP/1.1"),
        ("GET http://a.example/x?y HTTP/1.1", "GET /x?y HTTP/1.1"),
        ("GET http://a.example HTTP/1.1", "GET / HTTP/1.1"),
        ("GET http://a.example?q=1 HTTP/1.1", "GET /?q=1 HTTP/1.1"),
        ("GET HTTPS://a.example:8443/z HTTP/1.1", "GET /z HTTP/1.1"),
    ] {
        check(&[line, "Host: a.example"], expected, &[]);
    }
}

#[test]
fn ordinary_lines_are_copied_as_they_stand_and_in_order() {
    check(
        &[
            "GET / HTTP/1.1",
            "accept:*/*",
            "Host: a.example",
            "X-Twice: 1",
            "Cookie:   a=b; c  ",
            "X-Twice: 2",
            "X-Empty:",
            "User-Agent: \u{fc}ml\u{e4}ut",
            "Trailer: X-Sum",
        ],
        "GET / HTTP/1.1",
        &[
            "accept:*/*",
            "X-Twice: 1",
            "Cookie:   a=b; c  ",
            "X-Twice: 2",
            "X-Empty:",
            "User-Agent: \u{fc}ml\u{e4}ut",
        ],
    );
}

#[test]
fn hop_by_hop_lines_stay_behind_wherever_they_stand() {
    for dropped in [
        "Connection: keep-alive",
        "CONNECTION: close",
        "Connection: keep-alive, ,close",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Trailer: X-Sum",
        "Upgrade: websocket",
        "Host: a.example",
        "X-Real-IP: 6.6.6.6",
    ] {
        let host = if dropped.starts_with("Host") { "B: 0" } else { "Host: a.example" };
        let kept: &[&str] = if dropped.starts_with("Host") { &["B: 0"] } else { &[] };
        let line = "GET / HTTP/1.1";
        check(&[line, dropped, host, "A: 1", "C: 2"], line, &[kept, &["A: 1", "C: 2"]].concat());
        check(&[line, host, "A: 1", dropped, "C: 2"], line, &[kept, &["A: 1", "C: 2"]].concat());
        check(&[line, host, "A: 1", "C: 2", dropped], line, &[kept, &["A: 1", "C: 2"]].concat());
    }
}

#[test]
fn fields_named_by_connection_stay_behind() {
    check(
        &[
            "GET / HTTP/1.1",
            "X-One: 1",
            "Connection: x-one, X-TWO",
            "Host: a.example",
            "x-two: 2",
            "Connection: X-Three",
            "X-Three: 3",
            "X-Four: 4",
        ],
        "GET / HTTP/1.1",
        &["X-Four: 4"],
    );
}

#[test]
fn what_the_node_must_have_cannot_be_named_away_by_connection() {
    let line = "POST / HTTP/1.1";
    check(
        &[line, "Host: a.example", "Connection: host, content-length", "Content-Length: 2"],
        line,
        &["Content-Length: 2"],
    );
    check(
        &[line, "Host: a.example", "Connection: transfer-encoding", "Transfer-Encoding: chunked"],
        line,
        &["Transfer-Encoding: chunked"],
    );
    let forwarding = "Connection: x-forwarded-for, x-real-ip, x-forwarded-proto";
    check(&["GET / HTTP/1.1", "Host: a.example", forwarding], "GET / HTTP/1.1", &[]);
}

#[test]
fn the_expectation_is_the_gateways_to_meet() {
    check(
        &["PUT / HTTP/1.1", "Host: a.example", "Expect: 100-continue", "Content-Length: 9"],
        "PUT / HTTP/1.1",
        &["Content-Length: 9"],
    );
}

#[test]
fn framing_is_said_once_and_plainly() {
    let line = "POST / HTTP/1.1";
    check(
        &[line, "Transfer-Encoding: Chunked", "Host: a.example", "A: 1"],
        line,
        &["A: 1", "Transfer-Encoding: chunked"],
    );
    check(
        &[line, "Content-Length:\t0005", "Host: a.example", "A: 1"],
        line,
        &["A: 1", "Content-Length: 5"],
    );
    check(&[line, "Host: a.example"], line, &[]);
}

#[test]
fn a_client_of_http_1_0_may_name_no_host() {
    check(&["GET / HTTP/1.0", "Connection: keep-alive"], "GET / HTTP/1.1", &[]);
}

/// What a proxy in front may have sent.
const FORWARDED: &[&str] = &[
    "GET / HTTP/1.1",
    "Host: a.example",
    "X-Real-IP: 6.6.6.6",
    "X-Forwarded-For: 1.1.1.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: front.example",
    "X-Forwarded-Port: 443",
    "Forwarded: for=1.1.1.1;proto=https",
    "X-Forwarded-For: 2.2.2.2, 3.3.3.3",
    "Accept: */*",
];

#[test]
fn without_trusted_addresses_the_chain_grows_and_the_rest_is_overwritten() {
    check_whole(
        FORWARDED,
        Trust::Unconfigured,
        &[
            "GET / HTTP/1.1",
            "Host: node.example",
            "X-Real-IP: 10.0.0.9",
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9",
            "X-Forwarded-Proto: http",
            "X-Forwarded-Port: 9080",
            "X-Forwarded-Host: a.example",
            "Accept: */*",
        ],
    );
}

#[test]
fn a_trusted_peer_keeps_what_it_said() {
    check_whole(
        FORWARDED,
        Trust::Trusted,
        &[
            "GET / HTTP/1.1",
            "Host: node.example",
            "X-Real-IP: 10.0.0.9",
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: front.example",
            "X-Forwarded-Port: 443",
            "Forwarded: for=1.1.1.1;proto=https",
            "Accept: */*",
        ],
    );
}

#[test]
fn what_a_trusted_peer_left_out_is_filled_in() {
    check_whole(
        &["GET / HTTP/1.1", "Host: a.example", "X-Forwarded-Proto: https"],
        Trust::Trusted,
        &[
            "GET / HTTP/1.1",
            "Host: node.example",
            "X-Real-IP: 10.0.0.9",
            "X-Forwarded-For: 10.0.0.9",
            "X-Forwarded-Port: 9080",
            "X-Forwarded-Host: a.example",
            "X-Forwarded-Proto: https",
        ],
    );
}

#[test]
fn nothing_that_an_untrusted_peer_says_about_the_client_passes() {
    let own = [&["GET / HTTP/1.1"], OWN, &["Accept: */*"]].concat();
    check_whole(FORWARDED, Trust::Untrusted, &own);
}

#[test]
fn an_upgrade_is_asked_for_where_the_route_lets_it_pass() {
    let client = [
        "GET /chat HTTP/1.1",
        "Host: a.example",
        "Connection: keep-alive, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: x",
    ];
    let node =
        [&["GET /chat HTTP/1.1"], OWN, &["Sec-WebSocket-Key: x"], &UPGRADE_LINES[..]].concat();
    assert_eq!(written(&client, Trust::Unconfigured, true), head_text(&node));
    let plain = [&["GET /chat HTTP/1.1"], OWN, &["Sec-WebSocket-Key: x"]].concat();
    assert_eq!(written(&client, Trust::Unconfigured, false), head_text(&plain));
}

const UPGRADE_LINES: [&str; 2] = ["Upgrade: websocket", "Connection: upgrade"];

#[test]
fn an_upgrade_that_connection_does_not_name_is_none() {
    let client = ["GET /chat HTTP/1.1", "Host: a.example", "Upgrade: websocket"];
    let plain = [&["GET /chat HTTP/1.1"], OWN].concat();
    assert_eq!(written(&client, Trust::Unconfigured, true), head_text(&plain));
}

#[test]
fn a_client_cannot_say_who_the_consumer_is() {
    check(
        &[
            "GET / HTTP/1.1",
            "Host: a",
            "X-Consumer-Username: admin",
            "x-credential-identifier: 1",
            "X-Consumer-Custom-ID: 2",
            "X-Consumer: stays",
        ],
        "GET / HTTP/1.1",
        &["X-Consumer: stays"],
    );
}

#[test]
fn a_chain_that_a_plugin_says_ends_with_the_client() {
    let client = ["GET / HTTP/1.1", "Host: a.example", "X-Forwarded-For: 1.1.1.1"];
    for (edit, trust, chain) in [
        (
            (|edits: &mut HeaderEdits| edits.set("x-forwarded-for", b"7.7.7.7"))
                as fn(&mut HeaderEdits),
            Trust::Unconfigured,
            "7.7.7.7, 10.0.0.9",
        ),
        (|edits| edits.set("X-Forwarded-For", b"7.7.7.7"), Trust::Untrusted, "7.7.7.7, 10.0.0.9"),
        (
            |edits| edits.add("X-Forwarded-For", b"7.7.7.7"),
            Trust::Unconfigured,
            "1.1.1.1, 7.7.7.7, 10.0.0.9",
        ),
        (|edits| edits.remove("X-Forwarded-For"), Trust::Unconfigured, "10.0.0.9"),
        (|edits| edits.set("X-Other", b"1"), Trust::Unconfigured, "1.1.1.1, 10.0.0.9"),
    ] {
        let mut edits = HeaderEdits::default();
        edit(&mut edits);
        let head = written_with(&client, trust, false, &edits);
        let line = format!("\r\nX-Forwarded-For: {chain}\r\n");
        assert!(head.contains(&line), "{head}");
    }
}

/// Texts of which many end a line or an element, or begin another.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    const BREAKS: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"?",
        b"#",
        b"%0d%0a",
        b" HTTP/1.1\r\nHost: x\r\n\r\nGET /internal HTTP/1.1\r\nX: ",
        b"\r\nContent-Length: 7\r\n",
        b"\0",
        b"\x7f",
        b"\xff",
    ];
    let piece = prop_oneof![
        3 => "[a-zA-Z0-9/?&=.:%_-]{0,8}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        2 => prop::sample::select(BREAKS).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// Names that frame and route among those that plugins may give.
fn names() -> impl Strategy<Value = String> {
    const OWN: &[&str] = &[
        "Host",
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "X-Forwarded-For",
        "Upgrade",
        "TE",
        "Trailer",
    ];
    let any = texts().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![2 => "[a-zA-Z-]{1,8}", 1 => any, 1 => prop::sample::select(OWN).prop_map(String::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_plugins_make_of_a_request_a_node_reads_one(
        uri in texts(),
        host in texts(),
        lines in prop::collection::vec((names(), texts(), any::<bool>()), 0..4),
        removed in prop::collection::vec(names(), 0..2),
    ) {
        let mut edits = RequestEdits::default();
        edits.set_upstream_uri(&[b"/", uri.as_slice()].concat());
        for (name, value, is_set) in lines.iter().filter(|(name, ..)| !name.is_empty()) {
            match is_set {
                true => edits.headers.set(name, value),
                false => edits.headers.add(name, value),
            }
        }
        removed.iter().for_each(|name| edits.headers.remove(name));

        let client = b"POST /sent HTTP/1.1\r\nHost: a\r\nA: 1\r\nContent-Length: 5\r\n\r\nhello";
        let mut head = RequestHead::default();
        prop_assert_eq!(head.parse(client, &HeadLimits::default()), Ok(true));
        let target = OriginForm::parse(edits.upstream_uri().unwrap_or_default());
        prop_assert!(target.is_some(), "every uri that begins with a slash can be sent");
        let (Some(target), Some(authority)) = (target, Authority::parse(&host)) else {
            return Ok(());
        };
        let mut out = Vec::new();
        UpstreamRequest {
            head: &head,
            bytes: client,
            method: Method::from_head(&head, client),
            target,
            host: authority,
            about: About::Now(ClientFacts {
                remote_address: FieldValue::literal("10.0.0.9"),
                scheme: FieldValue::literal("http"),
                host: FieldValue::literal("a"),
                port: 9080,
            }),
            trust: Trust::Unconfigured,
            edits: &edits.headers,
            framing: Framing::Length(5),
            upgrade: false,
            trace: None,
        }
        .write(&mut out);
        overlay::apply(&mut out, &edits.headers, Side::Request);
        out.extend_from_slice(b"hello");

        let limits = HeadLimits { line_bytes: 32_000, fields_bytes: 65_535, header_count: 100 };
        let mut read = RequestHead::default();
        prop_assert_eq!(read.parse(&out, &limits), Ok(true), "{}", out.escape_ascii());
        prop_assert_eq!(&out[read.head_bytes..], b"hello", "{}", out.escape_ascii());
        prop_assert_eq!(read.method.bytes_in(&out), b"POST");
        prop_assert_eq!(Some(read.target.bytes_in(&out)), edits.upstream_uri());
        prop_assert_eq!(read.authority.bytes_in(&out), host.as_slice());
        prop_assert_eq!(read.body, BodyLength::Known(5));
    }
}
