//! Tables of whole response heads: bytes on the left, facts or the exact refusal on the right.
//! Every row is fed in every possible split.

use super::*;
use crate::testing::{ResponseFeed, feed_in_every_split, printable};

/// A row: the head, and its facts (see `testing::response_facts`) or its refusal.
type Row<'a> = (&'a [u8], Result<&'a str, HeadError>);

fn check_to(method: &'static str, rows: &[Row<'_>]) {
    for (bytes, expected) in rows {
        check_with(HeadLimits::default(), method, bytes, *expected);
    }
}

fn check(rows: &[Row<'_>]) {
    check_to("GET", rows);
}

fn check_with(
    limits: HeadLimits,
    method: &'static str,
    bytes: &[u8],
    expected: Result<&str, HeadError>,
) {
    let new = || ResponseFeed { head: ResponseHead::default(), limits, method };
    let found = feed_in_every_split(bytes, new);
    assert_eq!(found, expected.map(|facts| Some(facts.to_owned())), "{}", printable(bytes));
}

#[test]
fn status_lines_are_taken_apart_or_refused() {
    use HeadError::{BadLine, BareLineFeed, VersionNotSupported};
    check(&[
        (b"HTTP/1.1 200 OK\r\n\r\n", Ok("1.1 200 'OK' close |")),
        (b"HTTP/1.0 200 OK\r\n\r\n", Ok("1.0 200 'OK' close |")),
        (b"HTTP/1.1 200 \r\n\r\n", Ok("1.1 200 '' close |")),
        (b"HTTP/1.1 200\r\n\r\n", Ok("1.1 200 '' close |")),
        (b"HTTP/1.1 200  OK \r\n\r\n", Ok("1.1 200 ' OK ' close |")),
        (
            b"HTTP/1.1 404 Not\tFound, d\xc3\xa9sol\xe9\r\n\r\n",
            Ok("1.1 404 'Not\\tFound, d\\xc3\\xa9sol\\xe9' close |"),
        ),
        (b"HTTP/1.1 999 x\r\n\r\n", Ok("1.1 999 'x' close |")),
        (b"HTTP/1.1 099 x\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 000 x\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 20 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 2000 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 +20 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1  200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1\t200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200\tOK\r\n\r\n", Err(BadLine)),
        (b" HTTP/1.1 200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 \r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1\r\n\r\n", Err(BadLine)),
        (b"http/1.1 200 OK\r\n\r\n", Err(BadLine)),
        (b"ICY 200 OK\r\n\r\n", Err(BadLine)),
        (b"200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/2 200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.10 200 OK\r\n\r\n", Err(BadLine)),
        (b"HTTP/2.0 200 OK\r\n\r\n", Err(VersionNotSupported)),
        (b"HTTP/1.2 200 OK\r\n\r\n", Err(VersionNotSupported)),
        (b"HTTP/0.9 200 OK\r\n\r\n", Err(VersionNotSupported)),
        (b"HTTP/1.1 200 O\0K\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 O\rK\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 OK\r\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 \x7f\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 \x0b\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200\r\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 OK\n\r\n", Err(BareLineFeed)),
        (b"HTTP/1.1 200\n\n", Err(BareLineFeed)),
        // An empty line before a response is refused, unlike before a request.
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", Err(BadLine)),
        (b"\nHTTP/1.1 200 OK\r\n\r\n", Err(BareLineFeed)),
        (b"\r\n\r\n", Err(BadLine)),
    ]);
}

#[test]
fn header_lines_are_as_strict_as_in_requests() {
    use HeadError::{BadHeader, BareLineFeed};
    check(&[
        (b"HTTP/1.1 200 OK\r\nA:\tb \r\nC:\r\n\r\n", Ok("1.1 200 'OK' close | A=b C=")),
        (b"HTTP/1.1 200 OK\r\nA: \xff\r\n\r\n", Ok("1.1 200 'OK' close | A=\\xff")),
        (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA\t: b\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\n: b\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", Err(BareLineFeed)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\n", Err(BareLineFeed)),
    ]);
}

#[test]
fn bodies_end_as_declared_or_are_refused() {
    use HeadError::{BadFraming, BadHeader, CodingNotImplemented};
    check(&[
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 200 'OK' 5 declared=5 keep | Content-Length=5"),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Ok("1.1 200 'OK' - declared=0 keep | Content-Length=0"),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
            Ok("1.1 200 'OK' chunked keep | [Transfer-Encoding]=Chunked"),
        ),
        (
            b"HTTP/1.1 404 x\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 404 'x' 5 declared=5 keep | Content-Length=5"),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(BadFraming),
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(CodingNotImplemented)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n", Err(BadHeader)),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(BadFraming)),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
            Ok("1.0 200 'OK' 5 declared=5 | Content-Length=5"),
        ),
    ]);
}

#[test]
fn some_statuses_and_methods_have_no_body() {
    use HeadError::BadFraming;
    check(&[
        (b"HTTP/1.1 204 x\r\n\r\n", Ok("1.1 204 'x' - keep |")),
        (
            b"HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n",
            Ok("1.1 204 'x' - declared=0 keep | Content-Length=0"),
        ),
        (
            b"HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 304 'x' - declared=5 keep | Content-Length=5"),
        ),
        (
            b"HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n",
            Ok("1.1 304 'x' - keep | [Transfer-Encoding]=chunked"),
        ),
        (
            b"HTTP/1.1 205 x\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 205 'x' 5 declared=5 keep | Content-Length=5"),
        ),
    ]);
    check_to(
        "HEAD",
        &[
            (b"HTTP/1.1 200 OK\r\n\r\n", Ok("1.1 200 'OK' - keep |")),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                Ok("1.1 200 'OK' - declared=5 keep | Content-Length=5"),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Ok("1.1 200 'OK' - keep | [Transfer-Encoding]=chunked"),
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Err(BadFraming)),
        ],
    );
    // Methods are case-sensitive.
    check_to("head", &[(b"HTTP/1.1 200 OK\r\n\r\n", Ok("1.1 200 'OK' close |"))]);
}

/// The connection is given up, because it is unclear whether the body follows.
#[test]
fn a_body_declared_where_none_may_be_costs_the_connection() {
    use HeadError::BadFraming;
    check(&[
        (
            b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 204 'x' - declared=5 | Content-Length=5"),
        ),
        (
            b"HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n",
            Ok("1.1 204 'x' - | [Transfer-Encoding]=chunked"),
        ),
        (
            b"HTTP/1.1 204 x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(BadFraming),
        ),
        (b"HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 103 x\r\nTransfer-Encoding: chunked\r\n\r\n", Err(BadFraming)),
        (b"HTTP/1.1 100 Continue\r\n\r\n", Ok("1.1 100 'Continue' - keep interim |")),
        (b"HTTP/1.1 103 x\r\nLink: y\r\n\r\n", Ok("1.1 103 'x' - keep interim | Link=y")),
        (
            b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h\r\n\r\n",
            Ok("1.1 101 'x' - keep | [Connection]=Upgrade [Upgrade]=h"),
        ),
        (
            b"HTTP/1.1 101 x\r\nContent-Length: 5\r\n\r\n",
            Ok("1.1 101 'x' - declared=5 | Content-Length=5"),
        ),
    ]);
}

#[test]
fn connections_are_kept_only_when_both_sides_agree() {
    check(&[
        (b"HTTP/1.1 204 x\r\nConnection: close\r\n\r\n", Ok("1.1 204 'x' - | [Connection]=close")),
        (
            b"HTTP/1.1 204 x\r\nConnection: keep-alive, Close\r\n\r\n",
            Ok("1.1 204 'x' - | [Connection]=keep-alive, Close"),
        ),
        (
            b"HTTP/1.1 200 x\r\nConnection: keep-alive\r\n\r\n",
            Ok("1.1 200 'x' close | [Connection]=keep-alive"),
        ),
        (b"HTTP/1.0 204 x\r\n\r\n", Ok("1.0 204 'x' - |")),
        (
            b"HTTP/1.0 204 x\r\nConnection: keep-alive\r\n\r\n",
            Ok("1.0 204 'x' - keep | [Connection]=keep-alive"),
        ),
        (
            b"HTTP/1.0 200 x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n",
            Ok("1.0 200 'x' 2 declared=2 keep | [Connection]=keep-alive Content-Length=2"),
        ),
        (
            b"HTTP/1.0 200 x\r\nConnection: keep-alive\r\n\r\n",
            Ok("1.0 200 'x' close | [Connection]=keep-alive"),
        ),
        (
            b"HTTP/1.1 204 x\r\nConnection: a\r\nA: b\r\nKeep-Alive: 5\r\n\r\n",
            Ok("1.1 204 'x' - keep | [Connection]=a [A]=b [Keep-Alive]=5"),
        ),
    ]);
    let options = vec!["x"; crate::limits::CONNECTION_OPTIONS_MAX + 1].join(",");
    let bytes = format!("HTTP/1.1 204 x\r\nConnection: {options}\r\n\r\n");
    check(&[(bytes.as_bytes(), Err(HeadError::BadHeader))]);
}

#[test]
fn limits_hold_exactly() {
    let tight = |line_bytes, fields_bytes, header_count| HeadLimits {
        line_bytes,
        fields_bytes,
        header_count,
    };
    let bytes = b"HTTP/1.1 204 x\r\nA: b\r\nC: d\r\n\r\n";
    for (limits, expected) in [
        (tight(14, 14, 2), Ok("1.1 204 'x' - keep | A=b C=d")),
        (tight(13, 14, 2), Err(HeadError::LineTooLong)),
        (tight(14, 13, 2), Err(HeadError::HeadTooLong)),
        (tight(14, 0, 2), Err(HeadError::HeadTooLong)),
        (tight(14, 14, 1), Err(HeadError::TooManyHeaders)),
    ] {
        check_with(limits, "GET", bytes, expected);
    }
}

#[test]
fn header_lines_start_where_told_and_the_head_ends_where_told() {
    for (bytes, fields_start) in [
        (&b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest"[..], 17),
        (b"HTTP/1.1 200\r\nA: b\r\n\r\nrest", 14),
        (b"HTTP/1.1 200 \r\n\r\nrest", 15),
    ] {
        let mut head = ResponseHead::default();
        assert_eq!(head.parse(bytes, &HeadLimits::default(), b"GET"), Ok(true));
        assert_eq!(head.fields_start, fields_start, "{}", printable(bytes));
        assert_eq!(&bytes[head.head_bytes..], b"rest", "{}", printable(bytes));
    }
}

#[test]
fn a_value_is_ready_for_the_next_response_after_reset() {
    let mut head = ResponseHead::default();
    let first = b"HTTP/1.1 204 x\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    assert_eq!(head.parse(first, &HeadLimits::default(), b"GET"), Ok(true));
    head.reset();
    assert_eq!(head.parse(b"HTTP/1.1 204\r\n\r\n", &HeadLimits::default(), b"GET"), Ok(true));
    assert!(head.keep_alive && head.declared_length.is_none() && head.fields.is_empty());
}
