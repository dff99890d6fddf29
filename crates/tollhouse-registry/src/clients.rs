//! Reported clients: SDKs report themselves every two minutes. The table is in memory only, bounded
//! in number and in bytes; a client that stops reporting is forgotten.
//!
//! The table is a persistent map: a listing copies the map and releases the lock at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tollhouse_stdx::CowMap;

use crate::clock::milliseconds;
use crate::limits::{
    CLIENT_BYTES_MAX, CLIENT_ID_CHARS_MAX, CLIENT_KEPT, CLIENTS_BYTES_MAX, CLIENTS_MAX,
};
use crate::texts::is_longer;

/// Maximum number of clients removed under one lock, so that a concurrent report waits for
/// microseconds only.
const SWEPT_AT_ONCE: usize = 256;

/// Report that a client sent about itself last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: Arc<str>,
    /// Time of the first report, in milliseconds of Unix time.
    pub first_seen_ms: u64,
    /// Time of the last report, in milliseconds of Unix time.
    pub last_seen_ms: u64,
    /// The report, encoded by the dialect.
    pub body: Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    clients: CowMap<Arc<str>, Arc<Client>>,
    /// Total bytes of all ids and bodies.
    bytes: usize,
}

impl Clients {
    /// Stores a report. A report that is too long is ignored, and so is an unknown client when the
    /// table is full.
    pub(crate) fn report(&self, id: &str, body: Bytes, now_ms: u64) {
        if is_longer(id, CLIENT_ID_CHARS_MAX) || body.len() > CLIENT_BYTES_MAX {
            return;
        }
        let mut table = self.lock();
        let known = table.clients.get(id).cloned();
        let before = known.as_ref().map_or(0, |client| client.bytes());
        debug_assert!(before <= table.bytes, "what is known was counted");
        let bytes = table.bytes - before + id.len() + body.len();
        if bytes > CLIENTS_BYTES_MAX || (known.is_none() && table.clients.len() >= CLIENTS_MAX) {
            return;
        }
        let first_seen_ms = known.as_ref().map_or(now_ms, |client| client.first_seen_ms);
        let id = known.map_or_else(|| id.into(), |client| Arc::clone(&client.id));
        let client = Client { id: Arc::clone(&id), first_seen_ms, last_seen_ms: now_ms, body };
        table.clients.insert(id, Arc::new(client));
        table.bytes = bytes;
    }

    /// Returns the clients that are not silent, sorted by id.
    pub(crate) fn list(&self, now_ms: u64) -> Vec<Arc<Client>> {
        let clients = self.version();
        let mut listed: Vec<_> =
            clients.values().filter(|client| !client.is_silent(now_ms)).cloned().collect();
        listed.sort_by(|first, second| first.id.cmp(&second.id));
        listed
    }

    /// Returns the number of clients that are not silent.
    pub(crate) fn count(&self, now_ms: u64) -> usize {
        self.version().values().filter(|client| !client.is_silent(now_ms)).count()
    }

    /// Removes the clients that have not reported for too long.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let version = self.version();
        let silent: Vec<&Arc<str>> = version
            .values()
            .filter(|client| client.is_silent(now_ms))
            .map(|client| &client.id)
            .collect();
        for ids in silent.chunks(SWEPT_AT_ONCE) {
            let mut table = self.lock();
            for id in ids {
                // The client may have reported again since the version was taken.
                if table.clients.get(&***id).is_some_and(|client| client.is_silent(now_ms)) {
                    let removed = table.clients.remove(&***id);
                    table.bytes -= removed.map_or(0, |client| client.bytes());
                }
            }
        }
    }

    fn version(&self) -> CowMap<Arc<str>, Arc<Client>> {
        self.lock().clients.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn bytes(&self) -> usize {
        self.id.len() + self.body.len()
    }

    fn is_silent(&self, now_ms: u64) -> bool {
        self.last_seen_ms < now_ms.saturating_sub(milliseconds(CLIENT_KEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(clients: &Clients, now_ms: u64) -> Vec<String> {
        clients.list(now_ms).iter().map(|client| client.id.to_string()).collect()
    }

    #[test]
    fn a_client_is_listed_until_it_falls_silent() {
        let clients = Clients::default();
        clients.report("b", Bytes::from_static(b"1"), 1_000);
        clients.report("a", Bytes::new(), 1_000);
        clients.report("b", Bytes::from_static(b"2"), 300_000);
        assert_eq!(ids(&clients, 361_000), ["a", "b"]);
        assert_eq!((ids(&clients, 361_001), clients.count(361_001)), (vec!["b".to_owned()], 1));
        assert_eq!(clients.list(361_001)[0].body, Bytes::from_static(b"2"));
        assert_eq!(clients.list(361_001)[0].first_seen_ms, 1_000);
        clients.sweep(361_001);
        let table = clients.lock();
        assert_eq!((table.clients.len(), table.bytes), (1, 2));
    }

    #[test]
    fn what_is_too_long_is_not_remembered() {
        let clients = Clients::default();
        clients.report(&"i".repeat(CLIENT_ID_CHARS_MAX + 1), Bytes::new(), 1);
        clients.report("long", vec![0; CLIENT_BYTES_MAX + 1].into(), 1);
        clients.report("fits", vec![0; CLIENT_BYTES_MAX].into(), 1);
        assert_eq!(ids(&clients, 1), ["fits"]);
    }

    #[test]
    fn a_flood_of_reports_stays_within_its_bytes_and_lets_known_ones_on() {
        let clients = Clients::default();
        let body = Bytes::from(vec![0; CLIENT_BYTES_MAX]);
        for number in 0..2 * CLIENTS_BYTES_MAX / CLIENT_BYTES_MAX {
            clients.report(&number.to_string(), body.clone(), 1);
        }
        let held: usize = clients.list(1).iter().map(|client| client.bytes()).sum();
        assert!(held <= CLIENTS_BYTES_MAX && held > CLIENTS_BYTES_MAX / 2, "{held}");
        assert_eq!(clients.lock().bytes, held);
        clients.report("0", Bytes::from_static(b"again"), 2);
        assert_eq!(clients.list(2)[0].last_seen_ms, 2);
    }
}
