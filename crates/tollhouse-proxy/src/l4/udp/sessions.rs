//! The sessions of one core: found by listener, client address and port; bounded in number, for each
//! address, and in what waits while their nodes are looked for.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

use hashbrown::HashMap;
use tokio::net::UdpSocket;
use tollhouse_telemetry::DatagramDrop;

use super::DATAGRAM_BYTES_MAX;
use crate::worker::Worker;

/// Datagrams that wait for the node of a session: what a client sends at once before it expects an
/// answer.
const WAITING_MAX: usize = 8;

/// Bytes that wait for nodes in all sessions of a core.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// What a session is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    /// Number of the listener.
    pub listener: usize,
    /// Who sends.
    pub client: SocketAddr,
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The sessions of one core.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_key: RefCell<Map<SessionKey, Rc<Session>>>,
    per_address: RefCell<Map<IpAddr, usize>>,
    waiting_bytes: Cell<usize>,
    /// One datagram on its way, of whichever session.
    scratch: RefCell<Vec<u8>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            by_key: RefCell::default(),
            per_address: RefCell::default(),
            waiting_bytes: Cell::new(0),
            scratch: RefCell::default(),
        }
    }
}

impl Sessions {
    /// The session of a key.
    pub(super) fn get(&self, key: &SessionKey) -> Option<Rc<Session>> {
        self.by_key.borrow().get(key).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.borrow().len()
    }

    /// Counts datagrams as waiting no more.
    fn forget_waiting(&self, waiting: &[Box<[u8]>]) {
        let bytes: usize = waiting.iter().map(|datagram| datagram.len()).sum();
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes);
    }

    /// Room for any datagram; made when a core first needs it.
    pub(super) fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(DATAGRAM_BYTES_MAX, 0);
        scratch
    }
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    state: RefCell<State>,
    bytes_received: Cell<u64>,
    touched_ms: Cell<u64>,
    failure: RefCell<Option<io::Error>>,
    /// Of the session's task, to be told of a failure.
    task: RefCell<Option<Waker>>,
}

#[derive(Debug)]
enum State {
    /// A node is being looked for; these wait.
    Opening(Vec<Box<[u8]>>),
    /// With its node.
    Open {
        socket: Rc<UdpSocket>,
        /// What stands before each datagram.
        header: Vec<u8>,
    },
}

impl Session {
    /// Sends a datagram to the node, or has it wait for one.
    pub(super) fn send(&self, worker: &Worker, datagram: &[u8]) -> Result<(), DatagramDrop> {
        let mut state = self.state.borrow_mut();
        match &mut *state {
            State::Opening(waiting) => {
                let sessions = &worker.sessions;
                let bytes = sessions.waiting_bytes.get() + datagram.len();
                if waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
                    return Err(DatagramDrop::Waiting);
                }
                sessions.waiting_bytes.set(bytes);
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
        let waiting = match self.state.replace(State::Open { socket, header }) {
            State::Opening(waiting) => waiting,
            State::Open { .. } => Vec::new(),
        };
        worker.sessions.forget_waiting(&waiting);
        let waiting = waiting.iter().map(|datagram| &**datagram);
        for datagram in std::iter::once(first).chain(waiting) {
            if let Err(drop) = self.send(worker, datagram) {
                worker.metrics.udp_datagrams_dropped.increment(drop);
            }
        }
    }

    /// Bytes that went to the node.
    pub(super) fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Why the session cannot go on.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.borrow_mut().take()
    }

    /// Notes that something has passed.
    pub(super) fn touch(&self, now_ms: u64) {
        self.touched_ms.set(now_ms);
    }

    /// When something passed last.
    pub(super) fn touched_ms(&self) -> u64 {
        self.touched_ms.get()
    }
}

/// A session's place among those of its core; free again when this is dropped.
pub(crate) struct Place {
    worker: Rc<Worker>,
    key: SessionKey,
    session: Rc<Session>,
    /// Of its task, once that has begun.
    number: Option<u64>,
}

impl Place {
    /// Takes a place for a new session.
    ///
    /// # Errors
    /// All are taken, or as many as one address may have.
    pub(super) fn take(worker: &Rc<Worker>, key: SessionKey) -> Result<Self, DatagramDrop> {
        let (sessions, settings) = (&worker.sessions, &worker.settings.streams);
        if sessions.len() >= settings.udp_sessions_per_worker {
            return Err(DatagramDrop::Limit);
        }
        let address = key.client.ip();
        let mut per_address = sessions.per_address.borrow_mut();
        let count = per_address.entry(address).or_insert(0);
        if *count >= settings.udp_sessions_per_address {
            return Err(DatagramDrop::LimitPerAddress);
        }
        *count += 1;
        let session = Rc::new(Session {
            state: RefCell::new(State::Opening(Vec::new())),
            bytes_received: Cell::new(0),
            touched_ms: Cell::new(worker.clock.now_ms()),
            failure: RefCell::new(None),
            task: RefCell::new(None),
        });
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
        if let State::Opening(waiting) = &*self.session.state.borrow() {
            sessions.forget_waiting(waiting);
        }
        self.worker.open.exit(self.number);
        self.worker.metrics.udp_sessions_open.decrement();
    }
}
