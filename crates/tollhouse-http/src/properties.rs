//! Properties that hold for any bytes: no panic, a result independent of splits, and no accepted
//! input that another strict parser reads differently.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::testing::{RequestFeed, ResponseFeed, feed_at_cuts, printable};
use crate::{Fields, HeadLimits, RequestHead, ResponseHead};

/// Fragments of heads, well-formed and malformed.
const PIECES: &[&[u8]] = &[
    b"GET ",
    b"POST ",
    b"OPTIONS ",
    b"/",
    b"/a?b=c",
    b"*",
    b"http://h/x",
    b" ",
    b"HTTP/1.1",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 304\r\n",
    b"HTTP/1.1 204 ",
    b"Host: a\r\n",
    b"Host: b:80\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: ",
    b"5",
    b",",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding",
    b": ",
    b"chunked",
    b"gzip, ",
    b"Connection: ",
    b"close",
    b"keep-alive",
    b"upgrade",
    b"Upgrade: h\r\n",
    b"Expect: 100-continue\r\n",
    b"X-A: b\r\n",
    b"X",
    b":",
    b"\t",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"\x7f",
    b"\xff",
    b"\xc3\xa9",
    b"%",
    b"#",
    b"@",
    b"[::1]",
];

/// Bytes that start like a head, then contain random pieces and random single bytes.
fn heads(starts: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..12);
    let changes = prop::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    (prop::sample::select(starts), pieces, changes, any::<bool>()).prop_map(
        |(start, pieces, changes, is_ended)| {
            let mut bytes = [start, &pieces.concat()].concat();
            if is_ended {
                bytes.extend_from_slice(b"\r\n\r\n");
            }
            for (place, byte) in changes {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] = byte;
                }
            }
            bytes
        },
    )
}

/// Mostly well-formed heads, with odd names and values and an occasional invalid byte.
fn orderly_heads(starts: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        30 => b' '..=b'~',
        3 => 0x80..=0xffu8,
        2 => Just(b'\t'),
        1 => prop::sample::select(&b"\r\n\0\x7f\x0b"[..]),
    ];
    let name = "[!#-'*+.^-z|~0-9-]{1,12}";
    let line = (name, "[ \t]{0,2}", prop::collection::vec(byte, 0..12), "[ \t]{0,2}");
    (prop::sample::select(starts), prop::collection::vec(line, 0..5)).prop_map(|(start, lines)| {
        let mut bytes = start.to_vec();
        for (name, before, value, after) in lines {
            let line =
                [name.as_bytes(), b":", before.as_bytes(), &value, after.as_bytes(), b"\r\n"];
            bytes.extend(line.concat());
        }
        bytes.extend_from_slice(b"\r\nrest");
        bytes
    })
}

/// Starts of requests; the rest of the head follows.
const REQUEST_STARTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n",
    b"POST /x HTTP/1.0\r\n",
    b"\r\nGET http://h/x?y HTTP/1.0\r\nA: b\r\n",
];

/// Starts of response heads to which random bytes are appended.
const RESPONSE_STARTS: &[&[u8]] =
    &[b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404 x\r\nA: b\r\n", b"HTTP/1.1 100\r\n"];

fn requests() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![heads(&[b""]), heads(REQUEST_STARTS), orderly_heads(REQUEST_STARTS)]
}

fn responses() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![heads(&[b""]), heads(RESPONSE_STARTS), orderly_heads(RESPONSE_STARTS)]
}

fn places(bytes: &[u8], cuts: &[Index]) -> Vec<usize> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    places
}

fn tight_limits() -> impl Strategy<Value = HeadLimits> {
    (0..60usize, 0..120usize, 0..4usize).prop_map(|(line_bytes, fields_bytes, header_count)| {
        HeadLimits { line_bytes, fields_bytes, header_count }
    })
}

fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}

/// Asserts that `fields` equal the fields of the other parser.
fn assert_same_fields(fields: &Fields, others: &[httparse::Header<'_>], bytes: &[u8]) {
    assert_eq!(fields.len(), others.len(), "{}", printable(bytes));
    for (field, other) in fields.iter().zip(others) {
        assert_eq!(field.name().bytes_in(bytes), other.name.as_bytes(), "{}", printable(bytes));
        assert_eq!(field.value().bytes_in(bytes), other.value, "{}", printable(bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn splits_never_matter_to_requests(
        bytes in requests(),
        limits in prop_oneof![Just(HeadLimits::default()), tight_limits()],
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let new = || RequestFeed { limits, ..RequestFeed::default() };
        let whole = feed_at_cuts(&bytes, &[], &new);
        prop_assert_eq!(feed_at_cuts(&bytes, &places(&bytes, &cuts), &new), whole);
    }

    #[test]
    fn splits_never_matter_to_responses(
        bytes in responses(),
        limits in prop_oneof![Just(HeadLimits::default()), tight_limits()],
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let new = || ResponseFeed { head: ResponseHead::default(), limits, method: "GET" };
        let whole = feed_at_cuts(&bytes, &[], &new);
        prop_assert_eq!(feed_at_cuts(&bytes, &places(&bytes, &cuts), &new), whole);
    }

    #[test]
    fn accepted_requests_are_read_alike_by_another_parser(bytes in requests()) {
        let mut head = RequestHead::default();
        if head.parse(&bytes, &HeadLimits::default()) == Ok(true) {
            let mut headers = [httparse::EMPTY_HEADER; 100];
            let mut other = httparse::Request::new(&mut headers);
            let whole = httparse::Status::Complete(head.head_bytes);
            prop_assert_eq!(other.parse(&bytes), Ok(whole), "{}", printable(&bytes));
            let text = |text: Option<&str>| text.unwrap_or_default().as_bytes().to_vec();
            prop_assert_eq!(head.method.bytes_in(&bytes), text(other.method));
            prop_assert_eq!(head.target.bytes_in(&bytes), text(other.path));
            if let Some(authority) = head.parts.authority {
                // The host of an absolute target replaces the one in `Host`.
                let sent = other.headers.iter_mut().find(|sent| is_host(sent.name));
                sent.into_iter().for_each(|sent| sent.value = authority.bytes_in(&bytes));
            }
            assert_same_fields(&head.fields, other.headers, &bytes);
        }
    }

    #[test]
    fn accepted_responses_are_read_alike_by_another_parser(bytes in responses()) {
        let mut head = ResponseHead::default();
        if head.parse(&bytes, &HeadLimits::default(), b"GET") == Ok(true) {
            let mut headers = [httparse::EMPTY_HEADER; 100];
            let mut other = httparse::Response::new(&mut headers);
            let whole = httparse::Status::Complete(head.head_bytes);
            prop_assert_eq!(other.parse(&bytes), Ok(whole), "{}", printable(&bytes));
            prop_assert_eq!(Some(head.status), other.code);
            assert_same_fields(&head.fields, other.headers, &bytes);
        }
    }

    #[test]
    fn any_bytes_are_answered_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        shrunk in any::<Index>(),
    ) {
        let (mut request, mut response) = (RequestHead::default(), ResponseHead::default());
        // A buffer that shrank violates the contract, but must not cause a panic.
        for part in [&bytes[..], &bytes[..shrunk.index(bytes.len() + 1)], b"", &bytes[..]] {
            let _ = request.parse(part, &HeadLimits::default());
            let _ = response.parse(part, &HeadLimits::default(), b"GET");
        }
    }
}
