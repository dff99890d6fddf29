//! Header `sw8` (SkyWalking Cross Process Propagation Headers Protocol v3):
//! `1-<trace>-<segment>-<span>-<service>-<instance>-<endpoint>-<peer>`, texts in Base64.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) const SW8: &str = "sw8";

/// Number of parts of the header.
const PARTS: usize = 8;

/// Context of the caller's span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carrier {
    pub trace_id: String,
    pub segment_id: String,
    /// Number of the span in its segment.
    pub span: u32,
    pub service: String,
    pub instance: String,
    pub endpoint: String,
    /// Address by which the caller calls this service.
    pub peer: String,
}

impl Carrier {
    /// Parses the header; `None` if it has another form.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let value = std::str::from_utf8(value).ok()?;
        let parts: Vec<&str> = value.split('-').collect();
        if parts.len() != PARTS {
            return None;
        }
        let text = |index: usize| String::from_utf8(STANDARD.decode(parts[index]).ok()?).ok();
        Some(Self {
            trace_id: text(1)?,
            segment_id: text(2)?,
            span: parts[3].parse().ok()?,
            service: text(4)?,
            instance: text(5)?,
            endpoint: text(6)?,
            peer: text(7)?,
        })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coded = |text: &str| STANDARD.encode(text);
        write!(
            out,
            "1-{}-{}-{}-{}-{}-{}-{}",
            coded(&self.trace_id),
            coded(&self.segment_id),
            self.span,
            coded(&self.service),
            coded(&self.instance),
            coded(&self.endpoint),
            coded(&self.peer)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let carrier = Carrier {
            trace_id: "a.b".into(),
            segment_id: "c".into(),
            span: 3,
            service: "shop".into(),
            instance: "shop@1".into(),
            endpoint: "/orders".into(),
            peer: "10.0.0.1:80".into(),
        };
        let text = carrier.to_string();
        assert_eq!(Carrier::parse(text.as_bytes()), Some(carrier));
        for invalid in ["", "1-a", &text[2..], &text.replace("-3-", "-x-"), &format!("{text}-x")] {
            assert_eq!(Carrier::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
