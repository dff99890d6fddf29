//! Formats in which requests carry a trace's context: which headers are read, and which are sent.

use crate::b3::{self, MultiHeaders};
use crate::context::{SpanContext, SpanId, TraceId};
use crate::w3c;

/// Decision of the caller on recording the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// The caller left the decision to this service.
    #[default]
    Open,
    Record,
    Drop,
    /// The trace is recorded whatever the sampler says (B3).
    Debug,
}

/// Format of a context in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagator {
    /// `traceparent` and `tracestate`.
    TraceContext,
    /// `b3`.
    B3Single,
    /// `x-b3-traceid` and others.
    B3Multi,
}

/// Context that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Incoming {
    /// Ids of the trace and of the caller's span.
    pub parent: Option<(TraceId, SpanId)>,
    pub verdict: Verdict,
}

/// Formats that are used; all are written, and the first with a valid context is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagators {
    list: [Option<Propagator>; 3],
    /// Whether the list has only [`Propagator::TraceContext`]; every traced request asks.
    is_trace_context_only: bool,
}

impl Default for Propagators {
    fn default() -> Self {
        Self::new([Propagator::TraceContext])
    }
}

impl Propagators {
    /// Returns the formats in this order; repeated ones count once.
    pub fn new(formats: impl IntoIterator<Item = Propagator>) -> Self {
        let mut list = [None; 3];
        for format in formats {
            let is_new = !list.contains(&Some(format));
            if let Some(place) = list.iter_mut().find(|place| place.is_none()).filter(|_| is_new) {
                *place = Some(format);
            }
        }
        let is_trace_context_only = list == [Some(Propagator::TraceContext), None, None];
        Self { list, is_trace_context_only }
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Propagator> + '_ {
        self.list.iter().copied().flatten()
    }

    /// Whether only `traceparent` and `tracestate` are used.
    #[inline]
    pub fn are_trace_context_only(&self) -> bool {
        self.is_trace_context_only
    }

    /// Reads the context of a request. `header` returns the value of a header that occurs once.
    pub fn extract<'h>(&self, header: &impl Fn(&str) -> Option<&'h [u8]>) -> Incoming {
        let found = self.iter().map(|format| extract(format, header));
        found.into_iter().find(|it| *it != Incoming::default()).unwrap_or_default()
    }

    /// Whether a header of a request is replaced by the gateway's.
    pub fn replaces(&self, name: &[u8]) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        self.iter().any(|format| match format {
            Propagator::TraceContext => is(w3c::TRACEPARENT),
            Propagator::B3Single | Propagator::B3Multi => b3::NAMES.iter().any(|name| is(name)),
        })
    }

    /// Calls `visit` with each header line that carries `context`.
    pub fn inject(
        &self,
        context: &SpanContext,
        parent: Option<SpanId>,
        visit: &mut dyn FnMut(&str, &str),
    ) {
        let sampled = if context.is_sampled { "1" } else { "0" };
        let ids = || (context.trace_id.to_hex(), context.span_id.to_hex());
        for format in self.iter() {
            match format {
                Propagator::TraceContext => {
                    let value = w3c::write(context);
                    visit(w3c::TRACEPARENT, std::str::from_utf8(&value).unwrap_or_default());
                }
                Propagator::B3Single => {
                    let (trace, span) = ids();
                    visit(b3::SINGLE, &format!("{trace}-{span}-{sampled}"));
                }
                Propagator::B3Multi => {
                    let (trace, span) = ids();
                    visit(b3::TRACE_ID, &trace);
                    visit(b3::SPAN_ID, &span);
                    if let Some(parent) = parent {
                        visit(b3::PARENT_SPAN_ID, &parent.to_hex());
                    }
                    visit(b3::SAMPLED, sampled);
                }
            }
        }
    }
}

/// Reads one format; an invalid context counts as none.
#[inline]
fn extract<'h>(format: Propagator, header: &impl Fn(&str) -> Option<&'h [u8]>) -> Incoming {
    let b3 = match format {
        Propagator::TraceContext => {
            let context = header(w3c::TRACEPARENT).and_then(w3c::parse);
            return context.map_or_else(Incoming::default, |context| Incoming {
                parent: Some((context.trace_id, context.span_id)),
                verdict: if context.is_sampled { Verdict::Record } else { Verdict::Drop },
            });
        }
        Propagator::B3Single => header(b3::SINGLE).map(b3::parse_single),
        Propagator::B3Multi => Some(b3::parse_multi(&MultiHeaders {
            trace_id: header(b3::TRACE_ID),
            span_id: header(b3::SPAN_ID),
            parent: header(b3::PARENT_SPAN_ID),
            sampled: header(b3::SAMPLED),
            flags: header(b3::FLAGS),
        })),
    };
    let b3 = b3.and_then(Result::ok).unwrap_or_default();
    Incoming { parent: b3.ids, verdict: b3.verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn extracted(formats: &[Propagator], lines: &[(&str, &str)]) -> Incoming {
        let formats = Propagators::new(formats.iter().copied());
        formats.extract(&|name| {
            let found = lines.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| value.as_bytes())
        })
    }

    #[test]
    fn the_first_format_with_a_context_counts() {
        let traceparent = format!("00-{TRACE}-{SPAN}-01");
        let single = format!("{TRACE}-{SPAN}-0");
        let lines = [("traceparent", traceparent.as_str()), ("b3", single.as_str())];
        let verdict = |formats: &[Propagator]| extracted(formats, &lines).verdict;
        assert_eq!(verdict(&[Propagator::TraceContext, Propagator::B3Single]), Verdict::Record);
        assert_eq!(verdict(&[Propagator::B3Single, Propagator::TraceContext]), Verdict::Drop);
        assert_eq!(verdict(&[Propagator::B3Multi]), Verdict::Open);
        let invalid = [("traceparent", "00-x"), ("b3", single.as_str())];
        let both = [Propagator::TraceContext, Propagator::B3Single];
        assert_eq!(extracted(&both, &invalid).verdict, Verdict::Drop);
    }

    #[test]
    fn a_context_is_written_in_every_format_and_read_back() {
        let context = w3c::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes()).expect("valid");
        for format in [Propagator::TraceContext, Propagator::B3Single, Propagator::B3Multi] {
            let mut lines = Vec::new();
            Propagators::new([format]).inject(&context, None, &mut |name, value| {
                lines.push((name.to_owned(), value.to_owned()));
            });
            let lines: Vec<_> =
                lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let read = extracted(&[format], &lines);
            assert_eq!(read.parent, Some((context.trace_id, context.span_id)), "{format:?}");
            assert_eq!(read.verdict, Verdict::Record, "{format:?}");
            assert!(
                lines.iter().all(|(name, _)| Propagators::new([format]).replaces(name.as_bytes()))
            );
        }
    }
}
