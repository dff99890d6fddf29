//! Rehearsed refusals: calls that a locked gate would have refused, by caller, of the last day.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Duration for which a refusal is kept, in milliseconds.
const KEPT_MS: u64 = 24 * 3600 * 1000;
/// Time between two searches of a full table for old refusals, in milliseconds: a search visits all
/// entries, and callers can fill the table with any names.
const SEARCH_INTERVAL_MS: u64 = 60 * 1000;
/// Maximum number of kinds of refusals: with texts of [`TEXT_CHARS_MAX`] about 3 MiB.
const ENTRIES_MAX: usize = 4_096;
/// Maximum length of each text of an entry, in characters.
const TEXT_CHARS_MAX: usize = 128;

/// Refusals of the last day, which callers can fill up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Rehearsal(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<RefusedCall, Times>,
    /// Refusals without room since the start.
    dropped: u64,
    /// Earliest time of the next search for old refusals.
    next_search_ms: u64,
}

/// A kind of calls that would have been refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RefusedCall {
    /// Name of the caller, or its address if it has no valid token.
    pub(crate) caller: String,
    pub(crate) function: String,
    /// First resource that the call touches; empty if none.
    pub(crate) resource: String,
    /// Number of the code that the call would have been answered with.
    pub(crate) code: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

impl Rehearsal {
    pub(crate) fn add(&self, call: RefusedCall, now_ms: u64) {
        let call = RefusedCall {
            caller: shortened(call.caller),
            function: shortened(call.function),
            resource: shortened(call.resource),
            code: call.code,
        };
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = table.entries.len() >= ENTRIES_MAX && !table.entries.contains_key(&call);
        if is_full {
            if now_ms >= table.next_search_ms {
                table.next_search_ms = now_ms + SEARCH_INTERVAL_MS;
                table.entries.retain(|_, times| times.last_ms + KEPT_MS > now_ms);
            }
            if table.entries.len() >= ENTRIES_MAX {
                table.dropped += 1;
                return;
            }
        }
        let first = Times { count: 0, first_ms: now_ms, last_ms: now_ms };
        let times = table.entries.entry(call).or_insert(first);
        times.count += 1;
        times.last_ms = now_ms;
    }

    /// Returns the refusals of the last day, sorted by caller, and the number of those that had no
    /// room.
    pub(crate) fn list(&self, now_ms: u64) -> (Vec<(RefusedCall, Times)>, u64) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.entries.retain(|_, times| times.last_ms + KEPT_MS > now_ms);
        let entries = table.entries.iter().map(|(call, times)| (call.clone(), *times));
        let mut entries: Vec<_> = entries.collect();
        let dropped = table.dropped;
        drop(table);
        entries.sort_by(|(first, _), (second, _)| first.cmp(second));
        (entries, dropped)
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(caller: &str) -> RefusedCall {
        let [function, resource] = ["Call", "ns/name"].map(str::to_owned);
        RefusedCall { caller: caller.to_owned(), function, resource, code: 401_001 }
    }

    #[test]
    fn refusals_are_counted_for_a_day() {
        let rehearsal = Rehearsal::default();
        rehearsal.add(call("b"), 1);
        rehearsal.add(call("a"), 2);
        rehearsal.add(call("b"), 3);
        let (entries, dropped) = rehearsal.list(KEPT_MS);
        let shown: Vec<_> =
            entries.iter().map(|(call, times)| (&*call.caller, times.count)).collect();
        assert_eq!((shown, dropped), (vec![("a", 1), ("b", 2)], 0));
        let (entries, _) = rehearsal.list(KEPT_MS + 2);
        assert_eq!(entries.len(), 1, "only b was refused later than a day ago");
    }

    #[test]
    fn callers_cannot_make_the_list_grow() {
        let rehearsal = Rehearsal::default();
        for number in 0..=ENTRIES_MAX {
            rehearsal.add(call(&format!("{number}{}", "é".repeat(1_000))), 5);
        }
        let (entries, dropped) = rehearsal.list(5);
        assert_eq!((entries.len(), dropped), (ENTRIES_MAX, 1));
        assert!(entries.iter().all(|(call, _)| call.caller.chars().count() == TEXT_CHARS_MAX));
        rehearsal.add(call("late"), 5 + KEPT_MS);
        assert_eq!(rehearsal.list(5 + KEPT_MS).0.len(), 1, "room was made for it");
    }
}
