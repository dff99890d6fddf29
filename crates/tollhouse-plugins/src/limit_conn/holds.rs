//! Places that concurrent requests occupy, in this process or in Redis. Dropping a hold frees its
//! place.

use std::sync::{Arc, LazyLock};

use redis::Script;
use serde_json::Value;
use tollhouse_plugin::{ConfError, Moment, Scope};

use crate::redis::conf::Policy;
use crate::redis::{Argument, Call, Servers, Unavailable};
use crate::shared::confs::identity::identity;
use crate::shared::limits::table::{After, Entry, Prefix, Table, Tag};

/// Default of `key_ttl`: seconds that a request counts in Redis if its end is never reported.
pub(super) const DEFAULT_KEY_TTL_SECONDS: u64 = 3600;

/// Prefix of all Redis keys.
const KEY_PREFIX: &str = "plugin-limit-conn";

/// Enters a request. Arguments: the limit, the seconds that it counts at most, the current time in
/// seconds, its name. Returns whether it entered and the number of concurrent requests.
static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local now = tonumber(ARGV[3]) \
         redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) \
         local under_way = redis.call('ZCARD', KEYS[1]) \
         if under_way >= tonumber(ARGV[1]) then return {0, under_way} end \
         redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[4]) \
         redis.call('EXPIRE', KEYS[1], ARGV[2]) \
         return {1, under_way + 1}",
    )
});

/// Redis script that removes a finished request from the set of its key.
static LEAVE: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('ZREM', KEYS[1], ARGV[1])"));

/// Number of concurrent requests of one key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ActiveCount(u64);

impl Entry for ActiveCount {
    fn is_over(&self, _now_ms: u64) -> bool {
        self.0 == 0
    }

    fn rank(&self) -> u64 {
        // Never evicted: connections are bounded elsewhere, and a lost entry would be decremented
        // below zero.
        u64::MAX
    }
}

/// Storage of concurrent requests: this process, or Redis.
#[derive(Debug)]
pub(super) enum HoldStore {
    Local(Arc<Table<ActiveCount>>, Prefix),
    Remote { servers: Arc<Servers>, prefix: Box<str>, ttl_seconds: u64 },
}

/// Outcome of admitting a request: it holds a place, or the limit is reached.
pub(super) enum Admission {
    /// Entered; the number is the count of concurrent requests, this one included.
    Holds(Hold, u64),
    /// As many requests as allowed are in progress.
    Full,
}

/// Place of a request in progress; freed on drop.
pub(super) enum Hold {
    Local(Arc<Table<ActiveCount>>, Tag),
    Remote(Arc<Servers>, Vec<u8>, String),
}

impl HoldStore {
    pub(super) fn open(policy: Policy, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let owner = identity(scope);
        let Some(servers) = Servers::parse(policy, scope.conf)? else {
            let table = scope.keep("limit-conn", Table::new);
            let prefix = table.prefix(&owner);
            return Ok(HoldStore::Local(table, prefix));
        };
        let ttl = scope.conf.get("key_ttl").and_then(Value::as_u64);
        Ok(HoldStore::Remote {
            servers: Arc::new(servers),
            prefix: format!("{KEY_PREFIX}:{owner}:").into(),
            ttl_seconds: ttl.unwrap_or(DEFAULT_KEY_TTL_SECONDS).max(1),
        })
    }

    pub(super) fn is_remote(&self) -> bool {
        matches!(self, HoldStore::Remote { .. })
    }

    /// Enters a request without waiting. Only for local counts; use `ask` otherwise.
    pub(super) fn enter(&self, key: &[u8], limit: u64) -> Admission {
        // Remote counts are never asked here.
        let HoldStore::Local(table, prefix) = self else { return Admission::Full };
        let tag = prefix.tag(&[key]);
        let under_way = table.update(tag, 0, ActiveCount::default, |count| {
            let has_room = count.0 < limit;
            count.0 += u64::from(has_room);
            has_room.then_some(count.0)
        });
        match under_way {
            Some(under_way) => Admission::Holds(Hold::Local(Arc::clone(table), tag), under_way),
            None => Admission::Full,
        }
    }

    pub(super) async fn ask(
        &self,
        key: &[u8],
        limit: u64,
        now: Moment,
        random: u64,
    ) -> Result<Admission, Unavailable> {
        let HoldStore::Remote { servers, prefix, ttl_seconds } = self else {
            return Ok(self.enter(key, limit));
        };
        let key = [prefix.as_bytes(), key].concat();
        // Name that is unique among concurrent requests.
        let name = format!("{random:016x}{:x}", now.unix_ms);
        let arguments = [
            Argument::Whole(limit),
            Argument::Whole(*ttl_seconds),
            Argument::Whole(now.unix_ms / 1000),
            Argument::Text(&name),
        ];
        let call = Call { script: &ENTER, key: &key, further_key: None, arguments: &arguments };
        let (has_entered, under_way): (bool, u64) = servers.call(&call).await?;
        if !has_entered {
            return Ok(Admission::Full);
        }
        Ok(Admission::Holds(Hold::Remote(Arc::clone(servers), key, name), under_way))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        match self {
            Hold::Local(table, tag) => {
                table.change(*tag, 0, |count| {
                    count.0 -= 1;
                    ((), if count.0 == 0 { After::Gone } else { After::Kept })
                });
            }
            Hold::Remote(servers, key, name) => {
                // Without a runtime the process is exiting; the entry in Redis expires.
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                let servers = Arc::clone(servers);
                let (key, name) = (std::mem::take(key), std::mem::take(name));
                runtime.spawn(async move {
                    let arguments = [Argument::Text(&name)];
                    let call = Call {
                        script: &LEAVE,
                        key: &key,
                        further_key: None,
                        arguments: &arguments,
                    };
                    // The failure has been logged already, and the entry in Redis expires.
                    let _: Result<u64, Unavailable> = servers.call(&call).await;
                });
            }
        }
    }
}
