//! Request as conditions see it.

use std::borrow::Cow;

/// Values of a request. Only the values that a condition names are requested.
pub trait Request {
    /// Returns the path, still percent-encoded; after a rewrite, the new path.
    fn path(&self) -> &str;
    fn method(&self) -> &str;
    /// Returns the host that the client requests, without the port.
    fn domain(&self) -> &str;
    /// Returns the address of the client; `host` conditions test it too.
    fn client_ip(&self) -> &str;
    /// Returns the first value of a header; names ignore case.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;
    /// Returns the first value of a query parameter.
    fn query(&self, name: &str) -> Option<Cow<'_, str>>;
    /// Returns the first value of the cookie called `name`.
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>>;
    /// Returns the facts that the gateway has gathered: `contextPath`, `path`, `method`, `rpcType`,
    /// `module`, `httpMethod`, `appKey`. `post` conditions test these; they do not concern the
    /// body.
    fn context(&self, field: &str) -> Option<Cow<'_, str>>;
    /// Returns the current date and time of the gateway.
    fn local_time(&self) -> CivilTime;
}

/// Date and time without a time zone, to the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilTime {
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
}

impl CivilTime {
    /// Parses `yyyy-MM-dd HH:mm:ss`. A day past the end of the month becomes its last day, as in
    /// Java.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')];
        // Length and separators are checked first, so that the ranges below are valid.
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
