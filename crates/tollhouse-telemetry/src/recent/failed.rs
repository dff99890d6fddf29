//! Failed requests of one core: a fixed number of records, shared by kinds of failure. A kind is a
//! route with an error code. When all records are in use, the kind with the most gives up its
//! oldest, so that a frequent failure does not erase a rare one.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{RING_RECORDS, RecentRequest, ShortText};
use crate::codes::ErrorCode;

/// Limit of kinds of failure per core. The kind that failed longest ago makes room for a new one.
pub const GROUPS_MAX: usize = 64;

/// Marks the end of a list of records.
const NONE: u16 = u16::MAX;

const _: () = assert!(RING_RECORDS < NONE as usize && GROUPS_MAX < RING_RECORDS);

/// A kind of failure, with its count.
#[derive(Debug, Clone, Copy)]
pub struct FailureGroup {
    /// Id of the route; empty if none matched.
    pub route: ShortText<64>,
    pub code: Option<ErrorCode>,
    /// Status sent; 0 if `code` is set, because its status may vary.
    pub status: u16,
    /// Plugin that refused; empty if none did.
    pub plugin: ShortText<32>,
    /// Number of failures since the kind was first seen, or since it made room for others.
    pub count: u64,
    /// First of them, in milliseconds since 1970.
    pub first_ms: u64,
    /// Latest of them, in milliseconds since 1970.
    pub last_ms: u64,
}

/// A kind with its records, the oldest first.
#[derive(Debug)]
struct Group {
    /// Hash of route, code, status and plugin.
    key: u64,
    facts: FailureGroup,
    oldest: u16,
    newest: u16,
    length: u16,
}

#[derive(Debug)]
struct Record {
    request: RecentRequest,
    /// The next newer record of the kind.
    next: u16,
}

/// The failed requests of a core. Allocates only when it is created.
#[derive(Debug)]
pub(super) struct FailedRequests {
    records: Vec<Record>,
    groups: Vec<Group>,
    /// Records of kinds that made room for others.
    free: Vec<u16>,
}

impl FailedRequests {
    pub(super) fn new() -> Self {
        Self {
            records: Vec::with_capacity(RING_RECORDS),
            groups: Vec::with_capacity(GROUPS_MAX),
            free: Vec::with_capacity(RING_RECORDS),
        }
    }

    /// Stores a record. Costs a pass over the kinds.
    pub(super) fn push(&mut self, request: RecentRequest) {
        let group = self.group(&request);
        let place = self.place(Record { request, next: NONE });
        let group = &mut self.groups[group];
        match group.newest {
            NONE => group.oldest = place,
            newest => self.records[usize::from(newest)].next = place,
        }
        group.newest = place;
        group.length += 1;
        group.facts.count += 1;
        group.facts.last_ms = request.unix_ms;
    }

    /// Returns the index of the request's kind, which is created if it is new.
    fn group(&mut self, request: &RecentRequest) -> usize {
        let status = if request.code.is_some() { 0 } else { request.status };
        let mut hasher = DefaultHasher::new();
        let texts = (request.route.as_bytes(), request.plugin.as_bytes());
        (texts, request.code, status).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(index) = self.groups.iter().position(|group| group.key == key) {
            return index;
        }
        if self.groups.len() == GROUPS_MAX {
            self.drop_stalest();
        }
        let facts = FailureGroup {
            route: request.route,
            code: request.code,
            status,
            plugin: request.plugin,
            count: 0,
            first_ms: request.unix_ms,
            last_ms: request.unix_ms,
        };
        self.groups.push(Group { key, facts, oldest: NONE, newest: NONE, length: 0 });
        self.groups.len() - 1
    }

    /// Drops the kind that failed longest ago.
    fn drop_stalest(&mut self) {
        let stalest = self.groups.iter().enumerate().min_by_key(|(_, group)| group.facts.last_ms);
        let Some((index, _)) = stalest else { return };
        let group = self.groups.swap_remove(index);
        let mut place = group.oldest;
        while place != NONE {
            self.free.push(place);
            place = self.records[usize::from(place)].next;
        }
    }

    /// Stores a record and returns its index. If no place is free, it replaces the oldest record of
    /// the failure group that has the most records.
    fn place(&mut self, record: Record) -> u16 {
        if self.free.is_empty() && self.records.len() < RING_RECORDS {
            self.records.push(record);
            return u16::try_from(self.records.len() - 1).unwrap_or(NONE);
        }
        let place = self.free.pop().unwrap_or_else(|| self.take_oldest());
        self.records[usize::from(place)] = record;
        place
    }

    fn take_oldest(&mut self) -> u16 {
        let largest = self.groups.iter_mut().max_by_key(|group| group.length);
        let group = largest.expect("there are records, and each belongs to a kind");
        let place = group.oldest;
        group.oldest = self.records[usize::from(place)].next;
        group.length -= 1;
        if group.oldest == NONE {
            group.newest = NONE;
        }
        place
    }

    /// Returns all records, in no particular order.
    pub(super) fn records(&self) -> impl Iterator<Item = &RecentRequest> {
        let is_free = |place: usize| self.free.iter().any(|free| usize::from(*free) == place);
        let used = self.records.iter().enumerate().filter(move |(place, _)| !is_free(*place));
        used.map(|(_, record)| &record.request)
    }

    pub(super) fn groups(&self) -> Vec<FailureGroup> {
        self.groups.iter().map(|group| group.facts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;

    fn failure(route: &str, code: ErrorCode, unix_ms: u64) -> RecentRequest {
        let route = ShortText::new(route.as_bytes());
        RecentRequest { route, ..request(code.status(), Some(code), unix_ms) }
    }

    fn kept(failed: &FailedRequests, route: &str) -> Vec<u64> {
        let own = failed.records().filter(|record| record.route.text() == route);
        let mut times: Vec<u64> = own.map(|record| record.unix_ms).collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn a_frequent_failure_does_not_erase_a_rare_one() {
        let mut failed = FailedRequests::new();
        (0..3).for_each(|at| failed.push(failure("rare", ErrorCode::NoNodes, at)));
        let loud = 10 * RING_RECORDS as u64;
        (0..loud).for_each(|at| failed.push(failure("loud", ErrorCode::UpstreamReset, 10 + at)));
        assert_eq!(kept(&failed, "rare"), [0, 1, 2]);
        let newest = kept(&failed, "loud");
        assert_eq!(newest.len(), RING_RECORDS - 3);
        assert_eq!(newest.last(), Some(&(9 + loud)));
        let groups = failed.groups();
        assert_eq!((groups[1].count, groups[1].first_ms, groups[1].last_ms), (loud, 10, 9 + loud));
    }

    #[test]
    fn kinds_differ_by_route_code_and_plugin() {
        let mut failed = FailedRequests::new();
        failed.push(failure("a", ErrorCode::NoNodes, 1));
        failed.push(failure("b", ErrorCode::NoNodes, 2));
        failed.push(failure("a", ErrorCode::UpstreamReset, 3));
        failed.push(RecentRequest {
            plugin: ShortText::new(b"key-auth"),
            ..failure("a", ErrorCode::NoNodes, 4)
        });
        failed.push(failure("a", ErrorCode::NoNodes, 5));
        let counts: Vec<u64> = failed.groups().iter().map(|group| group.count).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
    }

    #[test]
    fn the_kind_that_failed_longest_ago_makes_room() {
        let mut failed = FailedRequests::new();
        let kinds = 3 * GROUPS_MAX as u64;
        (0..kinds).for_each(|at| failed.push(failure(&at.to_string(), ErrorCode::NoNodes, at)));
        assert_eq!(failed.groups().len(), GROUPS_MAX);
        assert_eq!(failed.records().count(), GROUPS_MAX);
        assert!(kept(&failed, "0").is_empty());
        assert_eq!(kept(&failed, &(kinds - 1).to_string()), [kinds - 1]);
        // The places of dropped kinds are used again.
        let more = 2 * RING_RECORDS as u64;
        (0..more).for_each(|at| failed.push(failure("loud", ErrorCode::NoNodes, kinds + at)));
        assert_eq!(failed.records().count(), RING_RECORDS);
    }
}
