//! HTTP/2 connections as lanes share them: opened once for all of them, driven by a task of their own,
//! opened again when the peer sends GOAWAY or the connection breaks. What is sent over them is not
//! decided here; HTTP/2 and gRPC both use this.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use tokio::sync::Notify;

use super::driver::drive;
use super::intake::Intake;
use super::session::{Call, RequestHead, Session};
use crate::connect::{Connector, Stream};
use crate::failure::{Failure, FailureClass};
use crate::protocol::Marks;
use crate::worker::{OpenConnection, Worker};

/// How often a request that the peer says it has not touched is sent again: as often as gRPC clients do.
const UNPROCESSED_RETRIES_MAX: u32 = 2;

/// The connection that some lanes of a worker share.
struct Group {
    connection: RefCell<Option<Rc<Connection>>>,
    /// Whether a lane opens the connection, while the others wait.
    is_opening: Cell<bool>,
    /// Wakes all who wait at once: what they have to send then leaves in one write, and is answered and followed
    /// in one for as long as the run lasts.
    opened: Notify,
}

/// A lane's turn to open the connection; it ends however that goes.
struct OpeningTurn<'a>(&'a Group);

impl Drop for OpeningTurn<'_> {
    fn drop(&mut self) {
        self.0.is_opening.set(false);
        self.0.opened.notify_waiters();
    }
}

/// An open connection; nobody opens streams on it any more when it is dropped.
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

/// A lane's way to its connection.
pub(in crate::protocol) struct Channel {
    worker: Rc<Worker>,
    group: Rc<Group>,
    /// Which connection of the worker it is, for taking turns over addresses.
    index: usize,
    keep_alive: bool,
    current: Option<Rc<Connection>>,
}

/// Where a lane belongs.
pub(in crate::protocol) struct Place {
    /// Its number within the worker.
    pub(in crate::protocol) lane: usize,
    /// How many lanes share a connection.
    pub(in crate::protocol) streams: usize,
    pub(in crate::protocol) keep_alive: bool,
}

/// Groups by worker and connection.
type Groups = HashMap<(*const Worker, usize), Weak<Group>>;

thread_local! {
    /// The groups of the workers of this thread; each lives as long as its lanes.
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

    /// The group of a connection: an existing one, when one of its lanes is there already.
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

    /// The turn to open the connection; `None` while another lane has it.
    fn take_turn(&self) -> Option<OpeningTurn<'_>> {
        (!self.is_opening.replace(true)).then(|| OpeningTurn(self))
    }

    fn usable(&self) -> Option<Rc<Connection>> {
        self.connection.borrow().as_ref().filter(|open| open.session.is_usable()).cloned()
    }
}

impl Channel {
    /// A channel for a lane; opens nothing yet.
    pub(in crate::protocol) fn new(worker: &Rc<Worker>, place: &Place) -> Self {
        let index = place.lane / place.streams.max(1);
        // A connection that carries one request cannot be shared.
        let group = if place.keep_alive { Group::shared(worker, index) } else { Group::new() };
        let keep_alive = place.keep_alive;
        Self { worker: Rc::clone(worker), group, index, keep_alive, current: None }
    }

    /// Sends the head of a request, and with `body` all of it.
    ///
    /// # Errors
    /// No connection can be opened, or the request cannot be sent.
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
            // The peer's limit of streams is part of the answer's time.
            match connection.session.open(head, body.clone(), intake).await {
                Ok(call) => return Ok(call),
                // The connection ended before.
                Err(broken) if broken.is_unprocessed && tries < UNPROCESSED_RETRIES_MAX => {
                    tries += 1;
                }
                Err(broken) => return Err(broken.failure),
            }
        }
    }

    /// Sends a whole request and waits for its answer, which `intake` takes in. What the peer says it has
    /// not touched (a refused stream, one beyond GOAWAY) is sent again, as every client does; its time goes
    /// on.
    ///
    /// # Errors
    /// There is no whole answer, or `intake` cannot use it.
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

    /// Ends an exchange, however it went: takes over the bytes that went over the wire meanwhile. Frames of
    /// several exchanges mix on a connection, so they go to the one that ends; the sums are exact.
    pub(in crate::protocol) fn finish(&mut self, marks: &mut Marks) {
        if let Some(current) = &self.current {
            (marks.sent_bytes, marks.received_bytes) = current.session.take_traffic();
        }
        self.abandon();
    }

    /// Forgets an exchange that was dropped: its stream resets itself.
    pub(in crate::protocol) fn abandon(&mut self) {
        if !self.keep_alive {
            self.current = None;
            *self.group.connection.borrow_mut() = None;
        }
    }

    /// Opens the connection, unless it is open.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(in crate::protocol) async fn open(
        &mut self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        self.ready(connector, marks).await.map(drop)
    }

    /// The connection, opened when need be; lanes of a group wait for the one that opens it.
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
        // What is under way on the one before goes on.
        *self.group.connection.borrow_mut() = None;
        marks.connect_from_ns = self.worker.now_ns();
        let stream = connector.open(self.index).await?;
        check_alpn(&stream)?;
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        let session = Session::new();
        let connection = Rc::new(Connection {
            session: Rc::clone(&session),
            has_carried: Cell::new(false),
            _open: open,
        });
        let worker = Rc::clone(&self.worker);
        // Its owner is the connection: it ends when the last lane has let go of that. How it ended is told
        // to every exchange, which is where it counts.
        tokio::task::spawn_local(async move {
            drive(session, stream, worker.scratch(), worker.clock()).await;
        });
        *self.group.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(connection)
    }
}

/// Over TLS the peer has to agree to HTTP/2.
pub(in crate::protocol) fn check_alpn(stream: &Stream) -> Result<(), Failure> {
    if !matches!(stream, Stream::Tls(_)) || stream.alpn() == Some(b"h2") {
        return Ok(());
    }
    Err(Failure::new(FailureClass::Tls, "the target does not agree to HTTP/2 (ALPN h2)"))
}
