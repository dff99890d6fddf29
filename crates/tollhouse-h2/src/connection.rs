//! One connection, of either role: the state that all its parts share, and how it is made.
//!
//! What arrives is taken apart in `connection/receive.rs`, `heads.rs`, `control.rs` and `body.rs`;
//! what leaves is written in `open.rs`, `send.rs` and `output.rs`; `lifetime.rs` drains, ends and keeps time.

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

/// Streams that were closed last and are remembered, so that what is still in flight for them is told
/// from what may not come. Older ones get the benefit of the doubt, but for new heads.
const CLOSED_STREAMS_MAX: usize = 128;

/// How a stream ended that the application no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Both sides said END_STREAM.
    Complete,
    /// We reset it, or never let it begin: frames that are in flight are dropped.
    ByUs,
    /// The peer reset it.
    ByPeer,
}

/// What is left of each [`crate::limits::Rate`].
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

/// Flow control of the connection as a whole.
struct Windows {
    /// Bytes that may be sent.
    send: i32,
    /// Bytes that the peer may send.
    receive: i32,
    /// Bytes received and not yet returned to the peer.
    credit: u32,
    /// Bytes handed out and not yet consumed, of all streams.
    unread: u64,
    /// Bytes that windows of streams have grown by.
    growth: u32,
    /// Bytes taken from the budget of the process: for `growth`, or for `unread` where that is more.
    budget: Reservation,
}

/// A connection. See the crate's page for how it is used.
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
    /// Whether the peer's first SETTINGS came.
    has_peer_settings: bool,
    /// When our SETTINGS were sent, until they are acknowledged.
    settings_sent_ms: Option<u64>,
    /// From our SETTINGS to their acknowledgement.
    round_trip_ms: u64,
    windows: Windows,
    streams: Streams,
    closed: VecDeque<(u32, Ending)>,
    /// Highest stream that the peer opened.
    highest_peer: u32,
    /// The stream that we open next; of a client only.
    next_own: u32,
    /// Streams that have DATA and an open window of their own.
    ready: Vec<StreamId>,
    /// Counts streams that were chosen to send.
    turn: u32,
    /// A priority that came before its stream.
    early_priority: Option<(u32, Priority)>,
    drain: Drain,
    /// The last stream of the peer's GOAWAY.
    peer_last: Option<u32>,
    last_malformed: Option<Malformed>,
    /// An event that a frame's header brought, before its payload.
    pending_event: Option<Event<'static>>,
    /// Room for names that are made lower case.
    lowered: Vec<u8>,
    failure: Option<ConnectionError>,
    started_ms: u64,
}

impl Connection {
    /// The server's side of a connection that was just accepted. Windows grow within `budget`.
    pub fn server(limits: Limits, budget: &Arc<MemoryBudget>, now_ms: u64) -> Self {
        Self::new(Role::Server, limits, budget, now_ms)
    }

    /// The client's side of a connection that was just opened. Windows grow within `budget`.
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
        // The preface and our settings go out without waiting for the peer's (RFC 9113 §3.4), and
        // so does a window wider than the 64 KiB that every connection begins with.
        connection.output.begin(role, &local);
        connection.widen_connection();
        connection
    }

    /// Which side this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What it has seen.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The bounds that it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The peer's settings as far as they are known.
    pub fn peer_settings(&self) -> &Settings {
        &self.peer
    }

    /// Whether the peer's first SETTINGS came.
    pub fn has_peer_settings(&self) -> bool {
        self.has_peer_settings
    }

    /// Streams that the application holds.
    pub fn open_streams(&self) -> u32 {
        self.streams.len()
    }

    /// What was wrong with the last message that was refused.
    pub fn last_malformed(&self) -> Option<Malformed> {
        self.last_malformed
    }

    /// Whether releasing a stream would reset it: one of its directions is still open.
    pub fn is_unfinished(&self, stream: StreamId) -> bool {
        self.streams.get(stream).is_some_and(|stream| !stream.is_closed())
    }

    /// The latest time that it was told.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What ended the connection.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failure
    }

    /// The priority of a stream, as the peer has said it.
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        self.streams.get(stream).map(|stream| stream.priority)
    }

    /// Gives a stream another priority: that of the response, where a server knows better.
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.priority = priority;
        }
    }

    /// Bytes of memory that it holds beside its own size.
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

    /// Gives back what an idle connection need not hold; what is needed again is allocated again.
    pub fn release_memory(&mut self) {
        self.output.shrink();
        self.input.shrink();
        self.streams.shrink();
        if self.ready.is_empty() {
            self.ready = Vec::new();
        }
        self.closed.shrink_to_fit();
    }

    /// Remembers how a stream ended.
    fn remember(&mut self, number: u32, ending: Ending) {
        if self.closed.len() == CLOSED_STREAMS_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back((number, ending));
    }

    /// How a stream that nobody holds ended, as far as it is remembered.
    fn ending(&self, number: u32) -> Option<Ending> {
        let mut last_first = self.closed.iter().rev();
        last_first.find(|(other, _)| *other == number).map(|(_, ending)| *ending)
    }

    /// Whether a stream has not begun yet.
    fn is_idle(&self, number: u32) -> bool {
        match (self.role, number % 2 == 1) {
            (Role::Server, true) => number > self.highest_peer,
            (Role::Client, true) => number >= self.next_own,
            // Pushed ones, which there are none of.
            (_, false) => true,
        }
    }
}

/// What is told of the limits.
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
