//! Times as the dialect's clients expect them: `2026-01-31 23:59:00`, in UTC.

use tollhouse_stdx::civil::CivilTime;

/// Length of a [`DateText`] in bytes.
const DATE_BYTES: usize = 19;

/// Position of the `T` in the ISO form.
const BETWEEN_DATE_AND_TIME: usize = 10;

/// Text of a time, on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DateText([u8; DATE_BYTES]);

impl DateText {
    /// Formats a time given in seconds since 1970.
    pub(crate) fn from_unix_seconds(unix_seconds: u64) -> Self {
        let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
        let iso = CivilTime::from_unix_seconds(seconds).iso_date();
        let mut text = [0; DATE_BYTES];
        text.copy_from_slice(&iso[..DATE_BYTES]);
        text[BETWEEN_DATE_AND_TIME] = b' ';
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits, dashes, colons and a blank")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_a_blank_before_the_time() {
        for (seconds, expected) in
            [(0, "1970-01-01 00:00:00"), (784_111_777, "1994-11-06 08:49:37")]
        {
            assert_eq!(DateText::from_unix_seconds(seconds).as_str(), expected);
        }
    }
}
