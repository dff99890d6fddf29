//! The sessions of one core: found by listener, client address and port; bounded in number, for each
//! address, and in what waits while their nodes are looked for. Sessions that nothing shows to be in use make room
//! for newer ones. How a session takes its place among them, and what
//! passes through it, is `place.rs`.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;

use hashbrown::HashMap;
use tokio::net::UdpSocket;
use tollhouse_stdx::{ArrivalQueue, Ticket};
use tollhouse_telemetry::ErrorCode;

use crate::l4::plugins::Refusal;

/// Longest datagram (RFC 768: a length of 16 bits).
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams that wait for the node of a session: what a client sends at once before it expects an
/// answer.
pub(super) const WAITING_MAX: usize = 8;

/// Bytes that wait for nodes in all sessions of a core.
pub(super) const WAITING_BYTES_MAX: usize = 4 << 20;

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
    pub(super) by_key: RefCell<Map<SessionKey, Rc<Session>>>,
    pub(super) per_address: RefCell<Map<IpAddr, usize>>,
    /// Sessions that may have a forged source: of a single datagram, or without an answer.
    pub(super) unproven: RefCell<ArrivalQueue<IpAddr, Rc<Session>>>,
    pub(super) waiting_bytes: Cell<usize>,
    /// One datagram on its way, of whichever session.
    scratch: RefCell<Vec<u8>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            by_key: RefCell::default(),
            per_address: RefCell::default(),
            unproven: RefCell::default(),
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

    /// A session is in use: it makes room for no other.
    fn prove(&self, session: &Session) {
        if let Some(ticket) = session.unproven.take() {
            self.unproven.borrow_mut().remove(&ticket);
        }
    }

    /// Ends the oldest unproven session, of `address` where that is given; whether there was one.
    pub(super) fn displace(&self, address: Option<&IpAddr>) -> bool {
        let mut unproven = self.unproven.borrow_mut();
        let oldest = match address {
            Some(address) => unproven.pop_oldest_of(address),
            None => unproven.pop_oldest(),
        };
        drop(unproven);
        let Some(session) = oldest else { return false };
        session.is_displaced.set(true);
        self.forget(&session.key);
        if let Some(task) = &*session.task.borrow() {
            task.wake_by_ref();
        }
        true
    }

    /// Takes a session out of those that are found and counted.
    pub(super) fn forget(&self, key: &SessionKey) {
        self.by_key.borrow_mut().remove(key);
        let address = key.client.ip();
        let mut per_address = self.per_address.borrow_mut();
        if let Some(count) = per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                per_address.remove(&address);
            }
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.borrow().len()
    }

    /// Whether so many bytes more may wait; they count from here on.
    pub(super) fn count_waiting(&self, bytes: usize) -> bool {
        let bytes = self.waiting_bytes.get() + bytes;
        let fits = bytes <= WAITING_BYTES_MAX;
        if fits {
            self.waiting_bytes.set(bytes);
        }
        fits
    }

    /// Counts datagrams as waiting no more.
    pub(super) fn forget_waiting(&self, first_bytes: usize, waiting: &[Box<[u8]>]) {
        let bytes: usize = waiting.iter().map(|datagram| datagram.len()).sum();
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes - first_bytes);
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
    pub(super) key: SessionKey,
    /// Whether datagrams have followed the first one.
    has_followers: Cell<bool>,
    is_answered: Cell<bool>,
    /// Whether a newer session has taken its place.
    pub(super) is_displaced: Cell<bool>,
    /// Place among the unproven ones.
    pub(super) unproven: Cell<Option<Ticket>>,
    pub(super) state: RefCell<State>,
    pub(super) bytes_received: Cell<u64>,
    pub(super) touched_ms: Cell<u64>,
    pub(super) failure: RefCell<Option<io::Error>>,
    /// Of the session's task, to be told of a failure.
    pub(super) task: RefCell<Option<Waker>>,
}

#[derive(Debug)]
pub(super) enum State {
    /// A node is being looked for.
    Opening {
        /// Of the datagram that the session began with.
        first_bytes: usize,
        /// Those that wait behind it.
        waiting: Vec<Box<[u8]>>,
    },
    /// With its node.
    Open {
        socket: Rc<UdpSocket>,
        /// What stands before each datagram.
        header: Vec<u8>,
    },
}

impl Session {
    /// One that begins with a datagram of `first_bytes`.
    pub(super) fn new(key: SessionKey, first_bytes: usize, now_ms: u64) -> Self {
        Self {
            key,
            has_followers: Cell::new(false),
            is_answered: Cell::new(false),
            is_displaced: Cell::new(false),
            unproven: Cell::new(None),
            state: RefCell::new(State::Opening { first_bytes, waiting: Vec::new() }),
            bytes_received: Cell::new(0),
            touched_ms: Cell::new(now_ms),
            failure: RefCell::new(None),
            task: RefCell::new(None),
        }
    }

    /// Notes a datagram behind the first one.
    #[inline]
    pub(super) fn note_follower(&self, sessions: &Sessions) {
        if !self.has_followers.replace(true) && self.is_answered.get() {
            sessions.prove(self);
        }
    }

    /// Notes that the node has answered.
    #[inline]
    pub(super) fn note_answered(&self, sessions: &Sessions) {
        if !self.is_answered.replace(true) && self.has_followers.get() {
            sessions.prove(self);
        }
    }

    /// Whether a newer session has taken its place.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.get()
    }

    /// Outcome of a session whose place was taken: without an answer it has come to nothing.
    pub(super) fn displaced(&self) -> Result<(), Refusal> {
        if self.is_answered.get() { Ok(()) } else { Err(ErrorCode::ConnectionLimit.into()) }
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
