//! Counts in Redis, shared by all gateways that use it.

use std::sync::LazyLock;

use redis::Script;
use tollhouse_plugin::Moment;

use crate::redis::{Argument, Call, Servers, Unavailable};

use super::backend::Verdict;
use super::local::count_sliding;
use super::{Limit, WindowType};

/// Prefix of all Redis keys.
const KEY_PREFIX: &str = "plugin-limit-count";

/// Adds to a window, which begins with the first addition. Arguments: the number to add, the window
/// in milliseconds. Returns the sum and the remaining milliseconds.
static ADD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local used = redis.call('INCRBY', KEYS[1], ARGV[1]) \
         local left = redis.call('PTTL', KEYS[1]) \
         if left < 0 then \
           redis.call('PEXPIRE', KEYS[1], ARGV[2]) \
           left = tonumber(ARGV[2]) \
         end \
         return {used, left}",
    )
});

/// Counts a request in the current of two windows if there is room. Arguments: the current window's
/// number, the limit, the share of the previous window that still counts, the lifetime of the entry
/// in milliseconds. Returns the counts of both windows before this request.
static SLIDE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local state = redis.call('HMGET', KEYS[1], 'index', 'current', 'previous') \
         local index = tonumber(ARGV[1]) \
         local limit = tonumber(ARGV[2]) \
         local cost = tonumber(ARGV[5]) \
         local kept = tonumber(state[1]) or index \
         local current = tonumber(state[2]) or 0 \
         local previous = tonumber(state[3]) or 0 \
         if kept ~= index then \
           if kept == index - 1 then previous = current else previous = 0 end \
           current = 0 \
         end \
         local counted = current \
         if current + cost <= limit and current + cost - 1 + math.min(previous, limit) * tonumber(ARGV[3]) < limit then \
           counted = current + cost \
         end \
         redis.call('HSET', KEYS[1], 'index', ARGV[1], 'current', counted, 'previous', previous) \
         redis.call('PEXPIRE', KEYS[1], ARGV[4]) \
         return {current, previous}",
    )
});

/// Counts of one conf or group.
#[derive(Debug)]
pub(super) struct RemoteCounts {
    servers: Servers,
    prefix: Box<str>,
    window_type: WindowType,
}

impl RemoteCounts {
    pub(super) fn new(servers: Servers, owner: &str, window_type: WindowType) -> Self {
        let kind = if window_type == WindowType::Fixed { "" } else { "-sliding" };
        let prefix = format!("{KEY_PREFIX}{kind}:{owner}:").into_boxed_str();
        Self { servers, prefix, window_type }
    }

    pub(super) async fn count(
        &self,
        key: &[u8],
        limit: Limit,
        now: Moment,
    ) -> Result<Verdict, Unavailable> {
        match self.window_type {
            WindowType::Fixed => {
                let (used, left_ms) = self.add(key, limit.cost, limit).await?;
                Ok(Verdict::from_count(used, limit, left_ms))
            }
            WindowType::Sliding => self.slide(key, limit, now).await,
        }
    }

    /// Adds `cost` to the window of a key. Returns its sum and the remaining milliseconds.
    pub(super) async fn add(
        &self,
        key: &[u8],
        cost: u64,
        limit: Limit,
    ) -> Result<(u64, u64), Unavailable> {
        let arguments = [Argument::Whole(cost), Argument::Whole(limit.window_ms)];
        let key = self.key(key);
        let call = Call { script: &ADD, key: &key, further_key: None, arguments: &arguments };
        let (used, left_ms): (i64, i64) = self.servers.call(&call).await?;
        Ok((used.max(0) as u64, left_ms.max(0) as u64))
    }

    async fn slide(&self, key: &[u8], limit: Limit, now: Moment) -> Result<Verdict, Unavailable> {
        let left_ms = limit.window_ms - now.unix_ms % limit.window_ms;
        let arguments = [
            Argument::Whole(now.unix_ms / limit.window_ms),
            Argument::Whole(limit.count),
            Argument::Number(left_ms as f64 / limit.window_ms as f64),
            Argument::Whole(limit.window_ms.saturating_mul(2)),
            Argument::Whole(limit.cost),
        ];
        let key = self.key(key);
        let call = Call { script: &SLIDE, key: &key, further_key: None, arguments: &arguments };
        let (current, previous): (i64, i64) = self.servers.call(&call).await?;
        let (current, previous) = (current.max(0) as u64, previous.max(0) as u64);
        Ok(count_sliding(current, previous, limit, left_ms).1)
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), key].concat()
    }
}
