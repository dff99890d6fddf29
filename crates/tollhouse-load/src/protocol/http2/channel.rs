//! HTTP/2 connections as lanes share them: opened once for all of them, driven by a task of their own,
//! opened again when the peer sends GOAWAY or the connection breaks. What is sent over them is not
//! decided here; HTTP/2 and gRPC both use this.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;

use super::failure::{failure_of, is_unprocessed};
use super::traffic::{Counted, Traffic};
use crate::connect::{Connector, Stream};
use crate::failure::{Failure, FailureClass};
use crate::protocol::Marks;
use crate::worker::{OpenConnection, Worker};

/// The largest window that HTTP/2 knows: flow control must not throttle what is measured.
const WINDOW_BYTES: u32 = (1 << 31) - 1;
/// How often a request that the peer says it has not touched is sent again: as often as gRPC clients do.
const UNPROCESSED_RETRIES_MAX: u32 = 2;

/// What is under way: the answer to come, and the way to send more.
pub(in crate::protocol) type Started = (ResponseFuture, SendStream<Bytes>);

/// The connection that some lanes of a worker share.
struct Group {
    connection: RefCell<Option<Rc<Connection>>>,
    /// Held by the lane that opens the connection, while the others wait.
    opening: tokio::sync::Mutex<()>,
}

/// An open connection.
struct Connection {
    sender: SendRequest<Bytes>,
    traffic: Rc<Traffic>,
    /// Whether it can take new requests, as far as is known.
    is_usable: Cell<bool>,
    has_carried: Cell<bool>,
    _open: OpenConnection,
}

/// A lane's way to its connection.
pub(in crate::protocol) struct Channel {
    worker: Rc<Worker>,
    group: Rc<Group>,
    /// Which connection of the worker it is, for taking turns over addresses.
    index: usize,
    keep_alive: bool,
    current: Option<Current>,
}

struct Current {
    connection: Rc<Connection>,
    sender: SendRequest<Bytes>,
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
        Rc::new(Self { connection: RefCell::new(None), opening: tokio::sync::Mutex::new(()) })
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

    fn usable(&self) -> Option<Rc<Connection>> {
        self.connection.borrow().as_ref().filter(|open| open.is_usable.get()).cloned()
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
    pub(in crate::protocol) async fn start(
        &mut self,
        connector: &Connector,
        request: &dyn Fn() -> Request<()>,
        body: Option<Bytes>,
        marks: &mut Marks,
    ) -> Result<Started, Failure> {
        let mut tries = 0;
        loop {
            let mut current = self.ready(connector, marks).await?;
            let has_carried = current.connection.has_carried.replace(true);
            if marks.sent_ns == 0 {
                marks.sent_ns = self.worker.now_ns();
                marks.is_reused = has_carried;
            }
            // The peer's limit of streams is part of the answer's time.
            let sent = match poll_fn(|context| current.sender.poll_ready(context)).await {
                Ok(()) => send(&mut current.sender, request(), body.clone()),
                Err(error) => Err(error),
            };
            self.current = Some(current);
            match sent {
                Ok(started) => return Ok(started),
                // Nothing was sent: the connection had ended before.
                Err(error) => {
                    self.give_up_connection();
                    if tries == UNPROCESSED_RETRIES_MAX {
                        return Err(failure_of(&error));
                    }
                }
            }
            tries += 1;
        }
    }

    /// Sends a whole request and waits for the head of its answer. What the peer says it has not touched
    /// (a refused stream, one beyond GOAWAY) is sent again, as every client does; its time goes on.
    pub(in crate::protocol) async fn request(
        &mut self,
        connector: &Connector,
        request: &dyn Fn() -> Request<()>,
        body: Bytes,
        marks: &mut Marks,
    ) -> Result<http::Response<h2::RecvStream>, Failure> {
        let mut tries = 0;
        loop {
            let (answer, _sending) =
                self.start(connector, request, Some(body.clone()), marks).await?;
            match answer.await {
                Ok(response) => {
                    marks.first_byte_ns = self.worker.now_ns();
                    return Ok(response);
                }
                Err(error) if is_unprocessed(&error) && tries < UNPROCESSED_RETRIES_MAX => {
                    if error.is_go_away() {
                        self.give_up_connection();
                    }
                    tries += 1;
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// The failure that an error is; forgets the connection when it concerns all of it.
    pub(in crate::protocol) fn failed(&mut self, error: &h2::Error) -> Failure {
        if error.is_io() || error.is_go_away() {
            self.give_up_connection();
        }
        failure_of(error)
    }

    /// Ends an exchange, however it went: takes over the bytes that went over the wire meanwhile.
    pub(in crate::protocol) fn finish(&mut self, marks: &mut Marks) {
        if let Some(current) = &self.current {
            (marks.sent_bytes, marks.received_bytes) = current.connection.traffic.take();
        }
        self.abandon();
    }

    /// Forgets an exchange that was dropped: its stream resets itself.
    pub(in crate::protocol) fn abandon(&mut self) {
        if !self.keep_alive {
            self.give_up_connection();
        }
    }

    /// Opens the connection, unless it is open.
    pub(in crate::protocol) async fn open(
        &mut self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        self.current = Some(self.ready(connector, marks).await?);
        Ok(())
    }

    /// The connection, opened when need be; lanes of a group wait for the one that opens it.
    async fn ready(
        &mut self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<Current, Failure> {
        let current = self.current.take();
        if let Some(current) = current.filter(|open| open.connection.is_usable.get()) {
            return Ok(current);
        }
        let _turn = self.group.opening.lock().await;
        let connection = match self.group.usable() {
            Some(connection) => connection,
            None => self.connect(connector, marks).await?,
        };
        let sender = connection.sender.clone();
        Ok(Current { connection, sender })
    }

    async fn connect(
        &self,
        connector: &Connector,
        marks: &mut Marks,
    ) -> Result<Rc<Connection>, Failure> {
        marks.connect_from_ns = self.worker.now_ns();
        let stream = connector.open(self.index).await?;
        check_alpn(&stream)?;
        let traffic = Rc::new(Traffic::default());
        let counted = Counted::new(stream, Rc::clone(&traffic));
        let (sender, driver) =
            settings().handshake(counted).await.map_err(|error| failure_of(&error))?;
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        let connection = Rc::new(Connection {
            sender,
            traffic,
            is_usable: Cell::new(true),
            has_carried: Cell::new(false),
            _open: open,
        });
        let watched = Rc::downgrade(&connection);
        // Its owner is the connection: it ends when the last sender of it is dropped.
        tokio::task::spawn_local(async move {
            // How it ended is told to every stream, which is where it counts.
            let _ = driver.await;
            if let Some(connection) = watched.upgrade() {
                connection.is_usable.set(false);
            }
        });
        *self.group.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(connection)
    }

    /// Lets new requests go over a new connection; those under way on the old one go on.
    fn give_up_connection(&mut self) {
        let Some(current) = self.current.take() else { return };
        current.connection.is_usable.set(false);
        let mut shared = self.group.connection.borrow_mut();
        if shared.as_ref().is_some_and(|open| Rc::ptr_eq(open, &current.connection)) {
            *shared = None;
        }
    }
}

/// How connections are set up: nothing that makes the peer wait for the generator.
pub(in crate::protocol) fn settings() -> h2::client::Builder {
    let mut settings = h2::client::Builder::new();
    settings
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .enable_push(false);
    settings
}

/// Over TLS the peer has to agree to HTTP/2.
pub(in crate::protocol) fn check_alpn(stream: &Stream) -> Result<(), Failure> {
    if !matches!(stream, Stream::Tls(_)) || stream.alpn() == Some(b"h2") {
        return Ok(());
    }
    Err(Failure::new(FailureClass::Tls, "the target does not agree to HTTP/2 (ALPN h2)"))
}

fn send(
    sender: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: Option<Bytes>,
) -> Result<Started, h2::Error> {
    let ends = body.as_ref().is_some_and(Bytes::is_empty);
    let (answer, mut sending) = sender.send_request(request, ends)?;
    if let Some(body) = body.filter(|body| !body.is_empty()) {
        sending.send_data(body, true)?;
    }
    Ok((answer, sending))
}

/// Sends data as the peer's window allows; `Ok(false)` when the peer has ended the stream.
pub(in crate::protocol) async fn send_within_window(
    sending: &mut SendStream<Bytes>,
    mut data: Bytes,
) -> bool {
    while !data.is_empty() {
        sending.reserve_capacity(data.len());
        let room = match sending.capacity() {
            0 => match poll_fn(|context| sending.poll_capacity(context)).await {
                Some(Ok(room)) => room,
                Some(Err(_)) | None => return false,
            },
            room => room,
        };
        let part = data.split_to(room.min(data.len()));
        if sending.send_data(part, false).is_err() {
            return false;
        }
    }
    true
}
