//! Counts in this process, exact over all its cores.

use std::sync::Arc;

use tollhouse_plugin::{Moment, Scope};

use crate::shared::limits::table::{Entry, Prefix, Table};

use super::backend::Verdict;
use super::quota::Quota;
use super::{Limit, WindowType};

/// Name of the table that holds all local counts of the process.
const TABLE: &str = "limit-count";

/// Counts of one conf or group.
#[derive(Debug)]
pub(super) struct LocalCounts {
    table: Arc<Table<Count>>,
    prefix: Prefix,
    window_type: WindowType,
}

/// Count of one key in its current window.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    Fixed {
        used: u64,
        /// End of the window, in milliseconds of the monotonic clock.
        ends_ms: u64,
    },
    Sliding(Sliding),
}

/// Current and previous window, aligned to the wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sliding {
    index: u64,
    current: u64,
    previous: u64,
    /// Time at which both windows have passed, in milliseconds of the monotonic clock.
    over_ms: u64,
}

impl Entry for Count {
    fn is_over(&self, now_ms: u64) -> bool {
        self.rank() <= now_ms
    }

    fn rank(&self) -> u64 {
        match self {
            Count::Fixed { ends_ms, .. } => *ends_ms,
            Count::Sliding(windows) => windows.over_ms,
        }
    }
}

impl LocalCounts {
    pub(super) fn new(owner: &str, window_type: WindowType, scope: &Scope<'_>) -> Self {
        let table = scope.keep(TABLE, Table::new);
        let kind = if window_type == WindowType::Fixed { "fixed" } else { "sliding" };
        let prefix = table.prefix(&format!("{kind} {owner}"));
        Self { table, prefix, window_type }
    }

    pub(super) fn count(&self, key: &[u8], limit: Limit, now: Moment) -> Verdict {
        let tag = self.prefix.tag(&[key]);
        let now_ms = now.monotonic_ms;
        let make = || match self.window_type {
            WindowType::Fixed => {
                Count::Fixed { used: 0, ends_ms: now_ms.saturating_add(limit.window_ms) }
            }
            WindowType::Sliding => Count::Sliding(Sliding {
                index: now.unix_ms / limit.window_ms,
                current: 0,
                previous: 0,
                over_ms: 0,
            }),
        };
        self.table.update(tag, now_ms, make, |count| match count {
            Count::Fixed { used, ends_ms } => {
                *used = used.saturating_add(limit.cost);
                Verdict::from_count(*used, limit, *ends_ms - now_ms)
            }
            Count::Sliding(windows) => windows.count(limit, now),
        })
    }
}

impl Sliding {
    fn count(&mut self, limit: Limit, now: Moment) -> Verdict {
        let index = now.unix_ms / limit.window_ms;
        if index != self.index {
            self.previous = if index == self.index + 1 { self.current } else { 0 };
            self.current = 0;
            self.index = index;
        }
        let left_ms = limit.window_ms - now.unix_ms % limit.window_ms;
        self.over_ms = now.monotonic_ms.saturating_add(left_ms + limit.window_ms);
        let (passes, verdict) = count_sliding(self.current, self.previous, limit, left_ms);
        self.current = self.current.saturating_add(if passes { limit.cost } else { 0 });
        verdict
    }
}

/// Decides on a request by the counts of two windows. The `bool` says whether to count it.
pub(super) fn count_sliding(
    current: u64,
    previous: u64,
    limit: Limit,
    left_ms: u64,
) -> (bool, Verdict) {
    let refused = |reset_ms: u64| {
        (false, Verdict::Refused(Quota { limit: limit.count, remaining: 0, reset_ms }))
    };
    if current.saturating_add(limit.cost) > limit.count {
        return refused(up_to_hundredths(left_ms as f64));
    }
    let rate = previous.min(limit.count) as f64 / limit.window_ms as f64;
    let weighed = rate * left_ms as f64;
    let room = (limit.count - current) as f64;
    let cost = limit.cost as f64;
    // One request passes as long as there is any room, as clients know it.
    if weighed + cost - 1.0 >= room {
        // Time at which enough of the previous window has slid out.
        return refused(up_to_hundredths((left_ms as f64 - (room + 1.0 - cost) / rate).max(0.0)));
    }
    let remaining = (room - cost - weighed).floor().max(0.0) as u64;
    let reset_ms = up_to_hundredths(left_ms as f64);
    (true, Verdict::Passes(Quota { limit: limit.count, remaining, reset_ms }))
}

/// Rounds up to hundredths of a second.
fn up_to_hundredths(time_ms: f64) -> u64 {
    (time_ms / 10.0).ceil() as u64 * 10
}
