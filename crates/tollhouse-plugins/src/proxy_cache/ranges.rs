//! Ranges of a stored body (RFC 9110 §14): the part that a client asks for.

use std::ops::Range;

use super::directives::number;

/// Maximum number of ranges of one request; a request with more gets the whole body.
const RANGES_MAX: usize = 32;

/// Part of a body to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole body: the header `Range` is invalid, has another unit, or names parts that do not
    /// adjoin.
    Whole,
    /// A single part, also for ranges that overlap or adjoin; never empty.
    Part(Range<u64>),
    /// No range overlaps the body; the answer is 416.
    Unsatisfiable,
}

/// Selects the part of a body of `length` bytes that the value of `Range` names.
pub(super) fn select(range: &[u8], length: u64) -> Selection {
    let unit_end = range.iter().position(|byte| *byte == b'=').unwrap_or(0);
    if !range[..unit_end].trim_ascii().eq_ignore_ascii_case(b"bytes") {
        return Selection::Whole;
    }
    let members = range[unit_end + 1..].split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let members = members.filter(|member| !member.is_empty());
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    for member in members {
        count += 1;
        let Some(part) = part_of(member, length).filter(|_| count <= RANGES_MAX) else {
            return Selection::Whole;
        };
        if !part.is_empty() {
            parts.push(part);
        }
    }
    if count == 0 {
        return Selection::Whole;
    }
    parts.sort_by_key(|part| part.start);
    let mut parts = parts.into_iter();
    let Some(mut joined) = parts.next() else { return Selection::Unsatisfiable };
    for part in parts {
        if part.start > joined.end {
            return Selection::Whole;
        }
        joined.end = joined.end.max(part.end);
    }
    Selection::Part(joined)
}

/// Returns the bytes of one range; empty if it is beyond the body, `None` if it is invalid.
fn part_of(member: &[u8], length: u64) -> Option<Range<u64>> {
    let dash = member.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        return Some(length.saturating_sub(number(last)?)..length);
    }
    let first = number(first)?;
    let end = match last {
        b"" => length,
        last => number(last).filter(|last| *last >= first)?.saturating_add(1).min(length),
    };
    Some(first.min(end)..end)
}

/// Whether a range covers the whole body, as in the first request of video players.
pub(super) fn is_from_start(range: &[u8]) -> bool {
    range.eq_ignore_ascii_case(b"bytes=0-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_select_one_part_or_the_whole_body() {
        use Selection::{Part, Unsatisfiable, Whole};
        for (range, expected) in [
            ("bytes=0-1", Part(0..2)),
            ("bytes=1-", Part(1..10)),
            ("bytes=-1", Part(9..10)),
            ("bytes=-100", Part(0..10)),
            ("bytes=0-0", Part(0..1)),
            ("bytes=0-99999999999999999999999", Part(0..10)),
            ("Bytes= 2-3 ", Part(2..4)),
            ("bytes=0-3, 2-5", Part(0..6)),
            ("bytes=4-5,0-3", Part(0..6)),
            ("bytes=0-1, 20-30", Part(0..2)),
            ("bytes=0-1,5-6", Whole),
            ("bytes=9-9", Part(9..10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-20", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-200, 300-", Unsatisfiable),
            ("bytes=5-2", Whole),
            ("bytes=a-2", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes", Whole),
            ("", Whole),
            ("lines=0-1", Whole),
        ] {
            assert_eq!(select(range.as_bytes(), 10), expected, "{range}");
        }
        assert_eq!(select(b"bytes=0-", 0), Unsatisfiable);
        let many = format!("bytes={}", "0-1,".repeat(RANGES_MAX + 1));
        assert_eq!(select(many.as_bytes(), 10), Whole);
    }
}
