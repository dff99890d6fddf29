//! All counters and clients of a node, bounded in bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::LimiterCode;
use super::counter::Counter;
use super::messages::{QuotaCounter, QuotaLeft, RateLimitInitRequest, RateLimitReportRequest};
use super::owner::Owner;
use super::shares::{Payer, Shares};

/// Estimated memory of a counter without its texts and parts: the entries of two maps.
const COUNTER_BYTES: usize = 384;

/// Estimated memory of one part of a window.
const PART_BYTES: usize = 16;

/// Estimated memory of a client without its id, with its shares, and of a client on a counter.
const CLIENT_BYTES: usize = 256;
const PRESENCE_BYTES: usize = 48;

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

/// Name of a client: owners choose ids, so that two owners with one id are two clients.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ClientName {
    owner: Owner,
    id: Box<str>,
}

#[derive(Debug)]
struct ClientEntry {
    name: Arc<ClientName>,
    seen_ms: u64,
}

#[derive(Debug)]
struct CounterEntry {
    name: Arc<CounterName>,
    counter: Counter,
    /// Client that has opened the counter first, or that has taken its place.
    payer: Payer,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    counters: HashMap<u32, CounterEntry>,
    names: HashMap<Arc<CounterName>, u32>,
    clients: HashMap<ClientKey, ClientEntry>,
    ids: HashMap<Arc<ClientName>, ClientKey>,
    last_counter: u32,
    last_client: u32,
    shares: Shares,
    swept_ms: u64,
}

impl Table {
    pub(super) fn counters(&self) -> usize {
        self.counters.len()
    }

    /// Returns the key of a client of an owner; a new client gets one.
    pub(super) fn client(
        &mut self,
        owner: &Owner,
        id: &str,
        now_ms: u64,
    ) -> Result<ClientKey, LimiterCode> {
        let name = ClientName { owner: *owner, id: id.into() };
        if let Some(key) = self.ids.get(&name) {
            if let Some(client) = self.clients.get_mut(key) {
                client.seen_ms = now_ms;
            }
            return Ok(*key);
        }
        let key = loop {
            self.last_client = self.last_client.wrapping_add(1).max(1);
            if !self.clients.contains_key(&ClientKey(self.last_client)) {
                break ClientKey(self.last_client);
            }
        };
        let payer = Payer { client: key, peer: owner.peer() };
        self.shares.take(payer, CLIENT_BYTES + id.len(), LimiterCode::TooManyClients)?;
        let name = Arc::new(name);
        self.ids.insert(Arc::clone(&name), key);
        self.clients.insert(key, ClientEntry { name, seen_ms: now_ms });
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
        let payer = self.payer(*client).ok_or(LimiterCode::NotFoundClient)?;
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
                None => {
                    let counter = Counter::new(total.duration, request.slide_count, now_ms);
                    self.add(name, counter, payer)?
                }
            };
            let Self { counters, shares, .. } = self;
            let entry = counters.get_mut(&key).ok_or(LimiterCode::NotFoundCounter)?;
            if !entry.counter.has(*client) {
                shares.take(payer, PRESENCE_BYTES, LimiterCode::TooManyClients)?;
            }
            entry.counter.open(*client, *total, now_ms);
            opened.push(entry.counter.opened(key, now_ms));
        }
        Ok(opened)
    }

    fn payer(&self, client: ClientKey) -> Option<Payer> {
        self.clients.get(&client).map(|entry| entry.payer(client))
    }

    fn add(
        &mut self,
        name: CounterName,
        counter: Counter,
        payer: Payer,
    ) -> Result<u32, LimiterCode> {
        let name = Arc::new(name);
        let entry = CounterEntry { name: Arc::clone(&name), counter, payer };
        self.shares.take(payer, entry.bytes(), LimiterCode::TooManyCounters)?;
        let key = loop {
            self.last_counter = self.last_counter.wrapping_add(1).max(1);
            if !self.counters.contains_key(&self.last_counter) {
                break self.last_counter;
            }
        };
        self.names.insert(name, key);
        self.counters.insert(key, entry);
        Ok(key)
    }

    /// Counts what a client has used, if the client is the owner's and has opened all counters it
    /// reports; otherwise counts nothing.
    pub(super) fn report(
        &mut self,
        owner: &Owner,
        request: &RateLimitReportRequest,
        now_ms: u64,
    ) -> Result<Vec<QuotaLeft>, LimiterCode> {
        let client = ClientKey(request.client_key);
        let entry = self.clients.get_mut(&client).filter(|entry| entry.name.owner == *owner);
        entry.ok_or(LimiterCode::NotFoundClient)?.seen_ms = now_ms;
        let is_open = |key| self.counters.get(key).is_some_and(|it| it.counter.has(client));
        if !request.quota_uses.iter().all(|quota| is_open(&quota.counter_key)) {
            return Err(LimiterCode::NotFoundCounter);
        }
        let at_ms = request.timestamp.unsigned_abs();
        let mut lefts = Vec::with_capacity(request.quota_uses.len());
        for quota in &request.quota_uses {
            if let Some(entry) = self.counters.get_mut(&quota.counter_key) {
                entry.counter.report(client, quota.used, at_ms, now_ms);
                lefts.push(entry.counter.reported(quota.counter_key, now_ms));
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
        let gone = self.remove_clients(now_ms);
        let Self { counters, names, clients, shares, .. } = self;
        let payer_of = |key| clients.get(&key).map(|entry| entry.payer(key));
        counters.retain(|_, entry| {
            entry.counter.retain_clients(|client| match gone.get(&client) {
                Some(payer) => {
                    shares.give_back(*payer, PRESENCE_BYTES);
                    false
                }
                None => true,
            });
            entry.counter.sweep(now_ms);
            if entry.counter.is_idle(shares.supply(entry.payer), now_ms) {
                names.remove(&*entry.name);
                shares.give_back(entry.payer, entry.bytes());
                for payer in entry.counter.clients().filter_map(payer_of) {
                    shares.give_back(payer, PRESENCE_BYTES);
                }
                return false;
            }
            let heir = entry.counter.clients().find_map(payer_of);
            if let Some(heir) = heir.filter(|_| payer_of(entry.payer.client).is_none()) {
                shares.pass_on(entry.payer, heir, entry.bytes());
                entry.payer = heir;
            }
            true
        });
        gone.keys().for_each(|client| self.shares.forget(*client));
    }

    /// Removes clients that have sent nothing for long, and returns them.
    fn remove_clients(&mut self, now_ms: u64) -> HashMap<ClientKey, Payer> {
        let Self { clients, ids, shares, .. } = self;
        let mut gone = HashMap::new();
        clients.retain(|key, client| {
            let is_idle = client.seen_ms + CLIENT_IDLE_MS <= now_ms;
            if is_idle {
                let payer = client.payer(*key);
                ids.remove(&client.name);
                shares.give_back(payer, CLIENT_BYTES + client.name.id.len());
                gone.insert(*key, payer);
            }
            !is_idle
        });
        gone
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.shares.bytes()
    }

    #[cfg(test)]
    pub(super) fn bytes_at(&self, owner: &Owner) -> usize {
        self.shares.bytes_at(owner.peer())
    }
}

impl ClientEntry {
    fn payer(&self, key: ClientKey) -> Payer {
        Payer { client: key, peer: self.name.owner.peer() }
    }
}

impl CounterEntry {
    /// Returns the memory charged for the counter.
    fn bytes(&self) -> usize {
        let texts = self.name.namespace.len() + self.name.service.len() + self.name.labels.len();
        COUNTER_BYTES + texts + PART_BYTES * self.counter.parts()
    }
}
