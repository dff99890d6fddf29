//! Tables of whole request heads: bytes on the left, facts or the exact refusal on the right.
//! Every row is fed in every possible split.

use super::*;
use crate::limits::{HEAD_BYTES_MAX, HEADER_COUNT_MAX, LEADING_EMPTY_LINES_MAX};
use crate::testing::{RequestFeed, feed_in_every_split, printable};

/// A row: the head, and its facts (see `testing::request_facts`) or its refusal.
type Row<'a> = (&'a [u8], Result<&'a str, HeadError>);

fn check(rows: &[Row<'_>]) {
    for (bytes, expected) in rows {
        check_with(HeadLimits::default(), bytes, *expected);
    }
}

fn check_with(limits: HeadLimits, bytes: &[u8], expected: Result<&str, HeadError>) {
    let new = || RequestFeed { limits, ..RequestFeed::default() };
    let found = feed_in_every_split(bytes, new);
    assert_eq!(found, expected.map(|facts| Some(facts.to_owned())), "{}", printable(bytes));
}

/// Checks rows of header lines, each placed after a request line and `Host: a`.
fn check_fields(rows: &[(&[u8], Result<&str, HeadError>)]) {
    for (lines, expected) in rows {
        let bytes = [b"POST / HTTP/1.1\r\nHost: a\r\n", *lines, b"\r\n\r\n"].concat();
        let found = feed_in_every_split(&bytes, RequestFeed::default);
        let expected = expected.map(|facts| Some(format!("POST / 1.1 @a {facts}")));
        assert_eq!(found, expected, "{}", printable(lines));
    }
}

#[test]
fn request_lines_are_taken_apart_or_refused() {
    use HeadError::{BadLine, BareLineFeed, MethodNotImplemented, VersionNotSupported};
    check(&[
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET / 1.1 @a - keep | Host=a")),
        (b"GET / HTTP/1.0\r\n\r\n", Ok("GET / 1.0 @ - |")),
        (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", Ok("GET / 1.0 @a - | Host=a")),
        (
            b"M-SEARCH /x?y=z HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("M-SEARCH /x?y=z 1.1 @a - keep | Host=a"),
        ),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("get / 1.1 @a - keep | Host=a")),
        (
            b"!#$%&'*+-.^_`|~09 / HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("!#$%&\\'*+-.^_`|~09 / 1.1 @a - keep | Host=a"),
        ),
        (b"CONNECTX / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("CONNECTX / 1.1 @a - keep | Host=a")),
        // Two spaces, white space around, or of another kind (RFC 9112 §3).
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Err(BadLine)),
        (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET\x0b/ HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1.1\x0c\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        // Methods that are not tokens.
        (b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET: / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b" / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b" HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1\r\n\r\n", Err(BadLine)),
        (b"GET\r\n\r\n", Err(BadLine)),
        (b"HTTP/1.1 200 OK\r\n\r\n", Err(BadLine)),
        // Versions (RFC 9112 §2.3).
        (b"GET /\r\n\r\n", Err(BadLine)),
        (b"GET / \r\n\r\n", Err(BadLine)),
        (b"GET / http/1.1\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1.10\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/01.1\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/1,1\r\n\r\n", Err(BadLine)),
        (b"GET / HTTPS/1.1\r\n\r\n", Err(BadLine)),
        (b"GET / XHTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET / HTTP/0.9\r\n\r\n", Err(VersionNotSupported)),
        (b"GET / HTTP/1.2\r\n\r\n", Err(VersionNotSupported)),
        (b"GET / HTTP/2.0\r\n\r\n", Err(VersionNotSupported)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(VersionNotSupported)),
        (b"G(T / HTTP/2.0\r\n\r\n", Err(BadLine)),
        // CONNECT, whatever else is wrong with it.
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", Err(MethodNotImplemented)),
        (b"CONNECT / HTTP/1.1\r\n\r\n", Err(MethodNotImplemented)),
        (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", Err(HeadError::MethodNotAllowed)),
        (b"trace / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("trace / 1.1 @a - keep | Host=a")),
        // Line ends.
        (b"GET / HTTP/1.1\nHost: a\r\n\r\n", Err(BareLineFeed)),
        (b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BareLineFeed)),
        (b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET\r / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"\0\r\n\r\n", Err(BadLine)),
    ]);
}

#[test]
fn targets_fit_their_methods_or_are_refused() {
    use HeadError::{BadHost, BadLine, BadTarget};
    check(&[
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Ok("OPTIONS * 1.1 @a - keep | Host=a")),
        (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (
            b"GET http://b:8/x HTTP/1.1\r\nHost: a\r\n\r\n",
            Ok("GET http://b:8/x 1.1 @b:8 - keep | Host=b:8"),
        ),
        (b"GET HTTPS://b HTTP/1.0\r\n\r\n", Ok("GET HTTPS://b 1.0 @b - |")),
        (b"GET http://b/ HTTP/1.1\r\n\r\n", Err(BadHost)),
        (b"GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n", Err(BadHost)),
        (b"GET http://u:p@b/ HTTP/1.1\r\nHost: b\r\n\r\n", Err(BadHost)),
        (b"GET http:///x HTTP/1.1\r\nHost: b\r\n\r\n", Err(BadHost)),
        (b"GET http://b\\@c/ HTTP/1.1\r\nHost: b\r\n\r\n", Err(BadHost)),
        (b"GET http:/b HTTP/1.1\r\nHost: b\r\n\r\n", Err(BadTarget)),
        (b"GET ws://b/ HTTP/1.1\r\nHost: b\r\n\r\n", Err(BadTarget)),
        (b"GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Err(BadTarget)),
        (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET //b/x HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET //b/x 1.1 @a - keep | Host=a")),
        (b"GET /a?b?c HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET /a?b?c 1.1 @a - keep | Host=a")),
        (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET /a?#b HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /\x1f HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadTarget)),
        (b"GET http://b/ c HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadLine)),
        (b"GET /a|b\"{}<>^`\\ HTTP/1.0\r\n\r\n", Ok("GET /a|b\\\"{}<>^`\\\\ 1.0 @ - |")),
    ]);
}

#[test]
fn host_stands_once_and_well_formed() {
    use HeadError::BadHost;
    check(&[
        (b"GET / HTTP/1.1\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.0\r\nHost:\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a\xc3\xa9\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a%00\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: [::1%25eth0]\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: [1:2]\r\n\r\n", Err(BadHost)),
        (
            b"GET / HTTP/1.1\r\nHOST:\t a.b:65535 \t\r\n\r\n",
            Ok("GET / 1.1 @a.b:65535 - keep | HOST=a.b:65535"),
        ),
        (
            b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            Ok("GET / 1.1 @[::1]:80 - keep | Host=[::1]:80"),
        ),
        (b"GET / HTTP/1.1\r\nHost: a:\r\n\r\n", Ok("GET / 1.1 @a: - keep | Host=a:")),
        (b"GET / HTTP/1.1\r\nHost: a.com.\r\n\r\n", Ok("GET / 1.1 @a.com. - keep | Host=a.com.")),
        (b"GET / HTTP/1.1\r\nHost: a.com..\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: a..com\r\n\r\n", Err(BadHost)),
        (b"GET / HTTP/1.1\r\nHost: .\r\n\r\n", Err(BadHost)),
        (b"GET http://b../ HTTP/1.1\r\nHost: a\r\n\r\n", Err(BadHost)),
    ]);
}

#[test]
fn header_lines_are_taken_apart_or_refused() {
    use HeadError::{BadHeader, BareLineFeed};
    check_fields(&[
        (b"A: b", Ok("- keep | Host=a A=b")),
        (b"A:b", Ok("- keep | Host=a A=b")),
        (b"A:", Ok("- keep | Host=a A=")),
        (b"A: \t ", Ok("- keep | Host=a A=")),
        (b"A:\t b c \t", Ok("- keep | Host=a A=b c")),
        (b"A: b\tc", Ok("- keep | Host=a A=b\\tc")),
        (b"A: \xc3\xa9\xff", Ok("- keep | Host=a A=\\xc3\\xa9\\xff")),
        (b"A: :b:", Ok("- keep | Host=a A=:b:")),
        (b"A::", Ok("- keep | Host=a A=:")),
        (b"!#$%&'*+-.^_`|~9: b", Ok("- keep | Host=a !#$%&\\'*+-.^_`|~9=b")),
        (b"A: 1\r\na: 2\r\nA: 1", Ok("- keep | Host=a A=1 a=2 A=1")),
        // White space before the colon, and lines that fold (RFC 9112 §5.1, §5.2).
        (b"A : b", Err(BadHeader)),
        (b"A\t: b", Err(BadHeader)),
        (b"A: b\r\n c", Err(BadHeader)),
        (b"A: b\r\n\tc", Err(BadHeader)),
        (b"A: b\r\n \r\nC: d", Err(BadHeader)),
        (b" A: b", Err(BadHeader)),
        (b"A b: c", Err(BadHeader)),
        (b": b", Err(BadHeader)),
        (b"A", Err(BadHeader)),
        (b"A\0: b", Err(BadHeader)),
        (b"\xc3\x89: b", Err(BadHeader)),
        (b"A\x7f: b", Err(BadHeader)),
        (b"A(: b", Err(BadHeader)),
        (b"A\r: b", Err(BadHeader)),
        // Bytes that are not allowed in a value (RFC 9110 §5.5).
        (b"A: b\0c", Err(BadHeader)),
        (b"A: \0", Err(BadHeader)),
        (b"A: b\x0bc", Err(BadHeader)),
        (b"A: \x0c", Err(BadHeader)),
        (b"A: b\x08", Err(BadHeader)),
        (b"A: \x1b", Err(BadHeader)),
        (b"A: \x7f", Err(BadHeader)),
        (b"A: b\rc", Err(BadHeader)),
        (b"A: b\r", Err(BadHeader)),
        (b"A: \r", Err(BadHeader)),
        (b"\r", Err(BadHeader)),
        (b"A: b\r\rB: c", Err(BadHeader)),
        (b"A: b\nB: c", Err(BareLineFeed)),
        (b"A: b\n", Err(BareLineFeed)),
        (b"A: b\n\r\nB: c", Err(BareLineFeed)),
    ]);
    check(&[
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err(BadHeader)),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\n", Err(BareLineFeed)),
        (b"GET / HTTP/1.1\r\nHost: a\n\r\n", Err(BareLineFeed)),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", Err(BadHeader)),
    ]);
}

#[test]
fn content_lengths_are_digits_and_stand_once() {
    use HeadError::{BadFraming, BadHeader};
    check_fields(&[
        (b"Content-Length: 5", Ok("5 keep | Host=a Content-Length=5")),
        (b"Content-Length:  5 ", Ok("5 keep | Host=a Content-Length=5")),
        (b"content-LENGTH: 005", Ok("5 keep | Host=a content-LENGTH=005")),
        (b"Content-Length: 0", Ok("- keep | Host=a Content-Length=0")),
        (
            b"Content-Length: 18446744073709551615",
            Ok("18446744073709551615 keep | Host=a Content-Length=18446744073709551615"),
        ),
        (b"Content-Length: 18446744073709551616", Err(BadFraming)),
        (b"Content-Length: 99999999999999999999999", Err(BadFraming)),
        (b"Content-Length: +5", Err(BadFraming)),
        (b"Content-Length: -5", Err(BadFraming)),
        (b"Content-Length: 0x5", Err(BadFraming)),
        (b"Content-Length: 5a", Err(BadFraming)),
        (b"Content-Length: 5.0", Err(BadFraming)),
        (b"Content-Length: 1_0", Err(BadFraming)),
        (b"Content-Length: 1e1", Err(BadFraming)),
        (b"Content-Length: \"5\"", Err(BadFraming)),
        (b"Content-Length: 5 5", Err(BadFraming)),
        (b"Content-Length: 5, 5", Err(BadFraming)),
        (b"Content-Length: 5, 6", Err(BadFraming)),
        (b"Content-Length: 5,", Err(BadFraming)),
        (b"Content-Length: ,5", Err(BadFraming)),
        (b"Content-Length: 5;", Err(BadFraming)),
        (b"Content-Length:", Err(BadFraming)),
        (b"Content-Length: \xd9\xa5", Err(BadFraming)),
        (b"Content-Length: 5\r\nContent-Length: 5", Err(BadFraming)),
        (b"Content-Length: 5\r\nContent-Length: 6", Err(BadFraming)),
        (b"Content-Length: 5\r\ncontent-length:", Err(BadFraming)),
        (b"Content-Length : 5", Err(BadHeader)),
        (b" Content-Length: 5", Err(BadHeader)),
        (b"Content-Length: 5\x0b", Err(BadHeader)),
        (b"Content_Length: 5", Ok("- keep | Host=a [Content_Length]=5")),
    ]);
}

#[test]
fn transfer_encoding_is_recognised_in_no_disguise() {
    use HeadError::BadHeader;
    check_fields(&[
        (b"Transfer-Encoding: chunked", Ok("chunked keep | Host=a [Transfer-Encoding]=chunked")),
        (b"transfer-encoding:\tCHUNKED ", Ok("chunked keep | Host=a [transfer-encoding]=CHUNKED")),
        (b"Transfer-Encoding : chunked", Err(BadHeader)),
        (b"Transfer-Encoding\t: chunked", Err(BadHeader)),
        (b" Transfer-Encoding: chunked", Err(BadHeader)),
        (b"X: y\r\n Transfer-Encoding: chunked", Err(BadHeader)),
        (b"Transfer-Encoding:\r\n chunked", Err(BadHeader)),
        (b"X: y\rTransfer-Encoding: chunked", Err(BadHeader)),
        (b"Transfer\0-Encoding: chunked", Err(BadHeader)),
        // Differs from the name by the bit that distinguishes upper from lower case.
        (b"Transfer\rEncoding: chunked", Err(BadHeader)),
        (b"Transfer-Encoding: \x0bchunked", Err(BadHeader)),
        (b"Transfer-Encoding: chunked\x0c", Err(BadHeader)),
        (b"Transfer-Encoding: chun\0ked", Err(BadHeader)),
        (b"Transfer_Encoding: chunked", Ok("- keep | Host=a [Transfer_Encoding]=chunked")),
    ]);
}

#[test]
fn transfer_codings_are_chunked_once_and_alone() {
    use HeadError::{BadFraming, CodingNotImplemented};
    check_fields(&[
        (b"Transfer-Encoding: xchunked", Err(BadFraming)),
        (b"Transfer-Encoding: chunkedx", Err(BadFraming)),
        (b"Transfer-Encoding: \"chunked\"", Err(BadFraming)),
        (b"Transfer-Encoding: chunked;a=b", Err(BadFraming)),
        (b"Transfer-Encoding: chunked chunked", Err(BadFraming)),
        (b"Transfer-Encoding: chunked, chunked", Err(BadFraming)),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Err(BadFraming)),
        (b"Transfer-Encoding: chunked, identity", Err(BadFraming)),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Err(BadFraming)),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding:", Err(BadFraming)),
        (b"Transfer-Encoding: ,chunked", Err(BadFraming)),
        (b"Transfer-Encoding: chunked,", Err(BadFraming)),
        (b"Transfer-Encoding:", Err(BadFraming)),
        (b"Transfer-Encoding: identity", Err(BadFraming)),
        (b"Transfer-Encoding: gzip", Err(BadFraming)),
        (b"Transfer-Encoding: ch\xc5\xabnked", Err(BadFraming)),
        (b"Transfer-Encoding: gzip, chunked", Err(CodingNotImplemented)),
        (b"Transfer-Encoding: identity, chunked", Err(CodingNotImplemented)),
        (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", Err(CodingNotImplemented)),
    ]);
}

#[test]
fn two_framings_at_once_are_refused() {
    use HeadError::BadFraming;
    check_fields(&[
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", Err(BadFraming)),
        (b"Content-Length: 0\r\nTransfer-Encoding: chunked", Err(BadFraming)),
        (b"Content-Length: 5\r\nTransfer-Encoding: identity", Err(BadFraming)),
        (b"Content-Length: 5\r\nTransfer-Encoding:", Err(BadFraming)),
    ]);
    check(&[
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(BadFraming)),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(BadFraming)),
        (b"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\n", Ok("POST / 1.0 @ 3 | Content-Length=3")),
        (b"GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\n", Ok("GET / 1.0 @ 3 | Content-Length=3")),
    ]);
}

#[test]
fn connection_options_are_read_from_all_lines() {
    check_fields(&[
        (b"Connection: close", Ok("- | Host=a [Connection]=close")),
        (b"Connection: CLOSE", Ok("- | Host=a [Connection]=CLOSE")),
        (b"Connection: keep-alive", Ok("- keep | Host=a [Connection]=keep-alive")),
        (b"Connection: keep-alive, close", Ok("- | Host=a [Connection]=keep-alive, close")),
        (
            b"Connection: x\r\nConnection:\t,close,",
            Ok("- | Host=a [Connection]=x [Connection]=,close,"),
        ),
        (b"Connection: closed", Ok("- keep | Host=a [Connection]=closed")),
        (b"Connection:", Ok("- keep | Host=a [Connection]=")),
        (b"Connection: Upgrade", Ok("- keep | Host=a [Connection]=Upgrade")),
        (b"Upgrade: websocket", Ok("- keep | Host=a [Upgrade]=websocket")),
        (
            b"Connection: keep-alive, UPGRADE\r\nUpgrade: WebSocket",
            Ok("- keep upgrade | Host=a [Connection]=keep-alive, UPGRADE [Upgrade]=WebSocket"),
        ),
        // Only WebSocket is passed on, even if the client offers other protocols too.
        (
            b"Connection: upgrade\r\nUpgrade: h2c",
            Ok("- keep | Host=a [Connection]=upgrade [Upgrade]=h2c"),
        ),
        (
            b"Connection: upgrade\r\nUpgrade: h2c, websocket",
            Ok("- keep upgrade | Host=a [Connection]=upgrade [Upgrade]=h2c, websocket"),
        ),
        (
            b"Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket",
            Ok("- keep upgrade | Host=a [Connection]=upgrade [Upgrade]=h2c [Upgrade]=websocket"),
        ),
        (
            b"Connection: upgrade\r\nUpgrade: websocketx",
            Ok("- keep | Host=a [Connection]=upgrade [Upgrade]=websocketx"),
        ),
        (
            b"A: 1\r\nConnection: a , b\r\nB: 2\r\nC: 3",
            Ok("- keep | Host=a [A]=1 [Connection]=a , b [B]=2 C=3"),
        ),
        (b"Connection: X\r\nX: 1\r\nx: 2", Ok("- keep | Host=a [Connection]=X [X]=1 [x]=2")),
        // A client cannot remove the fields that the gateway itself interprets.
        (
            b"Connection: host, content-length\r\nContent-Length: 2",
            Ok("2 keep | Host=a [Connection]=host, content-length Content-Length=2"),
        ),
        (
            b"Connection: x-forwarded-for\r\nX-Forwarded-For: b",
            Ok("- keep | Host=a [Connection]=x-forwarded-for X-Forwarded-For=b"),
        ),
        (
            b"Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: close",
            Ok("- keep | Host=a [Keep-Alive]=5 [TE]=trailers [Proxy-Connection]=close"),
        ),
    ]);
    check(&[
        (
            b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            Ok("GET / 1.0 @ - keep | [Connection]=keep-alive"),
        ),
        (
            b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
            Ok("GET / 1.0 @ - | [Connection]=keep-alive [Connection]=close"),
        ),
        (
            b"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: h\r\n\r\n",
            Ok("GET / 1.0 @ - | [Connection]=upgrade [Upgrade]=h"),
        ),
    ]);
}

#[test]
fn names_that_only_the_gateway_uses_are_for_nobody_in_any_spelling() {
    let separators = ["-", "_", ".", "!", "~", "+", "'", "|"];
    let reserved = [
        "X-Consumer-Username",
        "X-Credential-Identifier",
        "X-Consumer-Custom-ID",
        "X-Consumer-Groups",
        "X-Consumer-",
        "X-Credential-x",
        "X-Real-IP",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "Content-Length",
        "Transfer-Encoding",
        "Keep-Alive",
        "Proxy-Connection",
        "HTTP2-Settings",
    ];
    let mixed = |name: &str, separator: &str| name.replacen('-', separator, 1);
    let mut spellings = Vec::new();
    for name in reserved {
        for separator in &separators[1..] {
            spellings.extend([name.replace('-', separator), mixed(name, separator)]);
        }
    }
    let identity = &reserved[..6];
    spellings.extend(identity.iter().map(|name| (*name).to_owned()));
    spellings.push("http2-settings".into());
    for name in spellings.iter().flat_map(|name| [name.clone(), name.to_ascii_uppercase()]) {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: v\r\nX-Other_Name: w\r\n\r\n");
        let mut head = RequestHead::default();
        assert_eq!(head.parse(bytes.as_bytes(), &HeadLimits::default()), Ok(true), "{name}");
        let visible: Vec<&[u8]> =
            head.fields.visible().map(|field| field.name().bytes_in(bytes.as_bytes())).collect();
        assert_eq!(visible, [&b"Host"[..], b"X-Other_Name"], "{name}");
        assert_eq!(head.fields.find(name.as_bytes(), bytes.as_bytes()), None, "{name}");
        assert_eq!(head.body, crate::BodyLength::None, "{name}");
    }
    check_fields(&[
        // Resembles a reserved name, but is not one.
        (b"X-Consumer: a", Ok("- keep | Host=a X-Consumer=a")),
        (b"X-Consumers: a", Ok("- keep | Host=a X-Consumers=a")),
        (b"X-Credential: a", Ok("- keep | Host=a X-Credential=a")),
        (b"XxConsumer-Username: a", Ok("- keep | Host=a XxConsumer-Username=a")),
        // A name with spaces is not a token.
        (b"X Consumer Username: a", Err(HeadError::BadHeader)),
        (b"X-Consumer(Username: a", Err(HeadError::BadHeader)),
        (b"X-Real\xc2IP: a", Err(HeadError::BadHeader)),
    ]);
}

#[test]
fn what_connection_names_is_for_nobody() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: 1\r\nConnection: x-tenant, cookie\r\nCookie: c\r\nx-tenant: 2\r\n\r\n";
    let mut head = RequestHead::default();
    assert_eq!(head.parse(bytes, &HeadLimits::default()), Ok(true));
    assert_eq!(head.fields.find(b"x-tenant", bytes), None);
    assert_eq!(head.fields.find(b"cookie", bytes), Some(&b"c"[..]));
    assert_eq!((head.fields.len(), head.fields.visible().count()), (5, 3));
}

#[test]
fn what_could_mean_two_things_stands_once() {
    for name in [
        "Authorization",
        "If-Match",
        "If-None-Match",
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Range",
        "Content-Range",
    ] {
        let once = format!("GET / HTTP/1.0\r\n{name}: a\r\n\r\n");
        let other = name.to_ascii_lowercase();
        let twice = format!("GET / HTTP/1.0\r\n{name}: a\r\nA: b\r\n{other}: c\r\n\r\n");
        let parse =
            |text: &str| RequestHead::default().parse(text.as_bytes(), &HeadLimits::default());
        assert_eq!(parse(&once), Ok(true), "{name}");
        assert_eq!(parse(&twice), Err(HeadError::BadHeader), "{name}");
    }
    check_fields(&[
        (b"Cookie: a\r\nCookie: b", Ok("- keep | Host=a Cookie=a Cookie=b")),
        (b"If-Match: a\r\nIf-None-Match: a", Ok("- keep | Host=a If-Match=a If-None-Match=a")),
    ]);
}

#[test]
fn hosts_are_compared_without_case_and_the_last_dot() {
    for (lines, expected, host) in [
        ("GET / HTTP/1.1\r\nHost: A.Com", "a.com", "a.com"),
        ("GET / HTTP/1.1\r\nHost: a.com.", "a.com", "a.com"),
        ("GET / HTTP/1.1\r\nHost: a.com.:80", "a.com:80", "a.com"),
        ("GET / HTTP/1.1\r\nHost: [::1]:80", "[::1]:80", "[::1]"),
        ("GET http://B.com.:8/ HTTP/1.1\r\nHost: a", "b.com:8", "b.com"),
        ("GET / HTTP/1.0\r\nA: b", "", ""),
    ] {
        let bytes = format!("{lines}\r\n\r\n").into_bytes();
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&bytes, &HeadLimits::default()), Ok(true), "{lines}");
        let mut out = Vec::new();
        head.write_host(&bytes, &mut out);
        assert_eq!(out, expected.as_bytes(), "{lines}");
        assert_eq!(&out[..head.host_bytes as usize], host.as_bytes(), "{lines}");
    }
}

#[test]
fn an_absolute_target_is_reduced_to_path_and_query() {
    for (target, expected) in [
        ("/a?b=c", "/a?b=c"),
        ("//a/%2e?", "//a/%2e?"),
        ("http://h.com/x?y", "/x?y"),
        ("HTTPS://h.com:8/x", "/x"),
        ("http://h.com", "/"),
        ("http://h.com?q=1", "/?q=1"),
        ("http://h.com?", "/?"),
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&bytes, &HeadLimits::default()), Ok(true), "{target}");
        assert_eq!(&*head.origin_form(&bytes), expected.as_bytes(), "{target}");
    }
}

#[test]
fn connection_options_are_limited_in_number() {
    for (count, is_accepted) in
        [(CONNECTION_OPTIONS_MAX, true), (CONNECTION_OPTIONS_MAX + 1, false)]
    {
        let options = vec!["x"; count].join(",");
        let bytes = format!("GET / HTTP/1.0\r\nConnection: {options}\r\n\r\n");
        let found = feed_in_every_split(bytes.as_bytes(), RequestFeed::default);
        let facts = format!("GET / 1.0 @ - | [Connection]={options}");
        assert_eq!(found, if is_accepted { Ok(Some(facts)) } else { Err(HeadError::BadHeader) });
    }
}

#[test]
fn expectations_are_met_ignored_or_refused() {
    use HeadError::ExpectationFailed;
    check_fields(&[
        (
            b"Content-Length: 1\r\nExpect: 100-Continue",
            Ok("1 keep continue | Host=a Content-Length=1 Expect=100-Continue"),
        ),
        (
            b"Expect: 100-continue\r\nTransfer-Encoding: chunked",
            Ok("chunked keep continue | Host=a Expect=100-continue [Transfer-Encoding]=chunked"),
        ),
        (b"Expect: 100-continue", Ok("- keep | Host=a Expect=100-continue")),
        (
            b"Expect: 100-continue\r\nExpect: 100-continue",
            Ok("- keep | Host=a Expect=100-continue Expect=100-continue"),
        ),
        (b"Expect: 100-continue\r\nExpect: x", Err(ExpectationFailed)),
        (b"Expect: 100-continue, x", Err(ExpectationFailed)),
        (b"Expect: 200-ok", Err(ExpectationFailed)),
        (b"Expect:", Err(ExpectationFailed)),
    ]);
    check(&[(
        b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
        Ok("POST / 1.0 @ 1 | Expect=100-continue Content-Length=1"),
    )]);
}

#[test]
fn limits_hold_exactly() {
    let tight = |line_bytes, fields_bytes, header_count| HeadLimits {
        line_bytes,
        fields_bytes,
        header_count,
    };
    let bytes = b"GET / HTTP/1.0\r\nA: b\r\nC: d\r\n\r\n";
    let facts = "GET / 1.0 @ - | A=b C=d";
    for (limits, expected) in [
        (tight(14, 14, 2), Ok(facts)),
        (tight(60_000, 14, 2), Ok(facts)),
        (tight(13, 14, 2), Err(HeadError::LineTooLong)),
        (tight(0, 14, 2), Err(HeadError::LineTooLong)),
        (tight(14, 13, 2), Err(HeadError::HeadTooLong)),
        (tight(60_000, 13, 2), Err(HeadError::HeadTooLong)),
        (tight(14, 0, 2), Err(HeadError::HeadTooLong)),
        (tight(14, 14, 1), Err(HeadError::TooManyHeaders)),
        (tight(14, 14, 0), Err(HeadError::TooManyHeaders)),
        (tight(usize::MAX, usize::MAX, usize::MAX), Ok(facts)),
    ] {
        check_with(limits, bytes, expected);
    }
    // The earliest byte that breaks a rule decides, not the order of the checks.
    check_with(tight(5, 0, 1), b"GET / HTTP/1.0\n", Err(HeadError::LineTooLong));
    check_with(tight(5, 100, 1), b"GET /\n", Err(HeadError::BareLineFeed));
    check_with(tight(5, 100, 1), b"GET / H\n", Err(HeadError::LineTooLong));
}

#[test]
fn limits_beyond_the_walls_count_as_the_walls() {
    let limits =
        HeadLimits { line_bytes: usize::MAX, fields_bytes: usize::MAX, header_count: usize::MAX };
    let parse = |bytes: &[u8]| RequestHead::default().parse(bytes, &limits);
    let long_value = |bytes: usize| {
        let frame = "GET / HTTP/1.0\r\nA: \r\n\r\n".len();
        format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "x".repeat(bytes - frame)).into_bytes()
    };
    assert_eq!(parse(&long_value(HEAD_BYTES_MAX)), Ok(true));
    assert_eq!(parse(&long_value(HEAD_BYTES_MAX + 1)), Err(HeadError::HeadTooLong));
    let many = |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert_eq!(parse(many(HEADER_COUNT_MAX).as_bytes()), Ok(true));
    assert_eq!(parse(many(HEADER_COUNT_MAX + 1).as_bytes()), Err(HeadError::TooManyHeaders));
}

#[test]
fn a_few_leading_empty_lines_are_skipped() {
    let head = "GET / HTTP/1.0\r\nA: b\r\n\r\n";
    for count in 0..=LEADING_EMPTY_LINES_MAX {
        let bytes = "\r\n".repeat(count) + head;
        check(&[(bytes.as_bytes(), Ok("GET / 1.0 @ - | A=b"))]);
    }
    let bytes = "\r\n".repeat(LEADING_EMPTY_LINES_MAX + 1) + head;
    check(&[(bytes.as_bytes(), Err(HeadError::BadLine))]);
    check(&[(b"\r\r\nGET / HTTP/1.0\r\n\r\n", Err(HeadError::BadLine))]);
    check(&[(b"\r\n\nGET / HTTP/1.0\r\n\r\n", Err(HeadError::BareLineFeed))]);
    check(&[(b"\r\n \r\nGET / HTTP/1.0\r\n\r\n", Err(HeadError::BadLine))]);
}

#[test]
fn leading_empty_lines_may_be_dropped_by_the_caller_at_any_split() {
    for lines in 0..7 {
        let bytes = "\r\n".repeat(lines) + "GET / HTTP/1.0\r\n\r\n";
        let (mut head, mut buffer) = (RequestHead::default(), Vec::new());
        let mut is_whole = false;
        for byte in bytes.bytes() {
            buffer.push(byte);
            buffer.drain(..RequestHead::leading_empty_bytes(&buffer));
            is_whole =
                head.parse(&buffer, &HeadLimits::default()).expect("the head is well-formed");
        }
        assert!(is_whole);
        assert_eq!(head.method.bytes_in(&buffer), b"GET");
    }
}

#[test]
fn a_value_is_ready_for_the_next_request_after_reset() {
    let mut head = RequestHead::default();
    let first = b"POST /a HTTP/1.1\r\nHost: a\r\nHost2: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close, upgrade\r\nUpgrade: h\r\n\r\n";
    assert_eq!(head.parse(first, &HeadLimits::default()), Ok(true));
    head.reset();
    let second = b"GET /b HTTP/1.0\r\n\r\n";
    assert_eq!(head.parse(second, &HeadLimits::default()), Ok(true));
    assert_eq!(crate::testing::request_facts(&head, second), "GET /b 1.0 @ - |");
    assert_eq!(head.head_bytes, second.len());
}

#[test]
fn a_refused_head_is_refused_before_its_end() {
    for (bytes, expected) in [
        (&b"\x16\x03\x01\x02\x00\n"[..], HeadError::BadLine),
        (b"GET / HTTP/3.0\r\n", HeadError::VersionNotSupported),
        (b"GET / HTTP/1.1\r\nA : b\r\n", HeadError::BadHeader),
    ] {
        let found = RequestHead::default().parse(bytes, &HeadLimits::default());
        assert_eq!(found, Err(expected), "{}", printable(bytes));
    }
}
