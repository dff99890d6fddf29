//! Reading: one key, a page, or all that begins with a prefix as of one revision.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::keys::{Keys, revision_of, to_number};
use crate::member::{RANGE, TIME_TO_LIVE};
use crate::messages::{KeyValue, LeaseRequest, RangeRequest, RangeResponse};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollhouse_store::{Entry, Listing, Revision};

/// Keys asked for at a time: an answer of a few hundred kilobytes for ordinary objects.
const PAGE_KEYS: i64 = 500;

/// How often a listing is begun anew since etcd has forgotten its revision meanwhile.
const LISTINGS_MAX: usize = 4;

/// Leases whose end is asked for in one listing, a request each. Objects rarely have one; what further
/// entries belong to is looked at when they are read alone.
const LEASES_ASKED_MAX: usize = 16;

/// What is read with.
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

    /// Everything under a prefix, as of one revision.
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
        let mut range = Range { first, end, revision: Revision::ZERO, keys_max: PAGE_KEYS };
        let mut held: Vec<KeyValue> = Vec::new();
        loop {
            let page = match self.page(&range).await {
                Err(failure) if failure.is_too_large() && range.keys_max > 1 => {
                    range.keys_max /= 2;
                    continue;
                }
                page => page?,
            };
            // The first page decides as of when all of them are.
            if range.revision == Revision::ZERO {
                range.revision = revision_of(page.header.as_ref());
            }
            let is_last = !page.more;
            let is_empty = page.kvs.is_empty();
            range.go_behind(&page.kvs);
            held.extend(page.kvs);
            if is_last || is_empty {
                break;
            }
        }
        Ok(Listing { revision: range.revision, entries: self.entries(prefix, &held).await? })
    }

    /// At most so many entries under a prefix that come after a key.
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
            // etcd takes an end before the first key for a mistake.
            if !after.starts_with(prefix) && !is_before_end(&range) {
                return Ok(Listing { revision: self.revision().await?, entries: Vec::new() });
            }
        }
        let mut entries = Vec::new();
        let mut revision = Revision::ZERO;
        loop {
            let missing = entries_max.saturating_sub(entries.len());
            let keys_max = range.keys_max.min(i64::try_from(missing).unwrap_or(i64::MAX));
            // A limit of none is no limit, in etcd; and what asks for nothing wants the revision.
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

    /// The revision of the newest commit, of anybody.
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

    /// Entries under a prefix, with their ends.
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
    /// Goes on behind what was read.
    fn go_behind(&mut self, read: &[KeyValue]) {
        if let Some(last) = read.last() {
            self.first = behind(&last.key);
        }
    }
}

/// The first key after this one.
fn behind(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

fn is_before_end(range: &Range) -> bool {
    range.first < range.end || *range.end == *b"\0"
}
