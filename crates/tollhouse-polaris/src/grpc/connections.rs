//! Open connections of clients, over all threads, for operators who list or close them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;

/// Table of open connections; clones share it. The slots of the listeners bound its size.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Mutex<HashMap<SocketAddr, Entry>>>);

#[derive(Debug)]
struct Entry {
    since: SystemTime,
    closing: Arc<Notify>,
}

/// An open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenConnection {
    pub peer: SocketAddr,
    /// Time at which it was accepted.
    pub since: SystemTime,
}

/// Registration of a connection; removed on drop.
#[derive(Debug)]
pub(super) struct Registration {
    table: Connections,
    peer: SocketAddr,
    closing: Arc<Notify>,
}

impl Connections {
    pub(super) fn enter(&self, peer: SocketAddr) -> Registration {
        let closing: Arc<Notify> = Arc::default();
        let entry = Entry { since: SystemTime::now(), closing: Arc::clone(&closing) };
        self.lock().insert(peer, entry);
        Registration { table: self.clone(), peer, closing }
    }

    /// Returns the connections from an address, or all of them, sorted by address.
    pub fn list(&self, host: Option<IpAddr>) -> Vec<OpenConnection> {
        let table = self.lock();
        let of_host =
            table.iter().filter(|(peer, _)| host.is_none_or(|it| it == peer.ip().to_canonical()));
        let mut listed: Vec<_> = of_host
            .map(|(peer, entry)| OpenConnection { peer: *peer, since: entry.since })
            .collect();
        drop(table);
        listed.sort_by_key(|connection| connection.peer);
        listed
    }

    /// Ends the connection from a port of an address, or with port 0 all from the address. Returns
    /// their number.
    pub fn close(&self, host: IpAddr, port: u16) -> usize {
        let table = self.lock();
        let chosen = table.iter().filter(|(peer, _)| {
            peer.ip().to_canonical() == host && (port == 0 || peer.port() == port)
        });
        chosen.map(|(_, entry)| entry.closing.notify_one()).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// Waits until an operator closes the connection.
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        // The client may use its port again before this connection has ended.
        if table.get(&self.peer).is_some_and(|it| Arc::ptr_eq(&it.closing, &self.closing)) {
            table.remove(&self.peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn connections_are_listed_and_closed_by_address() {
        let table = Connections::default();
        let [first, second, other] =
            ["10.0.0.1:1", "[::ffff:10.0.0.1]:2", "10.0.0.2:1"].map(|it| table.enter(peer(it)));
        let host = peer("10.0.0.1:0").ip();
        assert_eq!((table.list(None).len(), table.list(Some(host)).len()), (3, 2));
        assert_eq!(table.close(host, 2), 1);
        second.closed().await;
        assert_eq!(table.close(host, 0), 2);
        first.closed().await;
        drop((first, second));
        assert_eq!(table.list(None).len(), 1);
        drop(other);
        assert!(table.list(None).is_empty());
    }

    #[test]
    fn a_port_that_is_used_again_keeps_its_new_connection() {
        let table = Connections::default();
        let ended = table.enter(peer("10.0.0.1:1"));
        let next = table.enter(peer("10.0.0.1:1"));
        drop(ended);
        assert_eq!(table.list(None).len(), 1);
        drop(next);
        assert!(table.list(None).is_empty());
    }
}
