//! A counter: the quota of one rule, for one text of labels and one length of window.

use std::collections::HashMap;

use super::messages::{Mode, QuotaCounter, QuotaLeft, QuotaMode, QuotaTotal};
use super::table::ClientKey;
use super::window::Window;

/// Minimum time without a report after which a counter or a client of it is removed.
const IDLE_MIN_MS: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Counter {
    total: QuotaTotal,
    window: Window,
    /// Time of the last report of each client, in milliseconds.
    clients: HashMap<ClientKey, u64>,
    used_ms: u64,
}

impl Counter {
    pub(super) fn new(total: QuotaTotal, slides: u32, now_ms: u64) -> Self {
        let window = Window::new(u64::from(total.duration) * 1_000, slides);
        Self { total, window, clients: HashMap::new(), used_ms: now_ms }
    }

    /// Takes the quota of a changed rule; the use stays unless the parts of the window differ.
    pub(super) fn update(&mut self, total: QuotaTotal, slides: u32) {
        if self.window.parts() != slides.max(1) as usize {
            self.window = Window::new(u64::from(total.duration) * 1_000, slides);
        }
        self.total = total;
    }

    /// Notes that a client uses the counter. Returns whether the client is new.
    pub(super) fn see(&mut self, client: ClientKey, now_ms: u64) -> bool {
        self.used_ms = now_ms;
        self.clients.insert(client, now_ms).is_none()
    }

    pub(super) fn has(&self, client: ClientKey) -> bool {
        self.clients.contains_key(&client)
    }

    pub(super) fn add(&mut self, used: u32, at_ms: u64, now_ms: u64) {
        self.window.add(used, at_ms, now_ms);
    }

    pub(super) fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Removes silent clients, and returns their number.
    pub(super) fn sweep(&mut self, now_ms: u64) -> usize {
        let (before, idle_ms) = (self.clients.len(), self.idle_ms());
        self.clients.retain(|_, seen_ms| *seen_ms + idle_ms > now_ms);
        before - self.clients.len()
    }

    pub(super) fn is_idle(&self, now_ms: u64) -> bool {
        self.used_ms + self.idle_ms() <= now_ms
    }

    fn idle_ms(&self) -> u64 {
        (2_000 * u64::from(self.total.duration)).max(IDLE_MIN_MS)
    }

    /// Returns what is left; negative if more was used.
    fn left(&self, now_ms: u64) -> i64 {
        let amount = u64::from(self.total.max_amount);
        let amount = match self.total.mode() {
            QuotaMode::Whole => amount,
            QuotaMode::Divide => amount.saturating_mul(self.clients.len() as u64),
        };
        amount.cast_signed().saturating_sub(self.window.total(now_ms).cast_signed())
    }

    pub(super) fn opened(&self, key: u32, now_ms: u64) -> QuotaCounter {
        QuotaCounter {
            duration: self.total.duration,
            counter_key: key,
            left: self.left(now_ms),
            mode: Mode::BatchOccupy.into(),
            client_count: self.clients.len() as u32,
        }
    }

    pub(super) fn reported(&self, key: u32, now_ms: u64) -> QuotaLeft {
        QuotaLeft {
            counter_key: key,
            left: self.left(now_ms),
            mode: Mode::BatchOccupy.into(),
            client_count: self.clients.len() as u32,
        }
    }
}
