//! Tests that a head written from any checked elements parses back to the same elements.

use proptest::prelude::*;

use super::*;
use crate::{BodyLength, HeadLimits, RequestHead};

const LIMITS: HeadLimits =
    HeadLimits { line_bytes: 60_000, fields_bytes: 65_535, header_count: 100 };

/// Texts that would begin a line or an element if they were accepted.
const BREAKS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"#",
    b"?",
    b"\r\n\r\nGET / HTTP/1.1\r\n",
    b" HTTP/1.1\r\nHost: x\r\n",
    b"\0",
    b"\x7f",
    b"\xc2\xa0",
    b":",
    b"[::1]",
    b"@",
];

/// Strategy for texts: some are valid elements, and many would end a line or begin one.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z0-9/?&=.:%_-]{0,8}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => prop::sample::select(BREAKS).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_request_parses_back_to_its_elements(
        (method, path, host) in (texts(), texts(), texts()),
        (name, value) in (texts(), texts()),
        length in prop::option::of(1..u64::MAX),
    ) {
        let target = [b"/", path.as_slice()].concat();
        let (Some(wanted), Some(form), Some(authority)) =
            (Method::parse(&method), OriginForm::parse(&target), Authority::parse(&host))
        else {
            return Ok(());
        };
        let line = FieldName::parse(&name).zip(FieldValue::parse(&value));
        let framing = length.map_or(Framing::Omitted, Framing::Length);
        let mut out = Vec::new();
        let mut writer = HeadWriter::request(&mut out, wanted, form, authority);
        if let Some((name, value)) = line {
            writer.field(name, value);
        }
        writer.framing(framing);
        writer.end();

        let mut head = RequestHead::default();
        prop_assert_eq!(head.parse(&out, &LIMITS), Ok(true), "{}", out.escape_ascii());
        prop_assert_eq!(head.head_bytes, out.len());
        prop_assert_eq!(head.method.bytes_in(&out), method.as_slice());
        prop_assert_eq!(head.target.bytes_in(&out), target.as_slice());
        prop_assert_eq!(head.authority.bytes_in(&out), host.as_slice());
        prop_assert_eq!(head.body, length.map_or(BodyLength::None, BodyLength::Known));
        let lines = 1 + usize::from(line.is_some()) + usize::from(length.is_some());
        prop_assert_eq!(head.fields.len(), lines);
    }

    #[test]
    fn a_response_parses_back_to_its_elements(
        status in any::<u16>(), reason in texts(), name in texts(), value in texts(),
    ) {
        let (Some(status), Some(phrase)) = (Status::new(status), FieldValue::parse(&reason)) else {
            return Ok(());
        };
        let mut out = Vec::new();
        let mut writer = HeadWriter::response(&mut out, status, phrase);
        let line = FieldName::parse(&name).zip(FieldValue::parse(&value));
        if let Some((name, value)) = line {
            writer.field(name, value);
        }
        writer.end();

        let mut head = ResponseHead::default();
        prop_assert_eq!(head.parse(&out, &LIMITS, b"GET"), Ok(true), "{}", out.escape_ascii());
        prop_assert_eq!((head.head_bytes, head.status), (out.len(), status.number()));
        prop_assert_eq!(head.reason.bytes_in(&out), reason.as_slice());
        prop_assert_eq!(head.fields.len(), usize::from(line.is_some()));
    }
}

#[test]
fn elements_that_could_be_two_are_none() {
    for text in ["", "GET POST", "GET\r\n", "G:T", "CONNECT", "\u{e9}"] {
        assert_eq!(Method::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["", "a", "*", "http://a/", "/a b", "/a\n", "/a?b c", "/a?b#c", "/\u{e9}", "/\0"] {
        assert_eq!(OriginForm::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["", "a b", "a\r\nb", "u@a", "a,b", "a:b"] {
        assert_eq!(Authority::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["", "a b", "a:", "a\r", "\u{e9}"] {
        assert_eq!(FieldName::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["a\rb", "a\n", "\0", "0123456789abcdef\t\x7f"] {
        assert_eq!(FieldValue::parse(text.as_bytes()), None, "{text:?}");
    }
    for number in [0, 7, 99, 1000, u16::MAX] {
        assert_eq!(Status::new(number), None, "{number}");
    }
}

#[test]
fn numbers_read_as_usual() {
    let mut out = Vec::new();
    for number in [0, 7, 9, 10, 99, 100, 104, 999, 1_000, 2_048, 9_999, 10_000, 65_535, u64::MAX] {
        out.clear();
        write_decimal(&mut out, number);
        assert_eq!(out, number.to_string().as_bytes());
    }
}

#[test]
fn what_a_head_said_about_framing_is_never_copied() {
    let text = b"POST / HTTP/1.1\r\nHost: a\r\nA: 1\r\nContent-Length:\t007\r\nB:  2 \r\n\r\nbody";
    let mut head = RequestHead::default();
    assert_eq!(head.parse(text, &LIMITS), Ok(true));
    let mut out = Vec::new();
    let host = Authority::from_head(&head, text).expect("a host");
    let (method, target) = (Method::from_head(&head, text), OriginForm::from_head(&head, text));
    let mut writer = HeadWriter::request(&mut out, method, target, host);
    writer.copied(&head.fields, &text[..head.head_bytes], |field| field.known != Known::Host);
    writer.framing(Framing::Length(7));
    writer.end();
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB:  2 \r\nContent-Length: 7\r\n\r\n";
    assert_eq!(out.escape_ascii().to_string(), expected.escape_default().to_string());
}

#[test]
fn a_trace_context_is_a_line_of_its_ids() {
    let mut ids = TraceIds { trace_id: &[0xab; 16], span_id: &[0x01; 8], is_sampled: true };
    let mut out = Vec::new();
    HeadWriter { out: &mut out }.traceparent(&ids);
    ids.is_sampled = false;
    HeadWriter { out: &mut out }.traceparent(&ids);
    let line =
        |flags| format!("traceparent: 00-{}-{}-{flags}\r\n", "ab".repeat(16), "01".repeat(8));
    assert_eq!(String::from_utf8(out).expect("text"), line("01") + &line("00"));
}
