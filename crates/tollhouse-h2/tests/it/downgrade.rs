//! No translation to HTTP/1 yields a second request, or another field: what the codec accepts is
//! written as HTTP/1.1 and read by the strict parser of `tollhouse-http`.

use crate::peer::{Script, Subject, Told};
use proptest::prelude::*;
use tollhouse_h2::Limits;
use tollhouse_h2::frame::flag;
use tollhouse_http::{BodyLength, HeadLimits, RequestHead};

/// Texts that like to be taken for something else.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let nasty: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"\t",
        b":",
        b"/",
        b"?",
        b"#",
        b"@",
        b",",
        b"a",
        b"GET",
        b"HTTP/1.1",
        b"Host: b",
        b"chunked",
        b"5",
        b"*",
        b"\x7f",
        b"\x80",
        b"[::1]",
        b"%0d%0a",
    ];
    let piece = prop_oneof![
        4 => proptest::sample::select(nasty).prop_map(<[u8]>::to_vec),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// A good text, or one of the above.
fn mostly(good: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        5 => proptest::sample::select(good).prop_map(<[u8]>::to_vec),
        1 => any_text(),
    ]
}

fn any_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = mostly(&[
        b"host",
        b"cookie",
        b"content-length",
        b"te",
        b"connection",
        b"transfer-encoding",
        b"x-a",
        b"upgrade",
        b"expect",
        b":path",
    ]);
    (name, mostly(&[b"a", b"0", b"trailers", b"a=b", b"chunked", b""]))
}

fn any_head() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    (
        mostly(&[b"GET", b"POST", b"OPTIONS", b"get"]),
        mostly(&[b"http", b"https"]),
        mostly(&[b"/", b"/a?b=c", b"*", b"//a"]),
        mostly(&[b"a", b"a:80", b"[::1]:8080", b"a.b."]),
        proptest::collection::vec(any_field(), 0..4),
    )
        .prop_map(|(method, scheme, path, authority, fields)| {
            let names = [&b":method"[..], b":scheme", b":path", b":authority"];
            let values = [method, scheme, path, authority];
            let pseudo = names.into_iter().map(<[u8]>::to_vec).zip(values);
            pseudo.chain(fields).collect()
        })
}

fn block(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            out.push(u8::try_from(text.len()).unwrap());
            out.extend_from_slice(text);
        }
    }
    out
}

/// The least of a translation: pseudo-header fields to the first line and `Host`, crumbs joined.
fn to_http1(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let find = |wanted: &str| fields.iter().find(|(name, _)| name == wanted.as_bytes());
    let value = |wanted: &str| find(wanted).map(|(_, value)| &value[..]).unwrap_or_default();
    let mut out = [value(":method"), b" ", value(":path"), b" HTTP/1.1\r\n"].concat();
    let host = if find(":authority").is_some() { value(":authority") } else { value("host") };
    out.extend([b"Host: ", host, b"\r\n"].concat());
    let is_cookie = |name: &[u8]| name == b"cookie";
    let regular = fields.iter().filter(|(name, _)| {
        name[0] != b':' && name != b"host" && !is_cookie(name) && name != b"content-length"
    });
    for (name, value) in regular {
        out.extend([&name[..], b": ", value, b"\r\n"].concat());
    }
    let crumbs: Vec<&[u8]> =
        fields.iter().filter(|(name, _)| is_cookie(name)).map(|(_, value)| &value[..]).collect();
    if !crumbs.is_empty() {
        out.extend([b"cookie: ", &crumbs.join(&b"; "[..])[..], b"\r\n"].concat());
    }
    out.extend(b"\r\n");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_accepted_request_is_exactly_one_request_of_http1(fields in any_head()) {
        // Lengths stay below the prefix of seven bits.
        prop_assume!(fields.iter().all(|(name, value)| name.len() < 127 && value.len() < 127));
        let mut subject = Subject::server(Limits::default());
        let head = block(&fields);
        subject.feed(&Script::client().head(1, flag::END_STREAM, &head), usize::MAX);
        prop_assert_eq!(subject.error, None);
        let Some(Told::Request { .. }) = subject.told.last() else { return Ok(()) };
        let text = to_http1(&fields);
        let mut parsed = RequestHead::default();
        let is_whole = parsed.parse(&text, &HeadLimits::default());
        let shown = String::from_utf8_lossy(&text);
        if is_whole == Err(tollhouse_http::HeadError::ExpectationFailed) {
            // Understood, and not to be had.
            return Ok(());
        }
        prop_assert_eq!(is_whole, Ok(true), "{}", shown);
        prop_assert_eq!(parsed.head_bytes, text.len(), "{}", shown);
        prop_assert!(parsed.body == BodyLength::None, "{}", shown);
        prop_assert_eq!(parsed.fields.len(), text.split(|byte| *byte == b'\n').count() - 3);
        prop_assert_eq!(parsed.method.bytes_in(&text), &fields[0].1[..]);
    }
}

#[test]
fn most_heads_of_the_property_are_accepted_or_it_says_nothing() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut accepted = 0;
    for _ in 0..500 {
        let fields = any_head().new_tree(&mut runner).unwrap().current();
        if fields.iter().any(|(name, value)| name.len() > 126 || value.len() > 126) {
            continue;
        }
        let mut subject = Subject::server(Limits::default());
        subject.feed(&Script::client().head(1, flag::END_STREAM, &block(&fields)), usize::MAX);
        accepted += usize::from(subject.told.len() > 1);
    }
    assert!(accepted > 50, "{accepted}");
}
