//! RFC 9218 priorities, as given in `priority` fields and PRIORITY_UPDATE frames.

/// The urgency of a stream, and whether it is incremental.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// Urgency, 0 to 7; responses with lower values are sent first.
    pub urgency: u8,
    /// Whether the stream shares the connection with other incremental streams of equal urgency;
    /// otherwise such streams are sent one after another.
    pub is_incremental: bool,
}

impl Priority {
    /// The priority of a stream that was given none. RFC 9218 would send such streams one after
    /// another; they take turns instead, because they may be calls that never end.
    pub const UNSAID: Self = Self { urgency: 3, is_incremental: true };

    /// Defaults for the omitted members of a priority (RFC 9218 §4).
    const LEFT_OUT: Self = Self { urgency: 3, is_incremental: false };

    /// Parses the value of a `priority` field: a dictionary of structured fields (RFC 8941 §3.2).
    /// Parameters and unknown or invalid members are ignored; the last of several duplicates wins.
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
