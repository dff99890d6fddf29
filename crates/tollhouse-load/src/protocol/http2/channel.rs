//! HTTP/2 connections shared by lanes: opened once for all lanes of a connection, driven by a
//! separate task, and reopened after GOAWAY or a failure. Used by both HTTP/2 and gRPC.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use tokio::sync::Notify;

use super::intake::Intake;
use super::session::{Call, RequestHead, Session};
use crate::connect::{Connector, Stream};
use crate::failure::{Failure, FailureClass};
use crate::protocol::Marks;
use crate::worker::{OpenConnection, Worker};

/// Maximum number of retries of a request that the peer did not process, as in gRPC clients.
const UNPROCESSED_RETRIES_MAX: u32 = 2;

/// Connection shared by several lanes of a worker.
struct Group {
    connection: RefCell<Option<Rc<Connection>>>,
    /// Whether a lane is opening the connection while the others wait.
    is_opening: Cell<bool>,
    /// Wakes all waiting lanes at once, so that their requests leave in one write. Their responses
    /// then arrive together too, for the whole run.
    opened: Notify,
}

/// A lane's turn to open the connection. It ends on drop, whether or not opening succeeded.
struct OpeningTurn<'a>(&'a Group);

impl Drop for OpeningTurn<'_> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        self.0.opened.notify_waiters();
    }
}

/// An open connection; no more streams are opened on it once it is dropped.
struct Connection {
    session: Rc<Session>,
    has_carried: Cell<bool>,
    _open: OpenConnection,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.leave();
    }
}

/// Access of a lane to its connection.
pub(in crate::protocol) struct Channel {
    worker: Rc<Worker>,
    group: Rc<Group>,
    /// Index of the connection within the worker, which selects the target's address.
    index: usize,
    keep_alive: bool,
    current: Option<Rc<Connection>>,
}

/// Number of a lane, with the settings that decide about its connection.
pub(in crate::protocol) struct Place {
    /// Number of the lane within the worker.
    pub(in crate::protocol) lane: usize,
    /// Number of lanes that share a connection.
    pub(in crate::protocol) streams: usize,
    pub(in crate::protocol) keep_alive: bool,
}

/// Shared connections by worker and connection index.
type Groups = HashMap<(*const Worker, usize), Weak<Group>>;

thread_local! {
    /// Shared connections of all workers on this thread. The references are weak, so that an entry
    /// ends with the last lane that uses the connection.
    static GROUPS: RefCell<Groups> = RefCell::default();
}

impl Group {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            connection: RefCell::new(None),
            is_opening: Cell::new(false),
            opened: Notify::new(),
        })
    }

    /// Returns the shared connection with an index; creates it for its first lane.
    fn shared(worker: &Rc<Worker>, index: usize) -> Rc<Self> {
        GROUPS.with_borrow_mut(|groups| {
            let known = groups.entry((Rc::as_ptr(worker), index)).or_default();
            known.upgrade().unwrap_or_else(|| {
                let group = Self::new();
                *known = Rc::downgrade(&group);
                group
            })
        })
    }

    /// Takes the turn to open the connection; `None` while another lane has it.
    fn take_turn(&self) -> Option<OpeningTurn<'_>> {
        (!self.is_opening.replace(true)).then(|| OpeningTurn(self))
    }

    fn usable(&self) -> Option<Rc<Connection>> {
        self.connection.borrow().as_ref().filter(|open| open.session.is_usable()).cloned()
    }
}

impl Channel {
    /// Creates a channel for a lane without connecting.
    pub(in crate::protocol) fn new(worker: &Rc<Worker>, place: &Place) -> Self {
        let index = place.lane / place.streams.max(1);
        // A connection that carries only one request cannot be shared.
        let group = if place.keep_alive { Group::shared(worker, index) } else { Group::new() };
        let keep_alive = place.keep_alive;
        Self { worker: Rc::clone(worker), group, index, keep_alive, current: None }
    }

    /// Sends the head of a request, together with `body` if given.
    ///
    /// # Errors
    /// If no connection can be opened, or the request cannot be sent.
    pub(in crate::protocol) async fn start(
        &mut self,
        connector: &Connector,
        head: &RequestHead<'_>,
        body: Option<Bytes>,
        intake: &Rc<RefCell<dyn Intake>>,
        marks: &mut Marks,
    ) -> Result<Call, Failure> {
        let mut tries = 0;
        loop {
            let connection = self.ready(connector, marks).await?;
            let has_carried = connection.has_carried.replace(true);
            if marks.sent_ns == 0 {
                marks.sent_ns = self.worker.now_ns();
                marks.is_reused = has_carried;
            }
            // Waiting for the peer's stream limit counts as response time.
            match connection.session.open(head, body.clone(), intake).await {
                Ok(call) => return Ok(call),
                // The connection ended before the request was sent.
                Err(broken) if broken.is_unprocessed && tries < UNPROCESSED_RETRIES_MAX => {
                    tries += 1;
                }
                Err(broken) => return Err(broken.failure),
            }
        }
    }

    /// Sends a complete request and passes its response to `intake`. A request that the peer did
    /// not process (refused stream, stream beyond GOAWAY) is sent again, as other clients do,
    /// without resetting its time.
    ///
    /// # Errors
    /// If the response is incomplete or rejected by `intake`.
    pub(in crate::protocol) async fn request(
        &mut self,
        connector: &Connector,
        head: &RequestHead<'_>,
        body: Bytes,
        intake: &Rc<RefCell<dyn Intake>>,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            let call = self.start(connector, head, Some(body.clone()), intake, marks).await?;
            match call.finished(&mut marks.first_byte_ns).await {
                Ok(()) => return Ok(()),
                Err(broken) if broken.is_unprocessed && tries < UNPROCESSED_RETRIES_MAX => {
                    tries += 1;
                }
                Err(broken) => return Err(broken.failure),
            }
        }
    }

    /// Ends an exchange, successful or not, and records the traffic since the previous one. Frames
    /// of several exchanges mix on a connection; their bytes are attributed to the exchange that
    /// ends, so that only the sums are exact.
    pub(in crate::protocol) fn finish(&mut self, marks: &mut Marks) {
        if let Some(current) = &self.current {
            (marks.sent_bytes, marks.received_bytes) = current.session.take_traffic();
        }
        self.abandon();
    }

    /// Discards a dropped exchange, whose stream resets itself.
    pub(in crate::protocol) fn abandon(&mut self) {
        if !self.keep_alive {
            self.current = None;
            *self.group.connection.borrow_mut() = None;
        }
    }

    /// Opens the connection, unless it is open.
    ///
    /// # Errors
    /// If the connection cannot be opened.
    pub(in crate::protocol) async fn open(
        &mut self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        self.ready(connector, marks).await.map(drop)
    }

    /// Returns the connection, opened if necessary; the lanes of a group wait for the one that
    /// opens it.
    async fn ready(
        &mut self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<Rc<Connection>, Failure> {
        if let Some(current) = self.current.as_ref().filter(|open| open.session.is_usable()) {
            return Ok(Rc::clone(current));
        }
        self.current = None;
        let group = Rc::clone(&self.group);
        let connection = loop {
            if let Some(connection) = group.usable() {
                break connection;
            }
            if let Some(_turn) = group.take_turn() {
                break self.connect(connector, marks).await?;
            }
            group.opened.notified().await;
        };
        Ok(Rc::clone(self.current.insert(connection)))
    }

    async fn connect(
        &self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<Rc<Connection>, Failure> {
        // Exchanges in flight on the previous connection continue.
        *self.group.connection.borrow_mut() = None;
        marks.connect_from_ns = self.worker.now_ns();
        let stream = connector.open(self.index).await?;
        check_alpn(&stream)?;
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        let session = Session::new(self.worker.clock());
        let connection = Rc::new(Connection {
            session: Rc::clone(&session),
            has_carried: Cell::new(false),
            _open: open,
        });
        let worker = Rc::clone(&self.worker);
        // The connection owns the task: it ends when the last lane has dropped the connection. Its
        // result is ignored because every exchange receives the failure too.
        tokio::task::spawn_local(async move {
            session.drive(stream, worker.scratch()).await;
        });
        *self.group.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(connection)
    }
}

/// Checks that the peer agreed to HTTP/2 by ALPN, if the connection uses TLS.
pub(in crate::protocol) fn check_alpn(stream: &Stream) -> Result<(), Failure> {
    if !matches!(stream, Stream::Tls(_)) || stream.alpn() == Some(b"h2") {
        return Ok(());
    }
    Err(Failure::new(FailureClass::Tls, "the target does not agree to HTTP/2 (ALPN h2)"))
}
