//! Counts in this process that are exchanged with Redis at intervals. Requests do not wait, but all
//! gateways together may exceed the limit for up to one interval. While Redis is down, each gateway
//! counts alone and reports its requests afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollhouse_plugin::Moment;

use crate::redis::Unavailable;
use crate::shared::limits::table::{After, Entry, Prefix, Table};

use super::Limit;
use super::backend::Verdict;
use super::remote::RemoteCounts;

/// Maximum number of keys that wait for the next exchange. Further keys are exchanged when their
/// next window begins.
const DIRTY_KEYS_MAX: usize = 65_536;

/// Counts of one conf or group.
#[derive(Debug)]
pub(super) struct DelayedCounts {
    counts: RemoteCounts,
    interval: Duration,
    table: Table<KeyCount>,
    prefix: Prefix,
    dirty: Mutex<Vec<(Box<[u8]>, Limit)>>,
    is_flushing: AtomicBool,
    began: Instant,
}

/// Count of one key, with the part that Redis does not know yet.
#[derive(Debug, Clone, Copy)]
struct KeyCount {
    /// Requests of all gateways, from the last exchange.
    agreed: u64,
    /// Local requests since the last exchange.
    pending: u64,
    /// End of the window in milliseconds.
    ends_ms: u64,
}

impl Entry for KeyCount {
    fn is_over(&self, now_ms: u64) -> bool {
        self.ends_ms <= now_ms
    }

    fn rank(&self) -> u64 {
        self.ends_ms
    }
}

impl KeyCount {
    /// Counts a request. The `bool` says whether it is the first one since the last exchange.
    fn count(&mut self, limit: Limit, now_ms: u64) -> (Verdict, bool) {
        let used = self.agreed + self.pending;
        let verdict = Verdict::from_count(used.saturating_add(limit.cost), limit, self.ends_ms - now_ms);
        let passes = matches!(verdict, Verdict::Passes(_));
        let begins = passes && self.pending == 0;
        self.pending += if passes { limit.cost } else { 0 };
        (verdict, begins)
    }
}

impl DelayedCounts {
    pub(super) fn new(counts: RemoteCounts, interval: Duration) -> Self {
        let table = Table::new();
        let prefix = table.prefix("");
        Self {
            counts,
            interval,
            table,
            prefix,
            dirty: Mutex::default(),
            is_flushing: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// Counts a request. Only the first request of a window waits for Redis.
    pub(super) async fn count(self: &Arc<Self>, key: &[u8], limit: Limit, now: Moment) -> Verdict {
        // A window that variables made shorter than the interval is counted in Redis directly.
        if Duration::from_millis(limit.window_ms) <= self.interval
            && let Ok(verdict) = self.counts.count(key, limit, now).await
        {
            return verdict;
        }
        let tag = self.prefix.tag(&[key]);
        let now_ms = self.now_ms();
        let counted =
            self.table.change(tag, now_ms, |entry| (entry.count(limit, now_ms), After::Kept));
        let (verdict, begins) = match counted {
            Some(counted) => counted,
            None => match self.counts.add(key, limit.cost, limit).await {
                Ok((used, left_ms)) => {
                    let ends_ms = self.now_ms().saturating_add(left_ms);
                    let make = || KeyCount { agreed: used, pending: 0, ends_ms };
                    let agree = |entry: &mut KeyCount| entry.agreed = entry.agreed.max(used);
                    self.table.update(tag, now_ms, make, agree);
                    (Verdict::from_count(used, limit, left_ms), false)
                }
                Err(Unavailable) => self.count_alone(key, limit),
            },
        };
        if begins {
            self.note(key, limit);
        }
        verdict
    }

    /// Counts a request of a window while Redis does not answer.
    fn count_alone(&self, key: &[u8], limit: Limit) -> (Verdict, bool) {
        let now_ms = self.now_ms();
        let ends_ms = now_ms.saturating_add(limit.window_ms);
        let make = || KeyCount { agreed: 0, pending: 0, ends_ms };
        let tag = self.prefix.tag(&[key]);
        self.table.update(tag, now_ms, make, |entry| entry.count(limit, now_ms))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Registers the key for the next exchange.
    fn note(self: &Arc<Self>, key: &[u8], limit: Limit) {
        {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            if dirty.len() < DIRTY_KEYS_MAX {
                dirty.push((key.into(), limit));
            }
        }
        if self.is_flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        let flushing = Flushing(Arc::clone(self));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(flushing.run())),
            Err(_) => drop(flushing),
        }
    }

    /// Sends the pending count to Redis and stores the sum of all gateways.
    async fn exchange(&self, key: &[u8], limit: Limit) {
        let tag = self.prefix.tag(&[key]);
        let sent = self.table.change(tag, self.now_ms(), |entry| {
            let sent = std::mem::take(&mut entry.pending);
            // Counted here until Redis has them.
            entry.agreed += sent;
            (sent, After::Kept)
        });
        let Some(sent) = sent.filter(|sent| *sent > 0) else { return };
        let answer = self.counts.add(key, sent, limit).await;
        self.table.change(tag, self.now_ms(), |entry| {
            match answer {
                Ok((used, _)) => entry.agreed = used,
                Err(Unavailable) => {
                    entry.agreed -= sent.min(entry.agreed);
                    entry.pending += sent;
                }
            }
            ((), After::Kept)
        });
        if answer.is_err() {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            if dirty.len() < DIRTY_KEYS_MAX {
                dirty.push((key.into(), limit));
            }
        }
    }
}

/// Running exchange task; on drop, the next one may start.
struct Flushing(Arc<DelayedCounts>);

impl Flushing {
    async fn run(self) {
        loop {
            tokio::time::sleep(self.0.interval).await;
            let dirty = {
                let mut dirty = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *dirty)
            };
            if dirty.is_empty() && self.rests() {
                return;
            }
            for (key, limit) in dirty {
                self.0.exchange(&key, limit).await;
            }
        }
    }

    /// Whether no key is pending, in which case the task ends.
    fn rests(&self) -> bool {
        // Checked under the lock, so that a key registered meanwhile is either seen here or starts
        // a new task.
        let dirty = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.is_empty() {
            self.0.is_flushing.store(false, Ordering::Release);
        }
        dirty.is_empty()
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        self.0.is_flushing.store(false, Ordering::Release);
    }
}
