//! Headers of W3C Trace Context: `traceparent` and `tracestate`.

use tollhouse_stdx::hex::{self, Letters};

use crate::context::{SpanContext, SpanId, TraceId};

pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Length of a `traceparent` of version 00: `00-<32>-<16>-<2>`.
pub const TRACEPARENT_BYTES: usize = 55;

/// A `traceparent` of version 00 with zeros in the place of its ids and flags.
const TEMPLATE: &[u8; TRACEPARENT_BYTES] =
    b"00-00000000000000000000000000000000-0000000000000000-00";

/// Position of the trace's id in a `traceparent`.
pub const TRACE_ID_AT: std::ops::Range<usize> = 3..35;
/// Position of the span's id in a `traceparent`.
pub const SPAN_ID_AT: std::ops::Range<usize> = 36..52;
/// Position of the flags in a `traceparent`.
const FLAGS_AT: usize = 53;

/// Flag of a sampled trace.
const SAMPLED: u8 = 1;

/// Parses a `traceparent` (W3C Trace Context §3.2). Later versions may append fields after a dash;
/// version `ff` is invalid.
#[inline]
pub fn parse(value: &[u8]) -> Option<SpanContext> {
    let (fixed, rest) = value.split_at_checked(TRACEPARENT_BYTES)?;
    let [version] = hex::read::<1>(&fixed[..2], Letters::Lower)?;
    let may_continue = version > 0 && rest.first() == Some(&b'-');
    let has_dashes = [2, 35, 52].iter().all(|index| fixed[*index] == b'-');
    if version == 0xff || !has_dashes || !(rest.is_empty() || may_continue) {
        return None;
    }
    let [flags] = hex::read::<1>(&fixed[FLAGS_AT..], Letters::Lower)?;
    Some(SpanContext {
        trace_id: TraceId::parse(&fixed[TRACE_ID_AT])?,
        span_id: SpanId::parse(&fixed[SPAN_ID_AT])?,
        is_sampled: flags & SAMPLED != 0,
    })
}

/// Formats a `traceparent` of version 00.
#[inline]
pub fn write(context: &SpanContext) -> [u8; TRACEPARENT_BYTES] {
    let mut out = *TEMPLATE;
    hex::write_in(&mut out, TRACE_ID_AT.start, &context.trace_id.bytes());
    hex::write_in(&mut out, SPAN_ID_AT.start, &context.span_id.bytes());
    hex::write_in(&mut out, FLAGS_AT, &[if context.is_sampled { SAMPLED } else { 0 }]);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_traceparent_is_read_and_written_back() {
        for (flags, is_sampled) in [("01", true), ("00", false)] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            let context = parse(text.as_bytes()).expect("valid");
            assert_eq!(context.trace_id.to_hex(), TRACE);
            assert_eq!(context.span_id.to_hex(), SPAN);
            assert_eq!(context.is_sampled, is_sampled);
            assert_eq!(write(&context), text.as_bytes());
        }
    }

    #[test]
    fn invalid_values_are_refused_and_later_versions_may_go_on() {
        let zeros = "0".repeat(32);
        for (text, is_valid) in [
            (format!("00-{TRACE}-{SPAN}-03"), true),
            (format!("cc-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-comes"), true),
            (format!("cc-{TRACE}-{SPAN}-01.what-comes"), false),
            (format!("00-{TRACE}-{SPAN}-01-what-comes"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{zeros}-{SPAN}-01"), false),
            (format!("00-{TRACE}-0000000000000000-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{TRACE}-{SPAN}-0x"), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (format!("00_{TRACE}-{SPAN}-01"), false),
            (String::new(), false),
        ] {
            assert_eq!(parse(text.as_bytes()).is_some(), is_valid, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_context_survives_a_header(high: u64, low: u64, span: u64, is_sampled: bool) {
            let trace_id = TraceId::from_random(high, low);
            let context = SpanContext { trace_id, span_id: SpanId::from_random(span), is_sampled };
            prop_assert_eq!(parse(&write(&context)), Some(context));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
