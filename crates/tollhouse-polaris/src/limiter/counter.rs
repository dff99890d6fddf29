//! A counter: the quota of one rule, for one text of labels and one length of window.
//!
//! Clients share a counter, and none of them may change it for the others. The window keeps the parts of
//! the first opening, and so the use: polaris-limiter too ignores the parts of later ones. polaris-limiter takes
//! the amount of the last opening; here the smallest amount of all clients holds, so that a client can raise
//! none but its own. A raised rule takes effect when the last client has opened it again or is silent.

use std::collections::HashMap;
use std::mem;

use super::messages::{Mode, QuotaCounter, QuotaLeft, QuotaMode, QuotaTotal};
use super::shares::Supply;
use super::table::ClientKey;
use super::window::Window;

/// Minimum time without a report after which a counter is removed, or a client does not count.
const IDLE_MIN_MS: u64 = 10_000;

/// Maximum of that time for clients, and for counters while memory is scarce.
const IDLE_MAX_MS: u64 = 600_000;

#[derive(Debug)]
pub(super) struct Counter {
    duration_s: u32,
    window: Window,
    clients: HashMap<ClientKey, Presence>,
    /// Number of clients that are not silent.
    active: u32,
    amounts: Amounts,
    used_ms: u64,
}

/// A client on a counter, with the quota it has opened last.
#[derive(Debug)]
struct Presence {
    total: QuotaTotal,
    seen_ms: u64,
    is_silent: bool,
}

/// Smallest amounts of all clients that are not silent, by mode.
#[derive(Debug, Default)]
struct Amounts {
    whole: Option<u32>,
    for_each: Option<u32>,
}

impl Counter {
    pub(super) fn new(duration_s: u32, slides: u32, now_ms: u64) -> Self {
        Self {
            duration_s,
            window: Window::new(u64::from(duration_s) * 1_000, slides),
            clients: HashMap::new(),
            active: 0,
            amounts: Amounts::default(),
            used_ms: now_ms,
        }
    }

    /// Adds a client, or takes its new amount. A lower amount holds at once; a higher one at the next sweep,
    /// or at once if no other client counts.
    pub(super) fn open(&mut self, client: ClientKey, total: QuotaTotal, now_ms: u64) {
        self.used_ms = now_ms;
        let presence = Presence { total, seen_ms: now_ms, is_silent: false };
        let before = self.clients.insert(client, presence);
        if before.is_none_or(|it| it.is_silent) {
            self.active += 1;
        }
        self.lower_amounts(total);
    }

    /// Counts what a client has used; one that has not opened the counter changes nothing.
    pub(super) fn report(&mut self, client: ClientKey, used: u32, at_ms: u64, now_ms: u64) {
        let Some(presence) = self.clients.get_mut(&client) else { return };
        presence.seen_ms = now_ms;
        if mem::take(&mut presence.is_silent) {
            let total = presence.total;
            self.active += 1;
            self.lower_amounts(total);
        }
        self.used_ms = now_ms;
        self.window.add(used, at_ms, now_ms);
    }

    fn lower_amounts(&mut self, total: QuotaTotal) {
        if self.active == 1 {
            self.amounts = Amounts::default();
        }
        self.amounts.lower(total);
    }

    pub(super) fn has(&self, client: ClientKey) -> bool {
        self.clients.contains_key(&client)
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = ClientKey> {
        self.clients.keys().copied()
    }

    /// Number of parts of the window, for which memory is charged.
    pub(super) fn parts(&self) -> usize {
        self.window.parts()
    }

    /// Keeps the clients that `is_kept` names; the next sweep counts them.
    pub(super) fn retain_clients(&mut self, mut is_kept: impl FnMut(ClientKey) -> bool) {
        self.clients.retain(|client, _| is_kept(*client));
    }

    /// Counts the clients, and marks silent ones, which count again when they report.
    pub(super) fn sweep(&mut self, now_ms: u64) {
        let idle_ms = self.idle_ms().min(IDLE_MAX_MS);
        (self.active, self.amounts) = (0, Amounts::default());
        for presence in self.clients.values_mut() {
            presence.is_silent = presence.seen_ms + idle_ms <= now_ms;
            if !presence.is_silent {
                self.active += 1;
                self.amounts.lower(presence.total);
            }
        }
    }

    pub(super) fn is_idle(&self, supply: Supply, now_ms: u64) -> bool {
        let idle_ms = match supply {
            Supply::Ample => self.idle_ms(),
            Supply::Scarce => self.idle_ms().min(IDLE_MAX_MS),
        };
        self.used_ms + idle_ms <= now_ms
    }

    fn idle_ms(&self) -> u64 {
        (2_000 * u64::from(self.duration_s)).max(IDLE_MIN_MS)
    }

    /// Returns what is left; negative if more was used.
    fn left(&self, now_ms: u64) -> i64 {
        let amount = self.amounts.smallest(self.active);
        amount.cast_signed().saturating_sub(self.window.total(now_ms).cast_signed())
    }

    pub(super) fn opened(&self, key: u32, now_ms: u64) -> QuotaCounter {
        QuotaCounter {
            duration: self.duration_s,
            counter_key: key,
            left: self.left(now_ms),
            mode: Mode::BatchOccupy.into(),
            client_count: self.active,
        }
    }

    pub(super) fn reported(&self, key: u32, now_ms: u64) -> QuotaLeft {
        QuotaLeft {
            counter_key: key,
            left: self.left(now_ms),
            mode: Mode::BatchOccupy.into(),
            client_count: self.active,
        }
    }
}

impl Amounts {
    fn lower(&mut self, total: QuotaTotal) {
        let amount = match total.mode() {
            QuotaMode::Whole => &mut self.whole,
            QuotaMode::Divide => &mut self.for_each,
        };
        *amount = Some(amount.map_or(total.max_amount, |it| it.min(total.max_amount)));
    }

    /// Returns the amount of all clients together.
    fn smallest(&self, clients: u32) -> u64 {
        let for_each = self.for_each.map(|it| u64::from(it) * u64::from(clients));
        self.whole.map(u64::from).into_iter().chain(for_each).min().unwrap_or(0)
    }
}
