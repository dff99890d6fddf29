//! Reported clients: SDKs tell every two minutes that they are there. In memory only, bounded, and
//! forgotten when they fall silent.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use hashbrown::HashMap;

use crate::clock::milliseconds;
use crate::limits::{CLIENT_KEPT, CLIENTS_MAX};

/// A client as it last reported itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: Box<str>,
    /// First seen at this millisecond of Unix time.
    pub first_seen_ms: u64,
    /// Last seen at this millisecond of Unix time.
    pub last_seen_ms: u64,
    /// What it said, as the dialect writes it.
    pub body: Bytes,
}

/// All clients; see the module.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<HashMap<Box<str>, Client>>);

impl Clients {
    /// Takes a report. Past the bound, a client that is not known yet is not remembered.
    pub(crate) fn report(&self, id: &str, body: Bytes, now_ms: u64) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(id) {
            client.last_seen_ms = now_ms;
            client.body = body;
            return;
        }
        if clients.len() >= CLIENTS_MAX {
            forget_silent(&mut clients, now_ms);
        }
        if clients.len() < CLIENTS_MAX {
            let client =
                Client { id: id.into(), first_seen_ms: now_ms, last_seen_ms: now_ms, body };
            clients.insert(id.into(), client);
        }
    }

    /// Those that are not silent, by id.
    pub(crate) fn list(&self, now_ms: u64) -> Vec<Client> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forget_silent(&mut clients, now_ms);
        let mut listed: Vec<Client> = clients.values().cloned().collect();
        listed.sort_by(|first, second| first.id.cmp(&second.id));
        listed
    }
}

fn forget_silent(clients: &mut HashMap<Box<str>, Client>, now_ms: u64) {
    let oldest_ms = now_ms.saturating_sub(milliseconds(CLIENT_KEPT));
    clients.retain(|_, client| client.last_seen_ms >= oldest_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_listed_until_it_falls_silent() {
        let clients = Clients::default();
        clients.report("b", Bytes::from_static(b"1"), 1_000);
        clients.report("a", Bytes::new(), 1_000);
        clients.report("b", Bytes::from_static(b"2"), 300_000);
        let ids =
            |now| clients.list(now).into_iter().map(|c| String::from(c.id)).collect::<Vec<_>>();
        assert_eq!(ids(361_000), ["a", "b"]);
        assert_eq!(ids(361_001), ["b"]);
        assert_eq!(clients.list(361_001)[0].body, Bytes::from_static(b"2"));
    }
}
