//! Place of a session among those of its core, and the path of its datagrams: to the node, or to a
//! queue while no node is connected.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;

use rustix::net::SendFlags;
use tollhouse_telemetry::{DatagramDrop, ErrorCode};

use super::connected::ConnectedSocket;
use super::sessions::{Session, SessionKey, State, WAITING_MAX};
use crate::worker::Worker;

/// Place of a session among those of its core; released on drop.
pub(crate) struct SessionSlot {
    worker: Rc<Worker>,
    session: Rc<Session>,
    /// Number of the session's task, once the task runs.
    number: Option<u64>,
}

impl SessionSlot {
    /// Takes a place for a new session whose first datagram has `first_bytes`.
    ///
    /// # Errors
    /// If all places of the core or of the address are taken by sessions in use, or if too many
    /// bytes wait for nodes.
    pub(super) fn take(
        worker: &Rc<Worker>,
        key: SessionKey,
        first_bytes: usize,
    ) -> Result<Self, DatagramDrop> {
        let (sessions, settings) = (&worker.sessions, &worker.settings.streams);
        let address = key.client.ip();
        let count = || sessions.per_address.borrow().get(&address).copied().unwrap_or_default();
        if count() >= settings.udp_sessions_per_address {
            make_room(worker, Some(&address)).ok_or(DatagramDrop::LimitPerAddress)?;
        }
        if sessions.len() >= settings.udp_sessions_per_worker {
            make_room(worker, None).ok_or(DatagramDrop::Limit)?;
        }
        // Checked last, because it reserves the bytes: a later refusal would have to give them
        // back.
        if !sessions.count_waiting(first_bytes) {
            return Err(DatagramDrop::Waiting);
        }
        *sessions.per_address.borrow_mut().entry(address).or_insert(0) += 1;
        let session = Rc::new(Session::new(key, first_bytes, worker.clock.now_ms()));
        let ticket = sessions.unproven.borrow_mut().push(address, Rc::clone(&session));
        session.unproven.set(Some(ticket));
        sessions.by_key.borrow_mut().insert(key, Rc::clone(&session));
        worker.open.begin();
        worker.metrics.udp_sessions.increment();
        worker.metrics.udp_sessions_open.increment();
        Ok(Self { worker: Rc::clone(worker), session, number: None })
    }

    /// Registers the current task as the one that failures and a drain wake.
    pub(super) async fn enter(&mut self) {
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        self.session.task.replace(Some(task.clone()));
        self.number = Some(self.worker.open.enter(task));
    }

    /// Counts a session that ends before its task has begun.
    pub(super) fn count_failure(&self, code: ErrorCode) {
        self.worker.metrics.stream_failed.increment(code);
    }

    pub(super) fn client(&self) -> SocketAddr {
        self.session.key.client
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let sessions = &self.worker.sessions;
        // A displaced session has already given its place to another, perhaps of the same client.
        if !self.session.is_displaced() {
            sessions.forget(&self.session.key);
            self.worker.metrics.udp_sessions_open.decrement();
        }
        if let Some(ticket) = self.session.unproven.take() {
            sessions.unproven.borrow_mut().remove(&ticket);
        }
        // The waiting datagrams of a session that never had a node are lost.
        if let State::Opening { first_bytes, waiting } = &*self.session.state.borrow() {
            sessions.forget_waiting(*first_bytes, waiting);
            let lost = 1 + waiting.len() as u64;
            self.worker.metrics.udp_datagrams_dropped.get(DatagramDrop::Refused).add(lost);
        }
        self.worker.open.exit(self.number);
    }
}

/// Ends the oldest unproven session, of `address` if given.
fn make_room(worker: &Worker, address: Option<&IpAddr>) -> Option<()> {
    worker.sessions.displace(address).then(|| {
        worker.metrics.udp_sessions_displaced.increment();
        worker.metrics.udp_sessions_open.decrement();
    })
}

/// Socket connected to a node, and the PROXY protocol header of each datagram; empty if none.
pub(super) struct NodeSocket {
    pub(super) socket: Rc<ConnectedSocket>,
    pub(super) header: Vec<u8>,
}

impl Session {
    /// Sends a datagram to the node, or queues it until a node is connected.
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
                    rustix::net::send(&**socket, datagram, SendFlags::empty())
                } else {
                    let announced = [header, datagram].concat();
                    rustix::net::send(&**socket, &announced, SendFlags::empty())
                };
                drop(state);
                self.note_sent(worker, datagram.len(), sent.map_err(io::Error::from))
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
            // The node refused an earlier datagram (ICMP). The session ends, and the next datagram
            // starts one with another node.
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

    /// Connects the session to its node: sends `first`, then the queued datagrams.
    pub(super) fn open(&self, worker: &Worker, first: &[u8], node: NodeSocket) {
        let NodeSocket { socket, header } = node;
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
        let take = |port| SessionSlot::take(&worker, key(port), FIRST_BYTES);
        let mut places: Vec<SessionSlot> = (1..).map_while(|port| take(port).ok()).collect();
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

    /// Session key of the client `192.0.2.LAST` with this port.
    fn key_at(last: u8, port: u16) -> SessionKey {
        let client = SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), port));
        SessionKey { listener: 0, client }
    }

    fn worker(per_worker: usize, per_address: usize) -> Rc<Worker> {
        let mut settings = testing::settings();
        settings.streams.udp_sessions_per_worker = per_worker;
        settings.streams.udp_sessions_per_address = per_address;
        Worker::new(testing::parts_with(settings, tollhouse_plugin::Catalogue::new([]), [])).0
    }

    #[test]
    fn forged_sources_make_room_for_each_other_and_leave_sessions_in_use_alone() {
        let worker = worker(3, 3);
        let take = |last| SessionSlot::take(&worker, key_at(last, 1), 1);
        let used = take(1).expect("there is room");
        used.session().note_answered(&worker.sessions);
        used.session().note_follower(&worker.sessions);
        // A single datagram, even if answered, and many without an answer are both unproven,
        // because the source may be forged.
        let answered = take(2).expect("there is room");
        answered.session().note_answered(&worker.sessions);
        let unanswered = take(3).expect("there is room");
        unanswered.session().note_follower(&worker.sessions);
        let displaced = || [&used, &answered, &unanswered].map(|it| it.session().is_displaced());
        let first = take(4).expect("the oldest makes room");
        assert_eq!(displaced(), [false, true, false]);
        let second = take(5).expect("the next one makes room");
        assert_eq!(displaced(), [false, true, true]);
        assert_eq!(worker.sessions.len(), 3);
        for place in [&first, &second] {
            place.session().note_follower(&worker.sessions);
            place.session().note_answered(&worker.sessions);
        }
        assert!(matches!(take(6), Err(DatagramDrop::Limit)), "all are in use");
        assert_eq!(worker.metrics.udp_sessions_displaced.value(), 2);
        assert_eq!(worker.metrics.udp_sessions_open.value(), 3);
        drop((answered, unanswered));
        assert_eq!(worker.sessions.len(), 3, "they had left their places");
        drop((used, first, second));
        assert_eq!(worker.sessions.len(), 0);
        assert_eq!(worker.metrics.udp_sessions_open.value(), 0);
        assert!(worker.sessions.unproven.borrow().is_empty());
        assert!(worker.sessions.per_address.borrow().is_empty());
    }

    #[test]
    fn an_address_at_its_share_pays_with_its_own_oldest_session() {
        let worker = worker(8, 2);
        let take = |last, port| SessionSlot::take(&worker, key_at(last, port), 1);
        let other = take(1, 1).expect("there is room");
        let own = [take(2, 1), take(2, 2)].map(|place| place.expect("there is room"));
        let newest = take(2, 3).expect("its oldest makes room");
        assert!(own[0].session().is_displaced() && !own[1].session().is_displaced());
        assert!(!other.session().is_displaced() && !newest.session().is_displaced());
        // The same port again, before the displaced session's task has ended.
        let again = take(2, 1).expect("its oldest makes room");
        drop(own);
        assert!(
            worker.sessions.get(&key_at(2, 1)).is_some(),
            "the newer session of that port stays"
        );
        drop((again, newest, other));
        assert_eq!(worker.sessions.len(), 0);
    }

    #[test]
    fn what_waits_for_a_node_that_never_comes_counts_as_refused() {
        let worker = testing::worker(Limits::default());
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let key = SessionKey { listener: 0, client };
        let place = SessionSlot::take(&worker, key, 1).expect("there is room");
        place.session().send(&worker, b"waits").expect("few wait");
        let refused = || worker.metrics.udp_datagrams_dropped.get(DatagramDrop::Refused).value();
        assert_eq!(refused(), 0);
        drop(place);
        assert_eq!(refused(), 2, "the first one, and the one behind it");
    }
}
