//! Storing and lifetimes by the header of an answer (RFC 9111 §3, §4.2; RFC 9213; RFC 5861). Pure:
//! times are arguments.

use std::borrow::Cow;

use tollhouse_plugin::exchange::join_line;

use super::directives::{Directives, number};
use crate::shared::messages::http_date::parse_http_date;

/// Statuses whose lifetime a cache may estimate (RFC 9110 §15.1); of these, 206 is never stored
/// here.
const HEURISTIC: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
/// Further statuses whose rules for caches are implemented (`must-understand`, RFC 9111 §5.2.2.3).
const UNDERSTOOD: [u16; 14] =
    [201, 202, 302, 303, 307, 400, 401, 403, 409, 421, 500, 502, 503, 504];
/// Divisor of the time since `Last-Modified` that yields an estimated lifetime (RFC 9111 §4.2.2).
const HEURISTIC_DIVISOR: u64 = 10;

/// Fields of an answer that decide whether it is stored, and how long it is used.
#[derive(Debug, Default)]
pub(super) struct Fields {
    status: u16,
    /// `Cache-Control`, or a valid `CDN-Cache-Control`, which replaces `Cache-Control` and
    /// `Expires`.
    directives: Vec<u8>,
    age_s: u64,
    date_s: Option<u64>,
    expires: Option<Expires>,
    last_modified_s: Option<u64>,
    accel: Option<Accel>,
    has_etag: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expires {
    At(u64),
    /// The value is not a date, or there are several different dates; the answer counts as expired
    /// (RFC 9111 §5.3).
    Invalid,
}

/// `X-Accel-Expires`: seconds from now, or a Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accel {
    For(u64),
    Until(u64),
}

/// Moments of an exchange with a node, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub asked_ms: u64,
    pub answered_ms: u64,
}

/// Lifetimes of answers that state none, and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    /// Lifetime in milliseconds of an answer that states none; `None` to estimate it from
    /// `Last-Modified`.
    pub silent_ms: Option<u64>,
    /// Maximum lifetime in milliseconds since storing, even if the answer allows a longer one.
    pub most_ms: Option<u64>,
    /// Maximum lifetime in milliseconds that is estimated from `Last-Modified`.
    pub guess_most_ms: u64,
}

/// Period in which an answer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// Freshness lifetime in milliseconds, from the time at which the node made the answer.
    pub ttl_ms: u64,
    /// Age on arrival (RFC 9111 §4.2.3): the received `Age` and the time that the node took.
    pub age_ms: u64,
}

/// Permission to use an answer that is no longer fresh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StaleUse {
    /// Whether the answer prohibits such use, by `must-revalidate`, `proxy-revalidate`, `s-maxage`
    /// or `no-cache`.
    pub is_prohibited: bool,
    /// Seconds in the directive `stale-if-error`.
    pub if_error_s: u64,
}

impl Fields {
    /// Reads the lines that `each` visits.
    pub fn read(status: u16, each: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) -> Self {
        let mut fields = Self { status, ..Self::default() };
        let mut targeted = Vec::new();
        let mut expires: Option<Vec<u8>> = None;
        let mut has_age = false;
        each(&mut |name, value| {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            match name.len() {
                3 if is("age") && !has_age => {
                    has_age = true;
                    fields.age_s = age_of(value);
                }
                4 if is("date") => fields.date_s = seconds_since_1970(value),
                4 if is("etag") => fields.has_etag = true,
                7 if is("expires") => {
                    let is_same = expires.as_ref().is_none_or(|other| other == value)
                        && fields.expires != Some(Expires::Invalid);
                    let date = seconds_since_1970(value).filter(|_| is_same);
                    fields.expires = Some(date.map_or(Expires::Invalid, Expires::At));
                    expires.get_or_insert_with(|| value.to_vec());
                }
                13 if is("cache-control") => join(&mut fields.directives, value),
                13 if is("last-modified") => fields.last_modified_s = seconds_since_1970(value),
                15 if is("x-accel-expires") => fields.accel = accel_of(value),
                17 if is("cdn-cache-control") => join(&mut targeted, value),
                _ => {}
            }
        });
        if Directives::parse_targeted(&targeted).is_some() {
            fields.directives = targeted;
            fields.expires = None;
        }
        fields
    }

    pub fn directives(&self) -> Directives<'_> {
        Directives::parse(Some(Cow::Borrowed(&self.directives)))
    }

    /// Whether a shared cache may store the answer at all.
    pub fn may_be_stored(&self) -> bool {
        let directives = self.directives();
        let is_understood = HEURISTIC.contains(&self.status) || UNDERSTOOD.contains(&self.status);
        let must_understand = directives.has("must-understand");
        if directives.is_unqualified("private") || (must_understand && !is_understood) {
            return false;
        }
        // These answer a range or a condition, which other clients have not sent.
        !matches!(self.status, 206 | 304 | 412 | 416)
            && (!directives.has("no-store") || must_understand)
    }

    /// Returns the period in which the answer is used; `None` if it must not be stored, or would
    /// never be used.
    pub fn life(&self, times: Times, policy: Policy) -> Option<Life> {
        if !self.may_be_stored() {
            return None;
        }
        let delay_ms = times.answered_ms.saturating_sub(times.asked_ms);
        let age_ms = self.age_s.saturating_mul(1_000).saturating_add(delay_ms);
        let ttl_ms = match self.accel {
            // Seconds count from now, however old the answer is; 0 prohibits storing.
            Some(accel) => match accel.lifetime_ms(times.answered_ms) {
                0 => return None,
                ttl_ms => ttl_ms.saturating_add(age_ms),
            },
            None => self.explicit_ms(times).unwrap_or_else(|| match policy.silent_ms {
                Some(silent_ms) => silent_ms.saturating_add(age_ms),
                None => self.guess_ms(times).min(policy.guess_most_ms),
            }),
        };
        let most_ms = policy.most_ms.map_or(u64::MAX, |most_ms| most_ms.saturating_add(age_ms));
        let ttl_ms =
            if self.directives().is_unqualified("no-cache") { 0 } else { ttl_ms.min(most_ms) };
        let is_of_use = ttl_ms > age_ms || self.stale_use().if_error_s > 0 || self.has_validator();
        is_of_use.then_some(Life { ttl_ms, age_ms })
    }

    /// Whether a node can be asked if the answer is still valid.
    fn has_validator(&self) -> bool {
        self.status == 200 && (self.has_etag || self.last_modified_s.is_some())
    }

    /// Returns the lifetime in milliseconds that the answer states; `None` if it states none.
    fn explicit_ms(&self, times: Times) -> Option<u64> {
        let directives = self.directives();
        let seconds =
            directives.lifetime_s("s-maxage").or_else(|| directives.lifetime_s("max-age"));
        if let Some(seconds) = seconds {
            return Some(seconds.saturating_mul(1_000));
        }
        match self.expires? {
            Expires::Invalid => Some(0),
            Expires::At(until_s) => {
                let date_s = self.date_s.unwrap_or(times.answered_ms / 1_000);
                Some(until_s.saturating_sub(date_s).saturating_mul(1_000))
            }
        }
    }

    fn guess_ms(&self, times: Times) -> u64 {
        if !HEURISTIC.contains(&self.status) && !self.directives().has("public") {
            return 0;
        }
        let date_s = self.date_s.unwrap_or(times.answered_ms / 1_000);
        let unchanged_s = self.last_modified_s.map_or(0, |changed| date_s.saturating_sub(changed));
        unchanged_s.saturating_mul(1_000) / HEURISTIC_DIVISOR
    }

    pub fn stale_use(&self) -> StaleUse {
        let directives = self.directives();
        let prohibitions = ["must-revalidate", "proxy-revalidate", "s-maxage"];
        let is_prohibited = prohibitions.iter().any(|name| directives.has(name))
            || directives.is_unqualified("no-cache");
        let if_error_s =
            if is_prohibited { 0 } else { directives.seconds("stale-if-error").unwrap_or(0) };
        StaleUse { is_prohibited, if_error_s }
    }
}

impl Accel {
    fn lifetime_ms(self, now_ms: u64) -> u64 {
        match self {
            Accel::For(seconds) => seconds.saturating_mul(1_000),
            Accel::Until(moment) => moment.saturating_mul(1_000).saturating_sub(now_ms),
        }
    }
}

fn join(list: &mut Vec<u8>, value: &[u8]) {
    if list.is_empty() {
        list.extend_from_slice(value);
    } else {
        join_line(list, b"cache-control", value);
    }
}

/// Returns the seconds in `Age`: the first number of a list, 0 for any other value (RFC 9111 §5.1).
fn age_of(value: &[u8]) -> u64 {
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default();
    number(first.trim_ascii()).unwrap_or(0)
}

fn accel_of(value: &[u8]) -> Option<Accel> {
    match value.trim_ascii() {
        [b'@', moment @ ..] => number(moment).map(Accel::Until),
        seconds => number(seconds).map(Accel::For),
    }
}

fn seconds_since_1970(value: &[u8]) -> Option<u64> {
    parse_http_date(value).and_then(|seconds| u64::try_from(seconds).ok())
}

#[cfg(test)]
mod tests;
