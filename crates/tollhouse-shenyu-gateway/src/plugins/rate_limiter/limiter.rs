//! Plugin `rateLimiter`: four algorithms with a resolution of one second, as in ShenYu's scripts
//! for Redis, and the keys that they count by. A [`Limiter`] holds the counts in memory.

pub mod redis;

use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;
use serde::Deserialize;
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Maximum number of keys that a rule counts separately. Further keys share one count, so that
/// clients cannot evade the limit by changing their key.
const KEYS_MAX: usize = 100_000;

/// Maximum length of a key in bytes. Longer ones are cut, because clients choose them.
const KEY_BYTES_MAX: usize = 128;

/// Key of the shared count beyond [`KEYS_MAX`].
const SHARED_KEY: &str = "";

/// Rule of the plugin `rateLimiter`.
#[derive(Debug, Clone, PartialEq)]
pub struct LimiterRule {
    algorithm: Algorithm,
    /// Number of tokens added per second.
    replenish: f64,
    burst: f64,
    /// Number of tokens that a request takes.
    cost: f64,
    /// Whether each client address is counted separately.
    by_address: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    TokenBucket,
    SlidingWindow,
    LeakyBucket,
    Concurrent,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::text")]
    algorithm_name: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    replenish_rate: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    burst_capacity: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    request_count: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    key_resolver_name: Option<String>,
}

impl LimiterRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or a value is unsupported.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: Handle = handle::read(handle)?;
        let wrong = |member: &str, value: &str, possible: &str| {
            HandleError::Malformed(format!("`{member}` is `{value}`; possible are {possible}"))
        };
        let number = |member: &str, text: Option<String>, default: f64| {
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
                return Ok(default);
            };
            let number = text.trim().parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
            number.ok_or_else(|| wrong(member, &text, "numbers above 0"))
        };
        let name = handle.algorithm_name.unwrap_or_default();
        let algorithm = match name.as_str() {
            "tokenBucket" | "" => Algorithm::TokenBucket,
            "slidingWindow" => Algorithm::SlidingWindow,
            "leakyBucket" => Algorithm::LeakyBucket,
            "concurrent" => Algorithm::Concurrent,
            _ => {
                let possible = "tokenBucket, slidingWindow, leakyBucket, concurrent";
                return Err(wrong("algorithmName", &name, possible));
            }
        };
        let resolver = handle.key_resolver_name.unwrap_or_default();
        let by_address = match resolver.as_str() {
            "WHOLE_KEY_RESOLVER" | "" => false,
            "REMOTE_ADDRESS_KEY_RESOLVER" => true,
            _ => {
                let possible = "WHOLE_KEY_RESOLVER, REMOTE_ADDRESS_KEY_RESOLVER";
                return Err(wrong("keyResolverName", &resolver, possible));
            }
        };
        Ok(Self {
            algorithm,
            replenish: number("replenishRate", handle.replenish_rate, 10.0)?,
            burst: number("burstCapacity", handle.burst_capacity, 100.0)?,
            cost: number("requestCount", handle.request_count, 1.0)?,
            by_address,
        })
    }

    /// Whether the limit is on concurrent requests, so that each admitted request must be
    /// [released](Limiter::release).
    pub fn counts_open_requests(&self) -> bool {
        self.algorithm == Algorithm::Concurrent
    }

    /// Returns the key that a request is counted by. For limits per address that is the first
    /// address in ShenYu's list of headers, or else the peer's; otherwise a constant. `header`
    /// looks up a header by name.
    pub fn key(&self, peer: IpAddr, header: impl Fn(&str) -> Option<String>) -> String {
        const HEADERS: [&str; 6] = [
            "X-Forwarded-For",
            "X-Real-IP",
            "Proxy-Client-IP",
            "WL-Proxy-Client-IP",
            "HTTP_CLIENT_IP",
            "HTTP_X_FORWARDED_FOR",
        ];
        if !self.by_address {
            return "WHOLE_KEY_RESOLVER".to_owned();
        }
        let named = HEADERS.iter().find_map(|name| {
            let value = header(name)?;
            let first = value.split(',').next().unwrap_or_default().trim();
            let is_one = !first.is_empty() && !first.eq_ignore_ascii_case("unknown");
            is_one.then(|| first.chars().take(KEY_BYTES_MAX / 4).collect())
        });
        named.unwrap_or_else(|| peer.to_string())
    }
}

#[derive(Debug)]
pub struct Limiter {
    rule: LimiterRule,
    counts: HashMap<String, Count, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Count {
    /// Tokens, fill level or open requests, depending on the algorithm.
    amount: f64,
    /// Times of requests in the sliding window, in seconds.
    seconds: VecDeque<u64>,
    at_s: u64,
}

impl Limiter {
    pub fn new(rule: LimiterRule) -> Self {
        Self { rule, counts: HashMap::default() }
    }

    pub fn rule(&self) -> &LimiterRule {
        &self.rule
    }

    /// Admits or refuses a request at `now_s`, in seconds since 1970. Returns the key that an
    /// admitted request was counted by.
    pub fn admit(&mut self, key: &str, now_s: u64) -> Option<String> {
        let key = self.place(key, now_s);
        let Self { rule, counts } = self;
        let count = counts.entry(key.clone()).or_insert_with(|| Count {
            amount: if rule.algorithm == Algorithm::TokenBucket { rule.burst } else { 0.0 },
            seconds: VecDeque::new(),
            at_s: now_s,
        });
        // Clocks may be set back.
        let passed_s = now_s.saturating_sub(count.at_s);
        let is_admitted = count.admit(rule, now_s, passed_s);
        count.at_s = count.at_s.max(now_s);
        is_admitted.then_some(key)
    }

    /// Releases an admitted request that has ended; `key` is the one that [`Self::admit`] returned.
    pub fn release(&mut self, key: &str) {
        if let Some(count) = self.counts.get_mut(key) {
            count.amount = (count.amount - 1.0).max(0.0);
            if count.amount == 0.0 {
                self.counts.remove(key);
            }
        }
    }

    /// Returns the key itself, or the shared key if the table is full.
    fn place(&mut self, key: &str, now_s: u64) -> String {
        if self.counts.len() >= KEYS_MAX && !self.counts.contains_key(key) {
            let keep_s = self.rule.keep_s();
            let is_open = self.rule.counts_open_requests();
            self.counts.retain(|_, count| is_open || now_s.saturating_sub(count.at_s) < keep_s);
            if self.counts.len() >= KEYS_MAX {
                return SHARED_KEY.to_owned();
            }
        }
        key.to_owned()
    }
}

impl LimiterRule {
    /// Returns the seconds without a request after which a count equals a new one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    fn keep_s(&self) -> u64 {
        ((self.burst / self.replenish).ceil() as u64).saturating_add(1)
    }
}

impl Count {
    #[expect(clippy::cast_precision_loss, reason = "seconds and counts are far below 2^52")]
    fn admit(&mut self, rule: &LimiterRule, now_s: u64, passed_s: u64) -> bool {
        let drained = passed_s as f64 * rule.replenish;
        match rule.algorithm {
            Algorithm::TokenBucket => {
                self.amount = (self.amount + drained).min(rule.burst);
                let is_admitted = self.amount >= rule.cost;
                self.amount -= if is_admitted { rule.cost } else { 0.0 };
                is_admitted
            }
            Algorithm::LeakyBucket => {
                let level = (self.amount - drained).max(0.0);
                let is_admitted = level + rule.cost <= rule.burst;
                self.amount = level + if is_admitted { rule.cost } else { 0.0 };
                is_admitted
            }
            Algorithm::SlidingWindow => {
                let window_s = rule.burst / rule.replenish;
                // In ShenYu, the script's key expires this long after the last request.
                if passed_s as f64 >= window_s.ceil() {
                    self.seconds.clear();
                }
                let is_admitted = (self.seconds.len() as f64) < rule.burst;
                // Outdated entries are removed after the decision, as in ShenYu's script.
                while self
                    .seconds
                    .front()
                    .is_some_and(|at| (now_s.saturating_sub(*at)) as f64 >= window_s)
                {
                    self.seconds.pop_front();
                }
                if is_admitted {
                    self.seconds.push_back(now_s);
                }
                is_admitted
            }
            Algorithm::Concurrent => {
                let is_admitted = self.amount < rule.burst;
                self.amount += if is_admitted { 1.0 } else { 0.0 };
                is_admitted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(algorithm: &str, replenish: u32, burst: u32, cost: u32) -> Limiter {
        let handle = format!(
            r#"{{"algorithmName":"{algorithm}","replenishRate":{replenish},"burstCapacity":"{burst}","requestCount":{cost}}}"#
        );
        Limiter::new(LimiterRule::read(Some(&handle)).expect("it is one"))
    }

    /// Returns how many of `requests` pass within one second.
    fn passing(limiter: &mut Limiter, requests: u32, now_s: u64) -> u32 {
        (0..requests).map(|_| u32::from(limiter.admit("k", now_s).is_some())).sum()
    }

    #[test]
    fn each_algorithm_lets_through_what_its_script_does() {
        /// Second, number of requests, number of those that pass.
        type Seconds = &'static [(u64, u32, u32)];
        let cases: [(&str, Limiter, Seconds); 4] = [
            ("tokenBucket", limiter("tokenBucket", 2, 5, 1), &[(0, 9, 5), (1, 9, 2), (9, 9, 5)]),
            ("cost", limiter("tokenBucket", 2, 5, 2), &[(0, 9, 2), (1, 9, 1), (2, 9, 1)]),
            ("leakyBucket", limiter("leakyBucket", 2, 5, 1), &[(0, 9, 5), (1, 9, 2), (9, 9, 5)]),
            (
                "slidingWindow",
                limiter("slidingWindow", 1, 3, 1),
                &[(0, 9, 3), (1, 2, 0), (3, 1, 0), (4, 9, 3)],
            ),
        ];
        for (name, mut limiter, seconds) in cases {
            for (now_s, requests, expected) in seconds {
                assert_eq!(
                    passing(&mut limiter, *requests, 1_000 + now_s),
                    *expected,
                    "{name} {now_s}"
                );
            }
        }
    }

    #[test]
    fn requests_under_way_are_counted_until_they_end() {
        let mut limiter = limiter("concurrent", 1, 2, 1);
        let key = limiter.admit("k", 0).expect("there is room");
        assert!(limiter.admit("k", 0).is_some());
        assert!(limiter.admit("k", 0).is_none());
        limiter.release(&key);
        assert!(limiter.admit("k", 0).is_some());
        assert!(limiter.admit("k", 0).is_none());
    }

    #[test]
    fn keys_beyond_the_bound_share_one_count() {
        let mut limiter = limiter("tokenBucket", 1, 1, 1);
        for number in 0..KEYS_MAX {
            assert!(limiter.admit(&number.to_string(), 0).is_some());
        }
        assert_eq!(limiter.admit("one more", 0).as_deref(), Some(SHARED_KEY));
        assert_eq!(limiter.admit("and one", 0), None);
        // Idle keys make room.
        assert_eq!(limiter.admit("later", 10).as_deref(), Some("later"));
    }

    #[test]
    fn a_request_is_counted_by_its_address_or_with_all() {
        let by_address =
            LimiterRule::read(Some(r#"{"keyResolverName":"REMOTE_ADDRESS_KEY_RESOLVER"}"#));
        let by_address = by_address.expect("it is one");
        let peer = IpAddr::from([10, 0, 0, 1]);
        let with = |name: &'static str, value: &'static str| {
            by_address.key(peer, move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(by_address.key(peer, |_| None), "10.0.0.1");
        assert_eq!(with("X-Forwarded-For", "1.2.3.4, 5.6.7.8"), "1.2.3.4");
        assert_eq!(with("X-Forwarded-For", " "), "10.0.0.1");
        assert_eq!(with("X-Real-IP", "1.2.3.4"), "1.2.3.4");
        let all = LimiterRule::read(None).expect("it is one");
        assert_eq!(all.key(peer, |_| None), "WHOLE_KEY_RESOLVER");
        for handle in [
            r#"{"algorithmName":"x"}"#,
            r#"{"burstCapacity":0}"#,
            r#"{"replenishRate":"many"}"#,
            r#"{"keyResolverName":"x"}"#,
        ] {
            assert!(LimiterRule::read(Some(handle)).is_err(), "{handle}");
        }
    }
}
