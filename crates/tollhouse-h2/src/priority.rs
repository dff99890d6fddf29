//! Priorities of RFC 9218: what `priority` and PRIORITY_UPDATE say.

/// How urgent a stream is, and whether parts of it are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7; what is lower goes first.
    pub urgency: u8,
    /// Whether it shares with others of its urgency; otherwise they go one after the other.
    pub is_incremental: bool,
}

impl Priority {
    /// What holds where nothing was said. RFC 9218 would send such streams one after the other; since
    /// they may be calls that never end, they share instead.
    pub const UNSAID: Self = Self { urgency: 3, is_incremental: true };

    /// What holds where a priority leaves something out (RFC 9218 §4).
    const LEFT_OUT: Self = Self { urgency: 3, is_incremental: false };

    /// Reads the value of a `priority` field: a dictionary of structured fields (RFC 8941 §3.2).
    /// Parameters and members that are unknown or of no known form say nothing; the last of several
    /// wins.
    pub fn parse(text: &[u8]) -> Self {
        let mut priority = Self::LEFT_OUT;
        for member in text.split(|&byte| byte == b',') {
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default();
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read() {
        for (text, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=5;x=1", 5, true),
            ("i=?0", 3, false),
            ("i=?1 , u=2", 2, true),
            ("u=8", 3, false),
            ("u=10", 3, false),
            ("x=\"a\", u=1", 1, false),
            ("u=1, u=4", 4, false),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, is_incremental });
        }
    }
}
