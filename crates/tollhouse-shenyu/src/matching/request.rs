//! What conditions ask of a request.

use std::borrow::Cow;

/// A request as conditions see it. Values are asked for one by one, and only those that a condition names.
pub trait Request {
    /// The path as it came, still encoded; where a plugin has rewritten it, what it is now.
    fn path(&self) -> &str;
    /// The method.
    fn method(&self) -> &str;
    /// The host that was asked for, without port.
    fn domain(&self) -> &str;
    /// The client's address; also what `host` conditions see.
    fn client_ip(&self) -> &str;
    /// The first value of a header; names are compared without case.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The first value of a query parameter.
    fn query(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The first value of a cookie.
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>>;
    /// What the gateway has found out so far: `contextPath`, `path`, `method`, `rpcType`, `module`,
    /// `httpMethod`, `appKey`. `post` conditions ask for it; they have nothing to do with the body.
    fn context(&self, field: &str) -> Option<Cow<'_, str>>;
    /// The time on the wall where the gateway stands.
    fn local_time(&self) -> CivilTime;
}

/// Date and time without a zone, to the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilTime {
    /// The year.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl CivilTime {
    /// Reads `yyyy-MM-dd HH:mm:ss`. The 31st of a shorter month is its last day, as Java's reader has it.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')];
        // Lengths and places first, so that the ranges below are in the text.
        if bytes.len() != 19 || separators.iter().any(|(at, byte)| bytes[*at] != *byte) {
            return None;
        }
        let number = |range: std::ops::Range<usize>, least: u16, most: u16| {
            let digits = text.get(range).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
            digits.parse::<u16>().ok().filter(|number| (least..=most).contains(number))
        };
        let small = |range, least, most| number(range, least, most).and_then(|n| n.try_into().ok());
        let (year, month) = (number(0..4, 1, 9999)?, small(5..7, 1, 12)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last_day = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        Some(Self {
            year,
            month,
            day: small(8..10, 1, 31)?.min(last_day),
            hour: small(11..13, 0, 23)?,
            minute: small(14..16, 0, 59)?,
            second: small(17..19, 0, 59)?,
        })
    }
}
