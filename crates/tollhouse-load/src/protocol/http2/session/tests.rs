//! A session against the codec in the other role, with the bytes handed over in memory.

use std::pin::pin;
use std::task::Waker;

use http::HeaderValue;
use tollhouse_h2::{
    Connection, ConnectionError, EndStream, ErrorCode, Event, Limits, ResetCause, StreamId,
};
use tollhouse_stdx::MemoryBudget;

use super::exchanges::STREAMS_AT_FIRST;
use super::*;
use crate::failure::FailureClass;
use crate::protocol::http2::fields::Fields;
use crate::protocol::http2::intake::Flow;

/// Counts what it is given.
#[derive(Default)]
struct Count {
    status: u16,
    data_bytes: usize,
    has_ended: bool,
}

impl Intake for Count {
    fn begin(&mut self) {
        *self = Self::default();
    }

    fn wants_fields(&self) -> bool {
        false
    }

    fn head(&mut self, status: u16, _: &Fields) -> Result<Flow, Failure> {
        self.status = status;
        Ok(Flow::More)
    }

    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure> {
        self.data_bytes += data.len();
        Ok(Flow::More)
    }

    fn end(&mut self, _: Option<&Fields>) -> Result<(), Failure> {
        self.has_ended = true;
        Ok(())
    }
}

/// A session and the server that it speaks to.
struct Pair {
    session: Rc<Session>,
    server: Connection,
    /// Streams that were opened, and what has come on them.
    opened: Vec<StreamId>,
    resets: Vec<ErrorCode>,
    body_bytes: usize,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        let server = Connection::server(limits, &MemoryBudget::new(0), 0);
        let (opened, resets) = (Vec::new(), Vec::new());
        Self { session: Session::new(Clock::start()), server, opened, resets, body_bytes: 0 }
    }

    /// With the settings of both sides exchanged.
    fn acquainted(limits: Limits) -> Self {
        let mut pair = Self::new(limits);
        pair.exchange();
        pair
    }

    /// Hands the bytes over until neither side has any.
    fn exchange(&mut self) {
        while self.feed_server() | self.feed_session().expect("a peer that keeps the rules") {}
    }

    fn feed_server(&mut self) -> bool {
        let buffer = RefCell::new(Vec::new());
        let mut socket = Socket::new(tokio::io::join(tokio::io::empty(), Vec::new()), &buffer);
        let mut context = Context::from_waker(Waker::noop());
        let written = self.session.shared.poll_write(&mut context, &mut socket);
        assert!(written.is_ready());
        let bytes = socket.stream.into_inner().1;
        let mut input = &bytes[..];
        while let Some(event) = self.server.receive(&mut input, 0, &mut ()).expect("no fault") {
            match event {
                Event::Request { stream, .. } => self.opened.push(stream),
                Event::Data { stream, data, .. } => {
                    self.body_bytes += data.len();
                    self.server.consume(stream, data.len());
                }
                Event::Reset { stream, code, .. } => {
                    self.resets.push(code);
                    self.server.release(stream);
                }
                _ => {}
            }
        }
        !bytes.is_empty()
    }

    fn feed_session(&mut self) -> Result<bool, ConnectionError> {
        let bytes = self.server.output().to_vec();
        self.server.written(bytes.len());
        // In pieces, as networks deliver.
        for piece in bytes.chunks(7) {
            self.session.shared.receive(piece)?;
        }
        Ok(!bytes.is_empty())
    }

    fn answer(&mut self, stream: StreamId, body: &[u8]) {
        self.server.respond(stream, 200, [], body.is_empty().into()).expect("it is open");
        if !body.is_empty() {
            self.server.send_data(stream, body, EndStream::Yes).expect("it is open");
        }
        self.server.release(stream);
        self.exchange();
    }
}

fn is_over(session: &Session) -> bool {
    session.shared.with(|codec, exchanges| exchanges.is_over(codec))
}

fn wants_input(session: &Session) -> bool {
    session.shared.with(|codec, _| codec.wants_input())
}

fn now<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match now(pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it still waits"),
    }
}

fn head(headers: &HeaderMap) -> RequestHead<'_> {
    let line = RequestLine {
        method: b"POST",
        scheme: b"http",
        authority: b"a.example",
        path: b"/",
        protocol: b"",
    };
    RequestHead { number: None, line, headers }
}

/// Opens a stream with a body.
fn open(session: &Rc<Session>, body: &[u8]) -> (Call, Rc<RefCell<Count>>) {
    let count = Rc::<RefCell<Count>>::default();
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::clone(&count);
    let (headers, body) = (HeaderMap::new(), Bytes::copy_from_slice(body));
    let call = ready(session.open(&head(&headers), Some(body), &intake));
    (call.map_err(|broken| broken.failure).expect("it can be opened"), count)
}

fn outcome(call: &Call) -> Option<Result<u64, Broken>> {
    let mut first_byte_ns = 0;
    let finished = {
        let mut finished = pin!(call.finished(&mut first_byte_ns));
        now(finished.as_mut())
    };
    match finished {
        Poll::Ready(outcome) => Some(outcome.map(|()| first_byte_ns)),
        Poll::Pending => None,
    }
}

fn broken(call: &Call) -> Broken {
    outcome(call).expect("it is over").expect_err("it broke off")
}

#[test]
fn an_answer_is_taken_in_with_the_time_of_its_head() {
    let mut pair = Pair::acquainted(Limits::default());
    for length in [0, 3, 40_000] {
        let (call, count) = open(&pair.session, b"");
        pair.exchange();
        assert_eq!(outcome(&call), None);
        let stream = *pair.opened.last().expect("it was opened");
        pair.answer(stream, &vec![b'x'; length]);
        assert!(matches!(outcome(&call), Some(Ok(1..))));
        let count = count.borrow();
        assert_eq!((count.status, count.data_bytes, count.has_ended), (200, length, true));
    }
}

#[test]
fn a_body_goes_on_as_the_peer_makes_room() {
    // More than the windows that HTTP/2 begins with, and than the output holds.
    const BYTES: usize = 300_000;
    let mut pair = Pair::acquainted(Limits::default());
    let (_call, _) = open(&pair.session, &[b'x'; BYTES]);
    pair.exchange();
    assert_eq!(pair.body_bytes, BYTES);
}

#[test]
fn a_stream_waits_while_the_peer_takes_no_more() {
    let mut pair = Pair::acquainted(Limits { concurrent_streams: 1, ..Limits::default() });
    let (first, _) = open(&pair.session, b"");
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::default();
    let (session, headers) = (Rc::clone(&pair.session), HeaderMap::new());
    let head = head(&headers);
    let mut given_up = Box::pin(session.open(&head, Some(Bytes::new()), &intake));
    let mut second = Box::pin(session.open(&head, Some(Bytes::new()), &intake));
    assert!(now(given_up.as_mut()).is_pending() && now(second.as_mut()).is_pending());
    pair.exchange();
    pair.answer(pair.opened[0], b"");
    drop(first);
    // Whose turn it was has gone: the turn goes to the next.
    drop(given_up);
    assert!(now(second.as_mut()).is_ready());
    assert_eq!(pair.session.room.waiting.get(), 0);
}

#[test]
fn few_streams_are_opened_before_the_peer_has_said_how_many_it_takes() {
    let pair = Pair::new(Limits::default());
    let calls: Vec<_> = (0..STREAMS_AT_FIRST).map(|_| open(&pair.session, b"")).collect();
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::default();
    let headers = HeaderMap::new();
    let head = head(&headers);
    let mut next = pin!(pair.session.open(&head, Some(Bytes::new()), &intake));
    assert!(now(next.as_mut()).is_pending());
    drop(calls);
}

#[test]
fn resets_are_told_apart() {
    let mut pair = Pair::acquainted(Limits::default());
    for (code, message, is_unprocessed) in [
        (ErrorCode::REFUSED_STREAM, "stream reset: REFUSED_STREAM", true),
        (ErrorCode::INTERNAL_ERROR, "stream reset: INTERNAL_ERROR", false),
    ] {
        let (call, _) = open(&pair.session, b"");
        pair.exchange();
        let stream = *pair.opened.last().expect("it was opened");
        pair.server.reset(stream, code);
        pair.server.release(stream);
        pair.exchange();
        let broken = broken(&call);
        assert_eq!(broken, Broken::by_reset(code, ResetCause::Peer));
        assert_eq!((&*broken.failure.message, broken.is_unprocessed), (message, is_unprocessed));
    }
}

#[test]
fn a_goaway_ends_what_the_peer_does_not_deal_with() {
    let mut pair = Pair::acquainted(Limits::default());
    let (first, _) = open(&pair.session, b"");
    pair.exchange();
    pair.server.close(ErrorCode::NO_ERROR, "");
    let (second, _) = open(&pair.session, b"");
    let sent = pair.feed_session();
    assert!(sent.expect("GOAWAY is no fault"));
    assert!(!pair.session.is_usable());
    assert_eq!(outcome(&first), None);
    assert!(broken(&second).is_unprocessed);
    pair.session.lose(&closed(Some(ErrorCode::NO_ERROR)));
    let broken = broken(&first);
    assert_eq!((broken.failure.class, broken.is_unprocessed), (FailureClass::Closed, false));
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::default();
    let headers = HeaderMap::new();
    let refused = ready(pair.session.open(&head(&headers), None, &intake)).err();
    assert!(refused.is_some_and(|broken| broken.is_unprocessed));
}

#[test]
fn an_exchange_that_is_dropped_is_cancelled_and_the_others_go_on() {
    let mut pair = Pair::acquainted(Limits::default());
    let (dropped, _) = open(&pair.session, b"");
    let (kept, count) = open(&pair.session, b"");
    pair.exchange();
    pair.server.respond(pair.opened[0], 200, [], EndStream::No).expect("it is open");
    pair.server.send_data(pair.opened[0], b"late", EndStream::No).expect("it is open");
    drop(dropped);
    pair.exchange();
    assert_eq!(pair.resets, [ErrorCode::CANCEL]);
    pair.answer(pair.opened[1], b"ok");
    assert!(matches!(outcome(&kept), Some(Ok(1..))));
    assert_eq!(count.borrow().data_bytes, 2);
}

#[test]
fn a_message_of_a_stream_that_is_over_is_not_sent() {
    let mut pair = Pair::acquainted(Limits::default());
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::default();
    let headers = HeaderMap::new();
    let call = ready(pair.session.open(&head(&headers), None, &intake));
    let Ok(call) = call else { panic!("it can be opened") };
    assert!(ready(call.send(Bytes::from_static(b"one"))));
    pair.exchange();
    assert_eq!(pair.body_bytes, 3);
    // Nobody takes it: the window closes before it has gone.
    let mut blocked = pin!(call.send(Bytes::from(vec![0; 1 << 20])));
    assert!(now(blocked.as_mut()).is_pending());
    pair.server.reset(pair.opened[0], ErrorCode::CANCEL);
    assert!(pair.feed_session().expect("a reset is no fault"));
    assert_eq!(now(blocked.as_mut()), Poll::Ready(false));
}

#[test]
fn a_session_that_is_left_ends_with_its_last_exchange() {
    let mut pair = Pair::acquainted(Limits::default());
    let (call, _) = open(&pair.session, b"");
    pair.exchange();
    pair.session.leave();
    assert!(!pair.session.is_usable() && !is_over(&pair.session));
    drop(call);
    assert!(is_over(&pair.session));
}

#[test]
fn what_a_hostile_server_makes_it_hold_is_bounded() {
    /// Bytes that a connection may hold, whatever comes: output, a cut frame, tables.
    const BYTES_MAX: usize = 1 << 20;
    /// Appends what comes over and over.
    type Flood = fn(&mut Vec<u8>);
    // Each with the flags of the head that the answer begins with: 4 for a whole one.
    let floods: [(&str, u8, Flood); 4] = [
        ("pings", 4, |out| frame(out, 6, 0, 0, &[0; 8])),
        ("settings", 4, |out| frame(out, 4, 0, 0, &[])),
        ("a head without end", 0, |out| frame(out, 9, 0, 1, &[b'x'; 16_000])),
        ("empty data", 4, |out| frame(out, 0, 0, 1, &[])),
    ];
    for (name, head_flags, flood) in floods {
        let mut pair = Pair::acquainted(Limits::default());
        let (_call, _) = open(&pair.session, b"");
        pair.exchange();
        let mut begun = Vec::new();
        frame(&mut begun, 1, head_flags, 1, b"\x88");
        pair.session.shared.receive(&begun).expect("an answer begins");
        let (mut bytes, mut is_over) = (Vec::new(), false);
        for _ in 0..100_000 {
            bytes.clear();
            flood(&mut bytes);
            // Nobody writes its answers meanwhile.
            if pair.session.shared.receive(&bytes).is_err() || !wants_input(&pair.session) {
                is_over = true;
                break;
            }
        }
        assert!(is_over, "{name}");
        let memory_bytes = pair.session.shared.with(|codec, _| codec.memory_bytes());
        assert!(memory_bytes < BYTES_MAX, "{name}");
    }
}

/// Appends a frame (RFC 9113 §4.1).
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

#[test]
fn a_request_that_http2_does_not_know_is_named() {
    let pair = Pair::acquainted(Limits::default());
    let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Count>>::default();
    let mut headers = HeaderMap::new();
    headers.insert("te", HeaderValue::from_static("gzip"));
    let broken = ready(pair.session.open(&head(&headers), Some(Bytes::new()), &intake)).err();
    let broken = broken.expect("it is refused");
    assert_eq!((broken.failure.class, broken.is_unprocessed), (FailureClass::Write, false));
}
