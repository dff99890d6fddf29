//! Sessions of one core, found by listener, client address and port. Limited in number, per
//! address, and in the bytes that wait for nodes. Sessions with an unproven source are displaced by
//! newer ones. `slot.rs` contains the admission of a session and the path of its datagrams.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;

use hashbrown::HashMap;
use tollhouse_stdx::{ArrivalQueue, Ticket};
use tollhouse_telemetry::ErrorCode;

use super::connected::ConnectedSocket;
use crate::l4::plugins::Refusal;

/// Maximum length of a UDP datagram in bytes (RFC 768: a length of 16 bits).
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Maximum number of datagrams queued per session; covers what a client sends before it expects a
/// response.
pub(super) const WAITING_MAX: usize = 8;

/// Maximum bytes queued in all sessions of a core.
pub(super) const WAITING_BYTES_MAX: usize = 4 << 20;

/// Listener and client address that identify a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub listener: usize,
    pub client: SocketAddr,
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// UDP sessions of one core.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(super) by_key: RefCell<Map<SessionKey, Rc<Session>>>,
    pub(super) per_address: RefCell<Map<IpAddr, usize>>,
    /// Sessions whose source may be forged, because they have only one datagram or no response.
    pub(super) unproven: RefCell<ArrivalQueue<IpAddr, Rc<Session>>>,
    pub(super) waiting_bytes: Cell<usize>,
    /// Buffer for one datagram, shared by all sessions.
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
    pub(super) fn get(&self, key: &SessionKey) -> Option<Rc<Session>> {
        self.by_key.borrow().get(key).cloned()
    }

    /// Marks a session as in use, so that it cannot be displaced.
    fn prove(&self, session: &Session) {
        if let Some(ticket) = session.unproven.take() {
            self.unproven.borrow_mut().remove(&ticket);
        }
    }

    /// Ends the oldest unproven session, of `address` if given; returns whether one existed.
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

    /// Removes a session from the index and the counts.
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

    pub(crate) fn len(&self) -> usize {
        self.by_key.borrow().len()
    }

    /// Reserves `bytes` for queued datagrams; returns `false` if they exceed `WAITING_BYTES_MAX`.
    pub(super) fn count_waiting(&self, bytes: usize) -> bool {
        let bytes = self.waiting_bytes.get() + bytes;
        let fits = bytes <= WAITING_BYTES_MAX;
        if fits {
            self.waiting_bytes.set(bytes);
        }
        fits
    }

    /// Releases the bytes of queued datagrams.
    pub(super) fn forget_waiting(&self, first_bytes: usize, waiting: &[Box<[u8]>]) {
        let bytes: usize = waiting.iter().map(|datagram| datagram.len()).sum();
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes - first_bytes);
    }

    /// Returns the buffer for any datagram, allocated when the core first needs it.
    pub(super) fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.resize(DATAGRAM_BYTES_MAX, 0);
        scratch
    }
}

/// Datagrams between one client and its node.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) key: SessionKey,
    /// Whether more datagrams followed the first.
    has_followers: Cell<bool>,
    is_answered: Cell<bool>,
    /// Whether a newer session has displaced this one.
    pub(super) is_displaced: Cell<bool>,
    /// Ticket in the queue of unproven sessions.
    pub(super) unproven: Cell<Option<Ticket>>,
    pub(super) state: RefCell<State>,
    pub(super) bytes_received: Cell<u64>,
    pub(super) touched_ms: Cell<u64>,
    pub(super) failure: RefCell<Option<io::Error>>,
    /// Waker of the session's task, woken after a failure.
    pub(super) task: RefCell<Option<Waker>>,
}

#[derive(Debug)]
pub(super) enum State {
    Opening {
        /// Length of the session's first datagram.
        first_bytes: usize,
        /// Datagrams that wait for the node.
        waiting: Vec<Box<[u8]>>,
    },
    Open {
        socket: Rc<ConnectedSocket>,
        /// PROXY protocol header that precedes each datagram.
        header: Vec<u8>,
    },
}

impl Session {
    /// Creates a session whose first datagram has `first_bytes`.
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

    /// Records a datagram after the first one.
    #[inline]
    pub(super) fn note_follower(&self, sessions: &Sessions) {
        if !self.has_followers.replace(true) && self.is_answered.get() {
            sessions.prove(self);
        }
    }

    /// Records that the node has responded.
    #[inline]
    pub(super) fn note_answered(&self, sessions: &Sessions) {
        if !self.is_answered.replace(true) && self.has_followers.get() {
            sessions.prove(self);
        }
    }

    /// Whether a newer session has displaced this one.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.get()
    }

    /// Returns the outcome of a displaced session: an error if the node never responded.
    pub(super) fn displaced(&self) -> Result<(), Refusal> {
        if self.is_answered.get() { Ok(()) } else { Err(ErrorCode::ConnectionLimit.into()) }
    }

    /// Returns the number of payload bytes sent to the node.
    pub(super) fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Returns the error that ends the session, if any.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.borrow_mut().take()
    }

    /// Records the time of a datagram in either direction.
    pub(super) fn touch(&self, now_ms: u64) {
        self.touched_ms.set(now_ms);
    }

    /// Returns the time of the last datagram in either direction.
    pub(super) fn touched_ms(&self) -> u64 {
        self.touched_ms.get()
    }
}
