//! An HTTP/2 connection in either role: the state shared by all its parts, and its constructors.
//!
//! Input is parsed in `connection/receive.rs`, `heads.rs`, `control.rs` and `body.rs`; output is
//! written in `open.rs`, `send.rs` and `output.rs`; `lifetime.rs` drains, closes and checks
//! deadlines.

mod body;
mod control;
mod heads;
mod lifetime;
mod open;
mod output;
mod receive;
mod send;
mod windows;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::Event;
use crate::hpack::{Decoder, Encoder};
use crate::limits::Bucket;
use crate::message::HeadCheck;
use crate::settings::WINDOW_BYTES_DEFAULT;
use crate::stream::Streams;
use crate::{ConnectionError, Counters, Limits, Malformed, Priority, Role, Settings, StreamId};
use lifetime::Drain;
use open::RepeatedHead;
use output::Output;
use receive::Input;
use tollhouse_stdx::{MemoryBudget, Reservation};

pub use open::RequestLine;
pub use send::SendError;

/// Number of recently closed streams to remember, to tell late frames that are allowed from those
/// that are errors. For older streams, everything except new heads is allowed.
const CLOSED_STREAMS_MAX: usize = 128;

/// The end of a stream that the application has released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Complete,
    /// We reset or refused it: frames in flight are dropped.
    ByUs,
    /// The peer sent RST_STREAM.
    ByPeer,
}

/// Token buckets, one for each [`crate::limits::Rate`].
#[derive(Default)]
struct Buckets {
    resets: Bucket,
    pings: Bucket,
    settings: Bucket,
    acknowledgements: Bucket,
    goaways: Bucket,
    priorities: Bucket,
    window_updates: Bucket,
    empty_frames: Bucket,
}

/// Flow control of the whole connection.
struct Windows {
    /// Number of bytes that this side may send.
    send: i32,
    /// Number of bytes that the peer may send.
    receive: i32,
    /// Bytes received that the peer has not been credited for yet.
    credit: u32,
    /// Bytes handed out and not yet consumed, over all streams.
    unread: u64,
    /// Bytes by which stream windows have grown.
    growth: u32,
    /// Bytes reserved from the process's budget: the larger of `growth` and `unread`.
    budget: Reservation,
}

/// An HTTP/2 connection. See the crate documentation for how to use it.
pub struct Connection {
    role: Role,
    limits: Limits,
    counters: Counters,
    buckets: Buckets,
    now_ms: u64,
    input: Input,
    decoder: Decoder,
    check: HeadCheck,
    encoder: Encoder,
    repeated: RepeatedHead,
    output: Output,
    local: Settings,
    peer: Settings,
    /// Whether the peer's first SETTINGS have arrived.
    has_peer_settings: bool,
    /// Send time of our SETTINGS; `None` once they are acknowledged.
    settings_sent_ms: Option<u64>,
    /// Duration in milliseconds between sending our SETTINGS and their acknowledgement.
    round_trip_ms: u64,
    windows: Windows,
    streams: Streams,
    closed: VecDeque<(u32, Ending)>,
    /// Highest stream number opened by the peer.
    highest_peer: u32,
    /// Number of the next stream we open; clients only.
    next_own: u32,
    /// Streams with pending DATA and an open stream window.
    ready: Vec<StreamId>,
    /// Number of times a stream has been chosen to send.
    turn: u32,
    /// A priority that arrived before its stream.
    early_priority: Option<(u32, Priority)>,
    drain: Drain,
    /// The last stream in the peer's GOAWAY.
    peer_last: Option<u32>,
    last_malformed: Option<Malformed>,
    /// An event found in a frame's header, before its payload.
    pending_event: Option<Event<'static>>,
    /// Buffer for lower-casing field names.
    lowered: Vec<u8>,
    failure: Option<ConnectionError>,
    started_ms: u64,
}

impl Connection {
    /// Creates the server side of a connection that was just accepted. Windows grow within
    /// `budget`.
    pub fn server(limits: Limits, budget: &Arc<MemoryBudget>, now_ms: u64) -> Self {
        Self::new(Role::Server, limits, budget, now_ms)
    }

    /// Creates the client side of a connection that was just opened. Windows grow within `budget`.
    pub fn client(limits: Limits, budget: &Arc<MemoryBudget>, now_ms: u64) -> Self {
        Self::new(Role::Client, limits, budget, now_ms)
    }

    fn new(role: Role, limits: Limits, budget: &Arc<MemoryBudget>, now_ms: u64) -> Self {
        let budget = budget.take(0).expect("nothing fits into any budget");
        let local = local_settings(role, &limits);
        let mut connection = Self {
            role,
            limits,
            counters: Counters::default(),
            buckets: Buckets::default(),
            now_ms,
            input: Input::new(role),
            decoder: Decoder::default(),
            check: HeadCheck::default(),
            encoder: Encoder::new(limits.encoder_table_bytes, limits.huffman),
            repeated: RepeatedHead::default(),
            output: Output::default(),
            local,
            peer: Settings::default(),
            has_peer_settings: false,
            settings_sent_ms: Some(now_ms),
            round_trip_ms: 1,
            windows: Windows {
                send: WINDOW_BYTES_DEFAULT as i32,
                receive: WINDOW_BYTES_DEFAULT as i32,
                credit: 0,
                unread: 0,
                growth: 0,
                budget,
            },
            streams: Streams::default(),
            closed: VecDeque::new(),
            highest_peer: 0,
            next_own: 1,
            ready: Vec::new(),
            turn: 0,
            early_priority: None,
            drain: Drain::No,
            peer_last: None,
            last_malformed: None,
            pending_event: None,
            lowered: Vec::new(),
            failure: None,
            started_ms: now_ms,
        };
        // The preface and our settings are sent without waiting for the peer's (RFC 9113 §3.4), and
        // so is a window larger than the initial 64 KiB.
        connection.output.begin(role, &local);
        connection.widen_connection();
        connection
    }

    /// Returns the side this connection is on.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns totals since the connection began, such as frames, streams and resets.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the limits this connection was created with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the peer's settings as far as they are known.
    pub fn peer_settings(&self) -> &Settings {
        &self.peer
    }

    /// Whether the peer's first SETTINGS have arrived.
    pub fn has_peer_settings(&self) -> bool {
        self.has_peer_settings
    }

    /// Returns the number of streams the application holds.
    pub fn open_streams(&self) -> u32 {
        self.streams.len()
    }

    /// Returns the reason why the last malformed message was refused; `None` if none was.
    pub fn last_malformed(&self) -> Option<Malformed> {
        self.last_malformed
    }

    /// Whether releasing a stream would reset it, because one of its directions is still open.
    pub fn is_unfinished(&self, stream: StreamId) -> bool {
        self.streams.get(stream).is_some_and(|stream| !stream.is_closed())
    }

    /// Returns the latest time passed to this connection.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the error that ended the connection; `None` while it is usable.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failure
    }

    /// Returns the priority of a stream as given by the peer; `None` after its release.
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        self.streams.get(stream).map(|stream| stream.priority)
    }

    /// Sets the priority of a stream; for servers that know the response's priority better.
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.priority = priority;
        }
    }

    /// Returns the heap memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes()
            + self.encoder.memory_bytes()
            + self.repeated.memory_bytes()
            + self.output.memory_bytes()
            + self.input.memory_bytes()
            + self.streams.memory_bytes()
            + self.ready.capacity() * size_of::<StreamId>()
            + self.closed.capacity() * size_of::<(u32, Ending)>()
    }

    /// Frees memory that an idle connection does not need; it is reallocated on demand.
    pub fn release_memory(&mut self) {
        self.output.shrink();
        self.input.shrink();
        self.streams.shrink();
        if self.ready.is_empty() {
            self.ready = Vec::new();
        }
        self.closed.shrink_to_fit();
    }

    fn remember(&mut self, number: u32, ending: Ending) {
        if self.closed.len() == CLOSED_STREAMS_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back((number, ending));
    }

    /// Returns the end of a released stream, if it is still remembered.
    fn ending(&self, number: u32) -> Option<Ending> {
        let mut last_first = self.closed.iter().rev();
        last_first.find(|(other, _)| *other == number).map(|(_, ending)| *ending)
    }

    /// Whether a stream has not begun yet.
    fn is_idle(&self, number: u32) -> bool {
        match (self.role, number % 2 == 1) {
            (Role::Server, true) => number > self.highest_peer,
            (Role::Client, true) => number >= self.next_own,
            // No streams are ever pushed.
            (_, false) => true,
        }
    }
}

/// Returns the settings we send, derived from the limits.
fn local_settings(role: Role, limits: &Limits) -> Settings {
    let common = Settings {
        header_table_bytes: limits.decoder_table_bytes,
        initial_window_bytes: limits.stream_window_bytes,
        frame_bytes: limits.frame_bytes.max(crate::frame::PAYLOAD_BYTES_DEFAULT),
        header_list_bytes: limits.header_list_bytes,
        ..Settings::default()
    };
    match role {
        Role::Server => Settings {
            concurrent_streams: limits.concurrent_streams,
            connect_protocol: limits.connect_protocol,
            no_rfc7540_priorities: true,
            ..common
        },
        Role::Client => Settings { enable_push: false, ..common },
    }
}
