//! Store of the `cache` plugin: responses of nodes in memory, for the lifetime that a rule sets,
//! within a byte limit.
//!
//! The caller decides which responses may be stored and for whom.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::Deserialize;
use tollhouse_shenyu::lenient;

use crate::handle::{self, HandleError};

/// Maximum size of all stored responses together in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Largest response that is stored, so that a few cannot displace all others.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Estimated overhead of an entry in bytes: its places in two tables.
const ENTRY_BYTES: usize = 256;

/// Maximum lifetime in seconds: one year.
const TIMEOUT_S_MAX: i64 = 31_536_000;

/// Rule of the plugin `cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRule {
    /// Lifetime of a stored response in milliseconds.
    pub lifetime_ms: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    cache_type: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::integer")]
    timeout_seconds: Option<i64>,
}

impl CacheRule {
    /// Reads a rule's handle and the cache type in the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If either is not a JSON object of this shape, or a value is unsupported or out of range.
    pub fn read(handle: Option<&str>, config: Option<&str>) -> Result<Self, HandleError> {
        let config: Config = handle::read(config)?;
        if !matches!(config.cache_type.as_str(), "" | "memory") {
            return Err(HandleError::Name {
                member: "cacheType",
                value: config.cache_type,
                possible: "memory",
            });
        }
        let handle: Handle = handle::read(handle)?;
        let seconds = handle.timeout_seconds.unwrap_or(60);
        let (least, most) = (1, TIMEOUT_S_MAX);
        let lifetime = u64::try_from(seconds).ok().filter(|_| (least..=most).contains(&seconds));
        let bounds = HandleError::Bounds { member: "timeoutSeconds", value: seconds, least, most };
        Ok(Self { lifetime_ms: lifetime.ok_or(bounds)? * 1000 })
    }
}

/// Part of a response that the cache stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedResponse<B> {
    /// Value of `Content-Type`, if present.
    pub content_type: Option<Vec<u8>>,
    pub body: B,
}

/// Responses by key. Times are milliseconds since an arbitrary fixed moment. `B` holds a body and
/// is cheap to clone.
#[derive(Debug)]
pub struct Cache<B> {
    entries: HashMap<Vec<u8>, Entry<B>, foldhash::fast::RandomState>,
    /// Keys in the order of their last use.
    order: BTreeMap<u64, Vec<u8>>,
    uses: u64,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry<B> {
    response: CachedResponse<B>,
    ends_ms: u64,
    used: u64,
    bytes: usize,
}

impl<B> Default for Cache<B> {
    fn default() -> Self {
        Self::with_bytes_max(BYTES_MAX)
    }
}

impl<B> Cache<B> {
    fn with_bytes_max(bytes_max: usize) -> Self {
        let (entries, order) = (HashMap::default(), BTreeMap::new());
        Self { entries, order, uses: 0, bytes: 0, bytes_max }
    }
}

impl<B: AsRef<[u8]> + Clone> Cache<B> {
    /// Returns the response for a key, unless it has expired.
    pub fn find(&mut self, key: &[u8], now_ms: u64) -> Option<CachedResponse<B>> {
        let entry = self.entries.get_mut(key)?;
        if entry.ends_ms <= now_ms {
            self.remove(key);
            return None;
        }
        if let Some(name) = self.order.remove(&entry.used) {
            self.uses += 1;
            entry.used = self.uses;
            self.order.insert(self.uses, name);
        }
        Some(entry.response.clone())
    }

    /// Stores a response until `ends_ms`. Evicts the least recently used ones to make room; a
    /// response that is too large is not stored.
    pub fn keep(&mut self, key: &[u8], response: CachedResponse<B>, ends_ms: u64) {
        self.remove(key);
        let body_bytes = response.body.as_ref().len();
        let type_bytes = response.content_type.as_ref().map_or(0, Vec::len);
        let bytes = 2 * key.len() + body_bytes + type_bytes + ENTRY_BYTES;
        if body_bytes > ANSWER_BYTES_MAX || bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some(oldest) = self.order.first_key_value().map(|(_, key)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.order.insert(self.uses, key.to_vec());
        self.entries.insert(key.to_vec(), Entry { response, ends_ms, used: self.uses, bytes });
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(body: &str) -> CachedResponse<Vec<u8>> {
        CachedResponse { content_type: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn answers_are_kept_for_as_long_as_their_rule_says() {
        let mut cache = Cache::default();
        cache.keep(b"a", kept("1"), 1000);
        assert_eq!(cache.find(b"a", 999), Some(kept("1")));
        assert_eq!(cache.find(b"b", 999), None);
        assert_eq!(cache.find(b"a", 1000), None);
        assert_eq!((cache.bytes, cache.order.len()), (0, 0));
        cache.keep(b"a", kept("2"), 2000);
        cache.keep(b"a", kept("3"), 2000);
        assert_eq!(cache.find(b"a", 1000), Some(kept("3")));
        assert_eq!(cache.entries.len(), 1);
    }

    #[test]
    fn what_nobody_asks_for_makes_room_and_the_bound_holds() {
        let mut cache = Cache::with_bytes_max(3 * (ENTRY_BYTES + 3));
        for key in [b"a", b"b", b"c"] {
            cache.keep(key, kept("1"), 1000);
        }
        assert!(cache.find(b"a", 0).is_some());
        cache.keep(b"d", kept("1"), 1000);
        let found: Vec<_> = [b"a", b"b", b"c", b"d"].map(|key| cache.find(key, 0).is_some()).into();
        assert_eq!(found, [true, false, true, true]);
        cache.keep(b"e", kept(&"x".repeat(4 * ENTRY_BYTES)), 1000);
        assert!(cache.find(b"e", 0).is_none() && cache.bytes <= cache.bytes_max);
    }

    #[test]
    fn rules_say_how_long_and_the_plugin_where() {
        let read = |handle, config| CacheRule::read(handle, config).map(|rule| rule.lifetime_ms);
        assert_eq!(read(None, None), Ok(60_000));
        let memory = Some(r#"{"cacheType":"memory"}"#);
        assert_eq!(read(Some(r#"{"timeoutSeconds":"5"}"#), memory), Ok(5000));
        assert!(read(None, Some(r#"{"cacheType":"redis"}"#)).is_err());
        assert!(read(Some(r#"{"timeoutSeconds":0}"#), memory).is_err());
    }
}
