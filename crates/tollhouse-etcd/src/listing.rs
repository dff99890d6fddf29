//! Reads: one key, a page, or all keys of a prefix at one revision.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::keys::{Keys, revision_of, to_number};
use crate::member::{RANGE, TIME_TO_LIVE};
use crate::messages::{KeyValue, LeaseRequest, RangeRequest, RangeResponse};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollhouse_store::{Entry, Listing, Revision};

/// Maximum number of keys per request, which for ordinary objects yields a response of some hundred
/// kilobytes.
const PAGE_KEYS: i64 = 500;

/// Number of keys in the first page, before the size of values is known. Even with values as large
/// as etcd allows, the response arrives in time.
const FIRST_PAGE_KEYS: i64 = 8;

/// Target size of later pages, in bytes, estimated from the values read so far.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Maximum factor by which the number of keys grows from one page to the next.
const GROWTH: i64 = 8;

/// Maximum number of attempts at one listing. An attempt fails if etcd compacts its revision before
/// the last page.
const LISTINGS_MAX: usize = 4;

/// Maximum number of leases whose expiry is read in one listing, with a request for each. Objects
/// rarely have a lease; the expiry of further entries is known only when they are read alone.
const LEASES_ASKED_MAX: usize = 16;

/// Access to the keys of an etcd.
pub(crate) struct Reader<'a> {
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) keys: &'a Keys,
}

/// A range of keys in etcd.
#[derive(Clone)]
struct Range {
    first: Bytes,
    end: Bytes,
    revision: Revision,
    keys_max: i64,
}

impl Reader<'_> {
    pub(crate) async fn entry(&self, key: &str) -> Result<Option<Entry>, Failure> {
        let request = RangeRequest { key: self.keys.outside(key), ..RangeRequest::default() };
        let answer = self.endpoints.read(&RANGE, &request).await?;
        Ok(self.entries(key, &answer.kvs).await?.pop())
    }

    /// Lists everything under a prefix, at one revision.
    pub(crate) async fn listing(&self, prefix: &str) -> Result<Listing, Failure> {
        let mut tries = 1;
        loop {
            match self.listing_once(prefix).await {
                Err(failure) if failure.is_compacted() && tries < LISTINGS_MAX => tries += 1,
                listing => return listing,
            }
        }
    }

    async fn listing_once(&self, prefix: &str) -> Result<Listing, Failure> {
        let (first, end) = self.keys.range(prefix);
        let mut range = Range { first, end, revision: Revision::ZERO, keys_max: FIRST_PAGE_KEYS };
        let mut entries: Vec<KeyValue> = Vec::new();
        loop {
            let page = match self.page(&range).await {
                Err(failure) if failure.is_too_large() && range.keys_max > 1 => {
                    range.keys_max /= 2;
                    continue;
                }
                // The response may have been too large. If etcd is down, the next request fails
                // too.
                Err(Failure::Unanswered(_)) if range.keys_max > FIRST_PAGE_KEYS => {
                    range.keys_max = FIRST_PAGE_KEYS;
                    continue;
                }
                page => page?,
            };
            // The first page determines the revision of all pages.
            if range.revision == Revision::ZERO {
                range.revision = revision_of(page.header.as_ref());
            }
            let is_last = !page.more;
            let is_empty = page.kvs.is_empty();
            range.go_behind(&page.kvs);
            range.weigh(&page.kvs);
            entries.extend(page.kvs);
            if is_last || is_empty {
                break;
            }
        }
        Ok(Listing { revision: range.revision, entries: self.entries(prefix, &entries).await? })
    }

    /// Lists at most `entries_max` entries under a prefix after a key.
    pub(crate) async fn listing_after(
        &self,
        prefix: &str,
        after: &str,
        entries_max: usize,
    ) -> Result<Listing, Failure> {
        let (first, end) = self.keys.range(prefix);
        let mut range = Range { first, end, revision: Revision::ZERO, keys_max: PAGE_KEYS };
        if after >= prefix {
            range.first = behind(&self.keys.outside(after));
            // etcd rejects a range whose end is before its first key.
            if !after.starts_with(prefix) && !is_before_end(&range) {
                return Ok(Listing { revision: self.revision().await?, entries: Vec::new() });
            }
        }
        let mut entries = Vec::new();
        let mut revision = Revision::ZERO;
        loop {
            let missing = entries_max.saturating_sub(entries.len());
            let keys_max = range.keys_max.min(i64::try_from(missing).unwrap_or(i64::MAX));
            // In etcd a limit of 0 means no limit. A request for no entries still needs the
            // revision.
            let asked = Range { keys_max: keys_max.max(1), ..range.clone() };
            let page = match self.page(&asked).await {
                Err(failure) if failure.is_too_large() && range.keys_max > 1 => {
                    range.keys_max /= 2;
                    continue;
                }
                page => page?,
            };
            revision = revision.max(revision_of(page.header.as_ref()));
            let is_last = !page.more || missing == 0;
            let is_empty = page.kvs.is_empty();
            range.go_behind(&page.kvs);
            entries.extend(self.entries(prefix, &page.kvs).await?);
            entries.truncate(entries_max);
            if is_last || is_empty || entries.len() >= entries_max {
                return Ok(Listing { revision, entries });
            }
        }
    }

    /// Returns the revision of the newest commit, including those of other programs.
    pub(crate) async fn revision(&self) -> Result<Revision, Failure> {
        let key = self.keys.tick();
        let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        Ok(revision_of(self.endpoints.read(&RANGE, &request).await?.header.as_ref()))
    }

    async fn page(&self, range: &Range) -> Result<RangeResponse, Failure> {
        let request = RangeRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            limit: range.keys_max,
            revision: to_number(range.revision),
            ..RangeRequest::default()
        };
        self.endpoints.read(&RANGE, &request).await
    }

    /// Converts entries under a prefix, and reads the expiry of their leases.
    async fn entries(&self, prefix: &str, held: &[KeyValue]) -> Result<Vec<Entry>, Failure> {
        let mut ends: BTreeMap<i64, Option<u64>> = BTreeMap::new();
        for lease in held.iter().map(|held| held.lease).filter(|lease| *lease != 0) {
            if ends.len() < LEASES_ASKED_MAX && !ends.contains_key(&lease) {
                ends.insert(lease, self.end_of(lease).await?);
            }
        }
        let entry = |held: &KeyValue| {
            let mut entry = self.keys.entry_below(prefix, held)?;
            entry.expires_at_ms = ends.get(&held.lease).copied().flatten();
            Some(entry)
        };
        Ok(held.iter().filter_map(entry).collect())
    }

    async fn end_of(&self, lease: i64) -> Result<Option<u64>, Failure> {
        let request = LeaseRequest { id: lease };
        let ttl = self.endpoints.read(&TIME_TO_LIVE, &request).await?.ttl;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let end = u64::try_from(ttl).ok().map(|ttl| now + Duration::from_secs(ttl));
        Ok(end.map(|end| u64::try_from(end.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Range {
    /// Moves the start of the range after the keys read.
    fn go_behind(&mut self, read: &[KeyValue]) {
        if let Some(last) = read.last() {
            self.first = behind(&last.key);
        }
    }

    /// Sets the number of keys of the next page, so that it is expected to have the target size.
    fn weigh(&mut self, read: &[KeyValue]) {
        let bytes: usize = read.iter().map(|held| held.key.len() + held.value.len()).sum();
        let each = bytes / read.len().max(1);
        let keys = i64::try_from(PAGE_BYTES / each.max(1)).unwrap_or(PAGE_KEYS);
        self.keys_max = keys.clamp(1, PAGE_KEYS).min(self.keys_max * GROWTH);
    }
}

/// Returns the smallest key after this one.
fn behind(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

fn is_before_end(range: &Range) -> bool {
    range.first < range.end || *range.end == *b"\0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_as_many_keys_as_come_in_time() {
        let mut range = Range {
            first: Bytes::new(),
            end: Bytes::new(),
            revision: Revision::ZERO,
            keys_max: FIRST_PAGE_KEYS,
        };
        let page = |keys: usize, bytes: usize| -> Vec<KeyValue> {
            let entries = || KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() };
            (0..keys).map(|_| entries()).collect()
        };
        let cases = [
            (page(8, 1_000), 64),
            (page(64, 1_000), PAGE_KEYS),
            (page(500, 1_000), PAGE_KEYS),
            (page(500, 100_000), 20),
            (page(20, 1_900_000), 1),
            (page(1, 10), 8),
            (page(0, 0), 64),
        ];
        for (number, (read, expected)) in cases.into_iter().enumerate() {
            range.weigh(&read);
            assert_eq!(range.keys_max, expected, "page {number}");
        }
    }
}
