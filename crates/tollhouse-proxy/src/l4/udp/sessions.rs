//! The sessions of one core: found by listener, client address and port; bounded in number, for each
//! address, and in what waits while their nodes are looked for. How a session takes its place among them, and what
//! passes through it, is `place.rs`.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;

use hashbrown::HashMap;
use tokio::net::UdpSocket;

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
    pub(super) waiting_bytes: Cell<usize>,
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
    pub(super) fn new(first_bytes: usize, now_ms: u64) -> Self {
        Self {
            state: RefCell::new(State::Opening { first_bytes, waiting: Vec::new() }),
            bytes_received: Cell::new(0),
            touched_ms: Cell::new(now_ms),
            failure: RefCell::new(None),
            task: RefCell::new(None),
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
