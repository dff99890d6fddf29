//! Headers of B3: the single header `b3`, and the five `x-b3-…` headers.

use tollhouse_stdx::hex::{self, Letters};

use crate::context::{SpanId, TraceId};
use crate::propagation::Verdict;

pub const SINGLE: &str = "b3";
pub const TRACE_ID: &str = "x-b3-traceid";
pub const SPAN_ID: &str = "x-b3-spanid";
pub const PARENT_SPAN_ID: &str = "x-b3-parentspanid";
pub const SAMPLED: &str = "x-b3-sampled";
pub const FLAGS: &str = "x-b3-flags";

/// All headers of B3.
pub const NAMES: [&str; 6] = [SINGLE, TRACE_ID, SPAN_ID, PARENT_SPAN_ID, SAMPLED, FLAGS];

/// Context that B3 headers carry; each part may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct B3 {
    pub ids: Option<(TraceId, SpanId)>,
    pub parent: Option<SpanId>,
    pub verdict: Verdict,
}

/// Why a header of B3 is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidB3;

/// Parses the single header: `<trace>-<span>[-<sampled>[-<parent>]]`, or only `<sampled>`.
///
/// # Errors
/// If the value has another form.
pub fn parse_single(value: &[u8]) -> Result<B3, InvalidB3> {
    let mut parts = value.split(|byte| *byte == b'-');
    let first = parts.next().unwrap_or_default();
    let Some(second) = parts.next() else {
        let verdict = verdict(first).ok_or(InvalidB3)?;
        return Ok(B3 { verdict, ..B3::default() });
    };
    let ids = trace_id(first).zip(span_id(second)).ok_or(InvalidB3)?;
    let verdict = match parts.next() {
        Some(text) => verdict(text).ok_or(InvalidB3)?,
        None => Verdict::Open,
    };
    let parent = match parts.next() {
        Some(text) => Some(span_id(text).ok_or(InvalidB3)?),
        None => None,
    };
    match parts.next() {
        Some(_) => Err(InvalidB3),
        None => Ok(B3 { ids: Some(ids), parent, verdict }),
    }
}

/// Values of the `x-b3-…` headers, as received.
#[derive(Debug, Clone, Copy, Default)]
pub struct MultiHeaders<'h> {
    pub trace_id: Option<&'h [u8]>,
    pub span_id: Option<&'h [u8]>,
    pub parent: Option<&'h [u8]>,
    pub sampled: Option<&'h [u8]>,
    pub flags: Option<&'h [u8]>,
}

/// Parses the headers `x-b3-…`.
///
/// # Errors
/// If an id or the decision is invalid, or only one of the ids of trace and span is present.
pub fn parse_multi(headers: &MultiHeaders<'_>) -> Result<B3, InvalidB3> {
    let ids = match (headers.trace_id, headers.span_id) {
        (Some(trace), Some(span)) => Some(trace_id(trace).zip(span_id(span)).ok_or(InvalidB3)?),
        (None, None) => None,
        _ => return Err(InvalidB3),
    };
    let parent = match headers.parent {
        Some(text) => Some(span_id(text).ok_or(InvalidB3)?),
        None => None,
    };
    let verdict = match (headers.flags, headers.sampled) {
        (Some(b"1"), _) => Verdict::Debug,
        (_, Some(b"1" | b"true")) => Verdict::Record,
        (_, Some(b"0" | b"false")) => Verdict::Drop,
        (_, Some(_)) => return Err(InvalidB3),
        (_, None) => Verdict::Open,
    };
    Ok(B3 { ids, parent, verdict })
}

fn verdict(text: &[u8]) -> Option<Verdict> {
    match text {
        b"0" => Some(Verdict::Drop),
        b"1" => Some(Verdict::Record),
        b"d" => Some(Verdict::Debug),
        _ => None,
    }
}

/// Parses an id of 16 or 32 digits; a short one is the lower half.
pub fn trace_id(text: &[u8]) -> Option<TraceId> {
    let mut bytes = [0; 16];
    match text.len() {
        16 => bytes[8..].copy_from_slice(&hex::read::<8>(text, Letters::AnyCase)?),
        _ => bytes = hex::read(text, Letters::AnyCase)?,
    }
    TraceId::from_bytes(bytes)
}

/// Parses an id of 16 digits.
pub fn span_id(text: &[u8]) -> Option<SpanId> {
    SpanId::from_bytes(hex::read(text, Letters::AnyCase)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "80f198ee56343ba864fe8b2a57d3eff7";
    const SPAN: &str = "e457b5a2e4d86bd1";

    #[test]
    fn the_single_header_has_four_parts_or_only_the_decision() {
        let short = &TRACE[16..];
        for (text, expected) in [
            ("0".to_owned(), Some((false, Verdict::Drop, false))),
            ("1".to_owned(), Some((false, Verdict::Record, false))),
            ("d".to_owned(), Some((false, Verdict::Debug, false))),
            (format!("{TRACE}-{SPAN}"), Some((true, Verdict::Open, false))),
            (format!("{short}-{SPAN}-1"), Some((true, Verdict::Record, false))),
            (format!("{TRACE}-{SPAN}-0-{SPAN}"), Some((true, Verdict::Drop, true))),
            (format!("{TRACE}-{SPAN}-d-{SPAN}"), Some((true, Verdict::Debug, true))),
            (format!("{TRACE}-{SPAN}-x"), None),
            (format!("{TRACE}-{SPAN}-1-{SPAN}-1"), None),
            (format!("{TRACE}-"), None),
            ("abc".to_owned(), None),
            (String::new(), None),
        ] {
            let parsed = parse_single(text.as_bytes()).ok();
            let seen = parsed.map(|it| (it.ids.is_some(), it.verdict, it.parent.is_some()));
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn several_headers_carry_the_same() {
        let trace = Some(TRACE.as_bytes());
        let ids =
            MultiHeaders { trace_id: trace, span_id: Some(SPAN.as_bytes()), ..Default::default() };
        for (headers, expected) in [
            (ids, Some(Verdict::Open)),
            (MultiHeaders { sampled: Some(b"true"), ..ids }, Some(Verdict::Record)),
            (MultiHeaders { sampled: Some(b"0"), ..ids }, Some(Verdict::Drop)),
            (MultiHeaders { flags: Some(b"1"), ..ids }, Some(Verdict::Debug)),
            (MultiHeaders { sampled: Some(b"0"), ..Default::default() }, Some(Verdict::Drop)),
            (MultiHeaders { sampled: Some(b"2"), ..ids }, None),
            (MultiHeaders { parent: Some(b"x"), ..ids }, None),
            (MultiHeaders { span_id: None, ..ids }, None),
        ] {
            assert_eq!(parse_multi(&headers).ok().map(|it| it.verdict), expected, "{headers:?}");
        }
    }
}
