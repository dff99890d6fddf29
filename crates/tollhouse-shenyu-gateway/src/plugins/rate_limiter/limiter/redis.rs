//! Plugin `rateLimiter` with counts in Redis, so that several gateways share them: the servers and
//! the scripts to run. Keys, values and expiry times match ShenYu's own scripts, so that ShenYu's
//! gateways share these counts. Performs no IO.

use serde::Deserialize;

use super::{Algorithm, LimiterRule};
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Port of a server that is configured without one.
const DEFAULT_PORT: u16 = 6379;

/// Maximum number of servers in one configuration.
const SERVERS_MAX: usize = 64;

/// Redis servers that hold the counts.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisServers {
    pub mode: RedisMode,
    /// Host and port of each server.
    pub addresses: Vec<(String, u16)>,
    /// Name of the master, for sentinels.
    pub master: String,
    /// Password of the servers; empty for none.
    pub password: String,
    pub database: i64,
}

impl std::fmt::Debug for RedisServers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RedisServers({:?}, {:?}, {})", self.mode, self.addresses, self.database)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisMode {
    Standalone,
    /// Sentinels, which name the current master.
    Sentinel,
    /// Cluster, in which the key determines the server.
    Cluster,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    mode: String,
    #[serde(deserialize_with = "lenient::or_default")]
    master: String,
    #[serde(deserialize_with = "lenient::or_default")]
    url: String,
    #[serde(deserialize_with = "lenient::text")]
    password: Option<String>,
    #[serde(deserialize_with = "lenient::or_zero")]
    database: i64,
}

impl RedisServers {
    /// Reads the plugin's configuration; `None` if it names no server.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, an address is invalid, or the servers do not fit
    /// the mode.
    pub fn read(config: Option<&str>) -> Result<Option<Self>, HandleError> {
        let config: Config = handle::read(config)?;
        let mode = match config.mode.to_ascii_lowercase().as_str() {
            "" | "standalone" => RedisMode::Standalone,
            "sentinel" => RedisMode::Sentinel,
            "cluster" => RedisMode::Cluster,
            _ => {
                return Err(HandleError::Name {
                    member: "mode",
                    value: config.mode,
                    possible: "standalone, sentinel, cluster",
                });
            }
        };
        let urls = config.url.split([';', ',']).map(str::trim).filter(|url| !url.is_empty());
        let addresses: Vec<_> =
            (1..).zip(urls).map(|(index, url)| address(index, url)).collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Ok(None);
        }
        let wrong = |reason: &str| Err(HandleError::Malformed(reason.to_owned()));
        if addresses.len() > SERVERS_MAX || (mode == RedisMode::Standalone && addresses.len() > 1) {
            return wrong("`url` names more servers than `mode` has room for");
        }
        if mode == RedisMode::Sentinel && config.master.trim().is_empty() {
            return wrong("`master` must be the name that the sentinels know the server by");
        }
        Ok(Some(Self {
            mode,
            addresses,
            master: config.master.trim().to_owned(),
            password: config.password.unwrap_or_default(),
            database: config.database,
        }))
    }
}

fn address(index: usize, url: &str) -> Result<(String, u16), HandleError> {
    let url = url.strip_prefix("redis://").unwrap_or(url).trim_end_matches('/');
    let (host, port) = match url.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| HandleError::Address(index))?),
        None => (url, DEFAULT_PORT),
    };
    let is_host = !host.is_empty() && !host.contains(['/', '@', ' ']) && port > 0;
    if is_host { Ok((host.to_owned(), port)) } else { Err(HandleError::Address(index)) }
}

/// Script with its keys and arguments. Its first result is 0 if the request is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptCall {
    /// Source of the script in Lua, for `EVAL`.
    pub script: &'static str,
    /// Keys of the script; both belong to one server of a cluster.
    pub keys: [String; 2],
    /// Rate, burst, time in seconds, and cost.
    pub arguments: [f64; 4],
}

/// Stores the tokens and the time of the count for twice the time that the bucket takes to fill.
const TOKEN_BUCKET: &str = "\
local rate, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens = tonumber(redis.call('get', KEYS[1])) or burst
local last = tonumber(redis.call('get', KEYS[2])) or 0
tokens = math.min(burst, tokens + math.max(0, now - last) * rate)
local passes = 0
if tokens >= cost then tokens = tokens - cost; passes = 1 end
local keep = math.max(1, math.floor(burst / rate * 2))
redis.call('setex', KEYS[1], keep, tokens)
redis.call('setex', KEYS[2], keep, now)
return passes";

/// Stores the level and the time of the count until the bucket would have drained.
const LEAKY_BUCKET: &str = "\
local rate, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level = tonumber(redis.call('get', KEYS[1])) or 0
local last = tonumber(redis.call('get', KEYS[2])) or now
level = math.max(0, level - math.max(0, now - last) * rate)
local passes = 0
if level + cost <= burst then level = level + cost; passes = 1 end
local keep = math.max(1, math.ceil(burst / rate + 1))
redis.call('setex', KEYS[1], keep, level)
redis.call('setex', KEYS[2], keep, now)
return passes";

/// Stores the requests by the second of their arrival. Outdated ones are removed after the
/// decision.
const SLIDING_WINDOW: &str = "\
local rate, burst, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local window = burst / rate
local passes = 0
if redis.call('zcard', KEYS[1]) < burst then passes = 1 end
redis.call('zremrangebyscore', KEYS[1], 0, now - window)
if passes == 1 then redis.call('zadd', KEYS[1], now, KEYS[2]) end
redis.call('expire', KEYS[1], math.max(1, math.ceil(window)))
return passes";

/// Stores the open requests. Those of a crashed gateway expire after an hour; in ShenYu they never
/// do.
const CONCURRENT: &str = "\
local burst, now = tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('zremrangebyscore', KEYS[1], 0, now - 3600)
if redis.call('zcard', KEYS[1]) >= burst then return 0 end
redis.call('zadd', KEYS[1], now, KEYS[2])
return 1";

/// Removes an open request that has ended.
const LEAVE: &str = "return redis.call('zrem', KEYS[1], KEYS[2])";

impl LimiterRule {
    /// Returns the script call that decides about a request. `id` is the rule's, `key` comes from
    /// [`Self::key`], `request` is unique to the request, and `now_s` is in seconds since 1970.
    #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^52")]
    pub fn ask(&self, id: &str, key: &str, request: &str, now_s: u64) -> ScriptCall {
        let (prefix, script) = match self.algorithm {
            Algorithm::TokenBucket => ("request_rate_limiter", TOKEN_BUCKET),
            Algorithm::LeakyBucket => ("request_leaky_rate_limiter", LEAKY_BUCKET),
            Algorithm::SlidingWindow => ("sliding_window_request_rate_limiter", SLIDING_WINDOW),
            Algorithm::Concurrent => ("concurrent_request_rate_limiter", CONCURRENT),
        };
        let name = format!("{prefix}.{{{id}-{key}}}");
        let second = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => format!("{name}.timestamp"),
            // A member of the set. Redis checks it as a key, so it carries the same hash tag in
            // braces.
            Algorithm::SlidingWindow | Algorithm::Concurrent => format!("{{{id}-{key}}}{request}"),
        };
        ScriptCall {
            script,
            keys: [format!("{name}.tokens"), second],
            arguments: [self.replenish, self.burst, now_s as f64, self.cost],
        }
    }

    /// Returns the script call that ends a request admitted by [`Self::ask`]; `None` unless open
    /// requests are counted.
    pub fn leave(&self, asked: &ScriptCall) -> Option<ScriptCall> {
        self.counts_open_requests().then(|| ScriptCall { script: LEAVE, ..asked.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_the_configuration() {
        let read = |text: &str| RedisServers::read(Some(text));
        let one =
            |text: &str| read(text).ok().flatten().map(|servers| (servers.mode, servers.addresses));
        let at = |host: &str, port| (host.to_owned(), port);
        assert_eq!(one("{}"), None);
        assert_eq!(
            one(r#"{"url":"10.0.0.1:6380","password":"p","database":"2"}"#),
            Some((RedisMode::Standalone, vec![at("10.0.0.1", 6380)]))
        );
        assert_eq!(
            one(r#"{"mode":"cluster","url":"a:1; redis://b"}"#),
            Some((RedisMode::Cluster, vec![at("a", 1), at("b", 6379)]))
        );
        let sentinel = r#"{"mode":"sentinel","url":"a:1","master":"m","password":"secret"}"#;
        let servers = read(sentinel).ok().flatten().expect("it names servers");
        assert!(!format!("{servers:?}").contains("secret"));
        for bad in [
            r#"{"mode":"other","url":"a:1"}"#,
            r#"{"mode":"sentinel","url":"a:1"}"#,
            r#"{"url":"a:1;b:2"}"#,
            r#"{"url":"a:x"}"#,
            r#"{"url":"u:p@a:1"}"#,
            "[]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_those_of_shenyus_scripts() {
        let keys = |algorithm: &str| {
            let handle = format!(r#"{{"algorithmName":"{algorithm}"}}"#);
            let rule = LimiterRule::read(Some(&handle)).expect("it is one");
            rule.ask("7", "1.2.3.4", "x", 5).keys
        };
        assert_eq!(
            keys("tokenBucket"),
            [
                "request_rate_limiter.{7-1.2.3.4}.tokens",
                "request_rate_limiter.{7-1.2.3.4}.timestamp"
            ]
        );
        assert_eq!(keys("leakyBucket")[0], "request_leaky_rate_limiter.{7-1.2.3.4}.tokens");
        assert_eq!(
            keys("slidingWindow")[0],
            "sliding_window_request_rate_limiter.{7-1.2.3.4}.tokens"
        );
        assert_eq!(keys("concurrent")[0], "concurrent_request_rate_limiter.{7-1.2.3.4}.tokens");
    }

    #[test]
    fn only_requests_that_are_counted_while_under_way_have_to_leave() {
        let rule = |handle| LimiterRule::read(Some(handle)).expect("it is one");
        let concurrent = rule(r#"{"algorithmName":"concurrent"}"#);
        let asked = concurrent.ask("1", "k", "x", 0);
        assert_eq!(concurrent.leave(&asked).map(|left| left.keys), Some(asked.keys));
        let bucket = rule("{}");
        assert_eq!(bucket.leave(&bucket.ask("1", "k", "x", 0)), None);
    }
}
