//! All counters and clients of a node, bounded in bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::LimiterCode;
use super::counter::Counter;
use super::messages::{QuotaCounter, QuotaLeft, RateLimitInitRequest, RateLimitReportRequest};

/// Maximum memory of all counters and clients.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Estimated memory of a counter without its texts and parts: the entries of two maps.
const COUNTER_BYTES: usize = 320;

/// Estimated memory of one part of a window.
const PART_BYTES: usize = 16;

/// Estimated memory of a client without its id, and of a client on a counter.
const CLIENT_BYTES: usize = 160;
const PRESENCE_BYTES: usize = 32;

/// Minimum time between two removals of idle counters.
const SWEEP_INTERVAL_MS: u64 = 1_000;

/// Time without a message after which a client is removed.
const CLIENT_IDLE_MS: u64 = 60_000;

/// Number under which a client reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientKey(pub(super) u32);

/// Name of a counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CounterName {
    namespace: Box<str>,
    service: Box<str>,
    labels: Box<str>,
    duration_s: u32,
}

/// A client that opens the counters of a rule for one text of labels.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    pub(super) client: ClientKey,
    pub(super) request: &'a RateLimitInitRequest,
    pub(super) labels: &'a str,
}

#[derive(Debug)]
struct ClientEntry {
    id: Arc<str>,
    seen_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    counters: HashMap<u32, (Arc<CounterName>, Counter)>,
    names: HashMap<Arc<CounterName>, u32>,
    clients: HashMap<ClientKey, ClientEntry>,
    ids: HashMap<Arc<str>, ClientKey>,
    last_counter: u32,
    last_client: u32,
    bytes: usize,
    swept_ms: u64,
}

impl Table {
    pub(super) fn counters(&self) -> usize {
        self.counters.len()
    }

    /// Returns the key of a client; a new client gets one.
    pub(super) fn client(&mut self, id: &str, now_ms: u64) -> Result<ClientKey, LimiterCode> {
        if let Some(key) = self.ids.get(id) {
            if let Some(client) = self.clients.get_mut(key) {
                client.seen_ms = now_ms;
            }
            return Ok(*key);
        }
        self.take(CLIENT_BYTES + id.len(), LimiterCode::TooManyClients)?;
        let key = loop {
            self.last_client = self.last_client.wrapping_add(1).max(1);
            if !self.clients.contains_key(&ClientKey(self.last_client)) {
                break ClientKey(self.last_client);
            }
        };
        let id: Arc<str> = id.into();
        self.ids.insert(Arc::clone(&id), key);
        self.clients.insert(key, ClientEntry { id, seen_ms: now_ms });
        Ok(key)
    }

    /// Opens the counters of a rule for a client.
    pub(super) fn open(
        &mut self,
        opening: &Opening<'_>,
        now_ms: u64,
    ) -> Result<Vec<QuotaCounter>, LimiterCode> {
        let Opening { client, request, labels } = opening;
        let target = request.target.as_ref().ok_or(LimiterCode::InvalidServiceName)?;
        let mut opened = Vec::with_capacity(request.totals.len());
        for total in &request.totals {
            let name = CounterName {
                namespace: target.namespace.as_str().into(),
                service: target.service.as_str().into(),
                labels: (*labels).into(),
                duration_s: total.duration,
            };
            let key = match self.names.get(&name) {
                Some(key) => *key,
                None => self.add(name, Counter::new(*total, request.slide_count, now_ms))?,
            };
            self.join(key, *client, now_ms)?;
            if let Some((_, counter)) = self.counters.get_mut(&key) {
                counter.update(*total, request.slide_count);
                opened.push(counter.opened(key, now_ms));
            }
        }
        Ok(opened)
    }

    fn add(&mut self, name: CounterName, counter: Counter) -> Result<u32, LimiterCode> {
        self.take(bytes_of(&name), LimiterCode::TooManyCounters)?;
        let key = loop {
            self.last_counter = self.last_counter.wrapping_add(1).max(1);
            if !self.counters.contains_key(&self.last_counter) {
                break self.last_counter;
            }
        };
        let name = Arc::new(name);
        self.names.insert(Arc::clone(&name), key);
        self.counters.insert(key, (name, counter));
        Ok(key)
    }

    /// Adds a client to a counter, unless it is there.
    fn join(&mut self, key: u32, client: ClientKey, now_ms: u64) -> Result<(), LimiterCode> {
        let (_, counter) = self.counters.get_mut(&key).ok_or(LimiterCode::NotFoundCounter)?;
        if !counter.has(client) {
            take(&mut self.bytes, PRESENCE_BYTES, LimiterCode::TooManyClients)?;
        }
        counter.see(client, now_ms);
        Ok(())
    }

    /// Counts what a client has used.
    pub(super) fn report(
        &mut self,
        request: &RateLimitReportRequest,
        now_ms: u64,
    ) -> Result<Vec<QuotaLeft>, LimiterCode> {
        let key = ClientKey(request.client_key);
        let client = self.clients.get_mut(&key).ok_or(LimiterCode::NotFoundClient)?;
        client.seen_ms = now_ms;
        let at_ms = request.timestamp.unsigned_abs();
        let mut lefts = Vec::with_capacity(request.quota_uses.len());
        for quota in &request.quota_uses {
            self.join(quota.counter_key, key, now_ms)?;
            if let Some((_, counter)) = self.counters.get_mut(&quota.counter_key) {
                counter.add(quota.used, at_ms, now_ms);
                lefts.push(counter.reported(quota.counter_key, now_ms));
            }
        }
        Ok(lefts)
    }

    /// Removes idle counters and clients, at most once in a while.
    pub(super) fn sweep(&mut self, now_ms: u64) {
        if now_ms < self.swept_ms + SWEEP_INTERVAL_MS {
            return;
        }
        self.swept_ms = now_ms;
        let Self { counters, names, clients, ids, bytes, .. } = self;
        counters.retain(|_, (name, counter)| {
            *bytes -= PRESENCE_BYTES * counter.sweep(now_ms);
            let is_idle = counter.is_idle(now_ms);
            if is_idle {
                names.remove(&**name);
                *bytes -= bytes_of(name) + PRESENCE_BYTES * counter.client_count();
            }
            !is_idle
        });
        clients.retain(|_, client| {
            let is_idle = client.seen_ms + CLIENT_IDLE_MS <= now_ms;
            if is_idle {
                ids.remove(&client.id);
                *bytes -= CLIENT_BYTES + client.id.len();
            }
            !is_idle
        });
    }

    fn take(&mut self, bytes: usize, code: LimiterCode) -> Result<(), LimiterCode> {
        take(&mut self.bytes, bytes, code)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Reserves memory.
fn take(held: &mut usize, bytes: usize, code: LimiterCode) -> Result<(), LimiterCode> {
    if *held + bytes > BYTES_MAX {
        return Err(code);
    }
    *held += bytes;
    Ok(())
}

/// Returns the memory charged for a counter, with the widest window, because a changed rule may have
/// more parts.
fn bytes_of(name: &CounterName) -> usize {
    let texts = name.namespace.len() + name.service.len() + name.labels.len();
    COUNTER_BYTES + texts + PART_BYTES * super::SLIDES_MAX as usize
}
