//! A session's place among those of its core, and what passes through it: datagrams to its node, or to where they
//! wait for one.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use tokio::net::UdpSocket;
use tollhouse_telemetry::DatagramDrop;

use super::sessions::{Session, SessionKey, State, WAITING_MAX};
use crate::worker::Worker;

/// A session's place among those of its core; free again when this is dropped.
pub(crate) struct Place {
    worker: Rc<Worker>,
    key: SessionKey,
    session: Rc<Session>,
    /// Of its task, once that has begun.
    number: Option<u64>,
}

impl Place {
    /// Takes a place for a new session, which begins with a datagram of `first_bytes`.
    ///
    /// # Errors
    /// All are taken, or as many as one address may have, or too much waits for nodes.
    pub(super) fn take(
        worker: &Rc<Worker>,
        key: SessionKey,
        first_bytes: usize,
    ) -> Result<Self, DatagramDrop> {
        let (sessions, settings) = (&worker.sessions, &worker.settings.streams);
        if sessions.len() >= settings.udp_sessions_per_worker {
            return Err(DatagramDrop::Limit);
        }
        let address = key.client.ip();
        let mut per_address = sessions.per_address.borrow_mut();
        let count = per_address.get(&address).copied().unwrap_or_default();
        if count >= settings.udp_sessions_per_address {
            return Err(DatagramDrop::LimitPerAddress);
        }
        // Last of the checks, as it takes what it counts: a refusal behind it would have to give that back.
        if !sessions.count_waiting(first_bytes) {
            return Err(DatagramDrop::Waiting);
        }
        per_address.insert(address, count + 1);
        let session = Rc::new(Session::new(first_bytes, worker.clock.now_ms()));
        sessions.by_key.borrow_mut().insert(key, Rc::clone(&session));
        worker.open.begin();
        worker.metrics.udp_sessions.increment();
        worker.metrics.udp_sessions_open.increment();
        Ok(Self { worker: Rc::clone(worker), key, session, number: None })
    }

    /// Ties it to the task that calls this: failures and a drain wake it.
    pub(super) async fn enter(&mut self) {
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        self.session.task.replace(Some(task.clone()));
        self.number = Some(self.worker.open.enter(task));
    }

    /// Who sends.
    pub(super) fn client(&self) -> SocketAddr {
        self.key.client
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let sessions = &self.worker.sessions;
        sessions.by_key.borrow_mut().remove(&self.key);
        let address = self.key.client.ip();
        let mut per_address = sessions.per_address.borrow_mut();
        if let Some(count) = per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                per_address.remove(&address);
            }
        }
        // A session that never had a node has passed nothing on of what waited for one.
        if let State::Opening { first_bytes, waiting } = &*self.session.state.borrow() {
            sessions.forget_waiting(*first_bytes, waiting);
            let lost = 1 + waiting.len() as u64;
            self.worker.metrics.udp_datagrams_dropped.get(DatagramDrop::Refused).add(lost);
        }
        self.worker.open.exit(self.number);
        self.worker.metrics.udp_sessions_open.decrement();
    }
}

impl Session {
    /// Sends a datagram to the node, or has it wait for one.
    pub(super) fn send(&self, worker: &Worker, datagram: &[u8]) -> Result<(), DatagramDrop> {
        let mut state = self.state.borrow_mut();
        match &mut *state {
            State::Opening { waiting, .. } => {
                let is_full = waiting.len() >= WAITING_MAX;
                if is_full || !worker.sessions.count_waiting(datagram.len()) {
                    return Err(DatagramDrop::Waiting);
                }
                waiting.push(datagram.into());
                Ok(())
            }
            State::Open { socket, header } => {
                let sent = if header.is_empty() {
                    socket.try_send(datagram)
                } else {
                    socket.try_send(&[header, datagram].concat())
                };
                drop(state);
                self.note_sent(worker, datagram.len(), sent)
            }
        }
    }

    fn note_sent(
        &self,
        worker: &Worker,
        bytes: usize,
        sent: io::Result<usize>,
    ) -> Result<(), DatagramDrop> {
        self.touch(worker.clock.now_ms());
        match sent {
            Ok(_) => {
                self.bytes_received.set(self.bytes_received.get() + bytes as u64);
                worker.metrics.stream_received_bytes.add(bytes as u64);
                Ok(())
            }
            // The node has refused an earlier one (ICMP): the session is over, and the next datagram
            // finds another node.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.failure.replace(Some(error));
                if let Some(task) = &*self.task.borrow() {
                    task.wake_by_ref();
                }
                Err(DatagramDrop::Refused)
            }
            Err(_) => Err(DatagramDrop::Send),
        }
    }

    /// The session has its node from here on: sends `first`, then what has waited behind it.
    pub(super) fn open(
        &self,
        worker: &Worker,
        first: &[u8],
        (socket, header): (Rc<UdpSocket>, Vec<u8>),
    ) {
        let (first_bytes, waiting) = match self.state.replace(State::Open { socket, header }) {
            State::Opening { first_bytes, waiting } => (first_bytes, waiting),
            State::Open { .. } => (0, Vec::new()),
        };
        worker.sessions.forget_waiting(first_bytes, &waiting);
        let waiting = waiting.iter().map(|datagram| &**datagram);
        for datagram in std::iter::once(first).chain(waiting) {
            if let Err(drop) = self.send(worker, datagram) {
                worker.metrics.udp_datagrams_dropped.increment(drop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::l4::udp::sessions::WAITING_BYTES_MAX;
    use crate::settings::Limits;
    use crate::testing;

    #[test]
    fn what_sessions_begin_with_counts_while_it_waits() {
        const FIRST_BYTES: usize = 60_000;
        let worker = testing::worker(Limits::default());
        let client = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let key = |port| SessionKey { listener: 0, client: client(port) };
        let take = |port| Place::take(&worker, key(port), FIRST_BYTES);
        let mut places: Vec<Place> = (1..).map_while(|port| take(port).ok()).collect();
        assert_eq!(places.len(), WAITING_BYTES_MAX / FIRST_BYTES);
        assert!(matches!(take(1_000), Err(DatagramDrop::Waiting)));
        assert_eq!(worker.sessions.len(), places.len(), "who was refused has left nothing");
        let last = places.pop().expect("there are some");
        assert!(last.session().send(&worker, &[0; FIRST_BYTES]).is_err(), "nor may more wait");
        drop(last);
        drop(take(1_000).expect("there is room again"));
        drop(places);
        assert_eq!((worker.sessions.waiting_bytes.get(), worker.sessions.len()), (0, 0));
    }

    #[test]
    fn what_waits_for_a_node_that_never_comes_counts_as_refused() {
        let worker = testing::worker(Limits::default());
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let key = SessionKey { listener: 0, client };
        let place = Place::take(&worker, key, 1).expect("there is room");
        place.session().send(&worker, b"waits").expect("few wait");
        let refused = || worker.metrics.udp_datagrams_dropped.get(DatagramDrop::Refused).value();
        assert_eq!(refused(), 0);
        drop(place);
        assert_eq!(refused(), 2, "the first one, and the one behind it");
    }
}
