//! Quotas and the headers that report them to clients.

use tollhouse_plugin::PreparedName;

use super::Metadata;
use crate::shared::limits::amount::Amount;

/// Part of a header name before which a rule's prefix is inserted.
const PREFIX_PLACE: &str = "RateLimit-";

/// Maximum length of a number's text: twenty digits, a point, two decimals.
const NUMBER_BYTES_MAX: usize = 24;

/// Digits of the numbers below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// State of a limit after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// Milliseconds until the count restarts.
    pub(super) reset_ms: u64,
}

#[derive(Debug)]
pub(super) struct HeaderNames {
    pub(super) limit: PreparedName,
    pub(super) remaining: PreparedName,
    pub(super) reset: PreparedName,
    /// Limit with its text, if the limit is a constant.
    fixed_limit: Option<(u64, Box<[u8]>)>,
}

impl HeaderNames {
    pub(super) fn plain(metadata: &Metadata) -> Self {
        Self {
            limit: PreparedName::new(&metadata.limit_header),
            remaining: PreparedName::new(&metadata.remaining_header),
            reset: PreparedName::new(&metadata.reset_header),
            fixed_limit: None,
        }
    }

    /// Returns the names with the prefix of a rule: `X-<prefix>-RateLimit-Limit`.
    pub(super) fn prefixed(metadata: &Metadata, prefix: &str) -> Self {
        let named = |name: &str| {
            PreparedName::new(&name.replacen(PREFIX_PLACE, &format!("{prefix}-{PREFIX_PLACE}"), 1))
        };
        Self {
            limit: named(&metadata.limit_header),
            remaining: named(&metadata.remaining_header),
            reset: named(&metadata.reset_header),
            fixed_limit: None,
        }
    }

    /// Precomputes the text of a limit that does not depend on the request.
    pub(super) fn beside(self, count: &Amount<1>) -> Self {
        let fixed_limit = match count {
            Amount::Fixed(limit) => Some((*limit, limit.to_string().into_bytes().into())),
            Amount::Of(_) => None,
        };
        Self { fixed_limit, ..self }
    }
}

impl Quota {
    /// Passes each header to `set`.
    pub(super) fn write_headers(
        &self,
        names: &HeaderNames,
        mut set: impl FnMut(&PreparedName, &[u8]),
    ) {
        let mut text = NumberText::default();
        match &names.fixed_limit {
            Some((limit, text)) if *limit == self.limit => set(&names.limit, text),
            _ => set(&names.limit, text.whole(self.limit)),
        }
        set(&names.remaining, text.whole(self.remaining));
        set(&names.reset, text.hundredths(self.reset_ms / 10));
    }
}

/// Buffer for a number's digits, filled from the right.
struct NumberText([u8; NUMBER_BYTES_MAX]);

impl Default for NumberText {
    fn default() -> Self {
        Self([0; NUMBER_BYTES_MAX])
    }
}

impl NumberText {
    fn whole(&mut self, number: u64) -> &[u8] {
        let start = self.digits(number, NUMBER_BYTES_MAX);
        &self.0[start..]
    }

    /// Formats hundredths as Lua prints a number: `60`, `59.9`, `59.98`.
    fn hundredths(&mut self, number: u64) -> &[u8] {
        let (whole, rest) = (number / 100, number % 100);
        let end = match (rest / 10, rest % 10) {
            (0, 0) => NUMBER_BYTES_MAX,
            (tenth, 0) => self.fraction(&[tenth]),
            (tenth, hundredth) => self.fraction(&[tenth, hundredth]),
        };
        let start = self.digits(whole, end);
        &self.0[start..]
    }

    fn fraction(&mut self, digits: &[u64]) -> usize {
        let start = NUMBER_BYTES_MAX - digits.len();
        for (place, digit) in self.0[start..].iter_mut().zip(digits) {
            *place = b'0' + *digit as u8;
        }
        self.0[start - 1] = b'.';
        start - 1
    }

    /// Writes two digits per step, because a division costs more than a table look-up.
    fn digits(&mut self, mut number: u64, end: usize) -> usize {
        let mut start = end;
        while number >= 100 {
            start -= 2;
            self.0[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        if number >= 10 {
            start -= 2;
            self.0[start..start + 2].copy_from_slice(&PAIRS[number as usize]);
        } else {
            start -= 1;
            self.0[start] = b'0' + number as u8;
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_clients_know_them() {
        for (reset_ms, expected) in [
            (60_000, "60"),
            (59_989, "59.98"),
            (59_900, "59.9"),
            (1_050, "1.05"),
            (9, "0"),
            (10, "0.01"),
            (u64::MAX, "18446744073709551.61"),
        ] {
            let text = NumberText::default().hundredths(reset_ms / 10).to_vec();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        assert_eq!(NumberText::default().whole(u64::MAX), u64::MAX.to_string().as_bytes());
        for number in [0, 9, 10, 99, 100, 101, 999, 1000, 2_000_000_000] {
            let expected = number.to_string();
            assert_eq!(NumberText::default().whole(number), expected.as_bytes());
        }
    }

    #[test]
    fn a_prefix_stands_before_the_common_part_of_the_name() {
        let metadata = |limit: &str| Metadata {
            limit_header: limit.into(),
            remaining_header: "X-RateLimit-Remaining".into(),
            reset_header: "Reset".into(),
        };
        let names = HeaderNames::prefixed(&metadata("X-AI-RateLimit-Limit"), "1");
        assert_eq!(names.limit.as_str(), "X-AI-1-RateLimit-Limit");
        assert_eq!(names.remaining.as_str(), "X-1-RateLimit-Remaining");
        assert_eq!(names.reset.as_str(), "Reset");
    }
}
