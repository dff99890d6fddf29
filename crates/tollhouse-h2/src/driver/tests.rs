//! A session against the codec in the other role, over a transport in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::{EndStream, ErrorCode, Limits, RequestLine};
use tollhouse_stdx::MemoryBudget;

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Transport whose reads are given pieces, and whose writes take so many bytes in all.
#[derive(Default)]
struct Pipe {
    pieces: VecDeque<io::Result<Vec<u8>>>,
    written: Vec<u8>,
    writes: usize,
    room: usize,
    reads_begun: usize,
}

impl Pipe {
    fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }
}

impl Transport for Pipe {
    fn poll_read<T>(
        &mut self,
        _: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        let Some(piece) = self.pieces.pop_front() else { return Poll::Pending };
        Poll::Ready(piece.map(|bytes| take(&bytes)))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = output.len().min(self.room - self.written.len());
        if bytes == 0 {
            return Poll::Pending;
        }
        self.writes += 1;
        self.written.extend_from_slice(&output[..bytes]);
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn after_read(&mut self, _: &mut Context<'_>) {
        self.reads_begun += 1;
    }
}

/// Answers each request with a body of so many bytes.
#[derive(Default)]
struct Bodies {
    body_bytes: usize,
    left: StreamTable<usize>,
    received_bytes: usize,
    written_bytes: usize,
    fields: (),
}

impl Application for Bodies {
    type Fields = ();

    fn fields(&mut self) -> &mut () {
        &mut self.fields
    }

    fn received(&mut self, bytes: usize) -> u64 {
        self.received_bytes += bytes;
        0
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request { stream, .. } => {
                codec.respond(stream, 200, [], EndStream::No).expect("it is open");
                self.left.insert(stream, self.body_bytes);
                self.send(codec, stream);
            }
            Event::Reset { stream, .. } => {
                self.left.remove(stream);
                codec.release(stream);
            }
            _ => {}
        }
    }

    fn send(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(left) = self.left.get_mut(stream) else { return };
        let sent = codec.send_data(stream, &vec![b'x'; *left], EndStream::Yes);
        *left -= sent.expect("it is open");
        if *left == 0 {
            self.left.remove(stream);
            codec.release(stream);
        }
    }

    fn written(&mut self, _: &mut Connection, bytes: usize) {
        self.written_bytes += bytes;
    }
}

/// A server's session and a client.
struct Pair {
    session: Session<Bodies>,
    pipe: Pipe,
    client: Connection,
    wakes: Arc<Wakes>,
    /// Bytes of what was written that the client has.
    delivered: usize,
    body_bytes: usize,
}

impl Pair {
    fn new(body_bytes: usize, room: usize) -> Self {
        Self::with_limits(Limits::default(), body_bytes, room)
    }

    fn with_limits(limits: Limits, body_bytes: usize, room: usize) -> Self {
        let budget = MemoryBudget::unlimited();
        let codec = Connection::server(limits, &budget, 0);
        let bodies = Bodies { body_bytes, ..Bodies::default() };
        Self {
            session: Session::new(codec, bodies),
            pipe: Pipe::new(room),
            client: Connection::client(Limits::default(), &budget, 0),
            wakes: Arc::default(),
            delivered: 0,
            body_bytes: 0,
        }
    }

    fn open(&mut self) -> StreamId {
        let line = RequestLine {
            method: b"GET",
            scheme: b"http",
            authority: b"a",
            path: b"/",
            protocol: b"",
        };
        self.client.open(&line, [], EndStream::Yes).expect("streams are free")
    }

    fn poll(&mut self) -> Poll<End> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.session.poll_turn(&mut Context::from_waker(&waker), &mut self.pipe)
    }

    /// Hands bytes over in both directions until neither side has any.
    fn exchange(&mut self) {
        loop {
            let output = self.client.output().to_vec();
            self.client.written(output.len());
            let is_quiet = output.is_empty();
            if !is_quiet {
                self.pipe.pieces.push_back(Ok(output));
            }
            assert!(self.poll().is_pending());
            let mut input = &self.pipe.written[self.delivered..];
            if is_quiet && input.is_empty() {
                return;
            }
            self.delivered = self.pipe.written.len();
            while let Some(event) = self.client.receive(&mut input, 0, &mut ()).expect("no fault") {
                if let Event::Data { stream, data, ends } = event {
                    self.body_bytes += data.len();
                    self.client.consume(stream, data.len());
                    if ends {
                        self.client.release(stream);
                    }
                }
            }
        }
    }
}

#[test]
fn responses_go_on_as_windows_and_output_allow() {
    // More than the windows that HTTP/2 begins with, and than the output holds.
    const BYTES: usize = 300_000;
    let mut pair = Pair::new(BYTES, usize::MAX);
    pair.open();
    pair.open();
    pair.exchange();
    assert_eq!(pair.body_bytes, 2 * BYTES);
    let written = pair.pipe.written.len();
    pair.session.with(|codec, bodies| {
        assert_eq!(codec.open_streams(), 0);
        assert!(bodies.left.is_empty());
        assert_eq!(bodies.written_bytes, written);
        assert!(bodies.received_bytes > 0);
    });
}

#[test]
fn a_turn_writes_once_what_its_reads_have_caused() {
    let mut pair = Pair::new(10, usize::MAX);
    pair.exchange();
    let writes = pair.pipe.writes;
    for _ in 0..10 {
        pair.open();
    }
    let output = pair.client.output().to_vec();
    pair.pipe.pieces.push_back(Ok(output));
    assert!(pair.poll().is_pending());
    assert_eq!(pair.pipe.writes, writes + 1);
}

#[test]
fn output_that_leaves_no_room_for_replies_is_written_before_the_next_read() {
    let limits = Limits { output_bytes_max: 0, ..Limits::default() };
    let mut pair = Pair::with_limits(limits, 10, usize::MAX);
    pair.open();
    let output = pair.client.output().to_vec();
    pair.client.written(output.len());
    pair.pipe.pieces.push_back(Ok(output));
    assert!(pair.poll().is_pending());
    assert!(pair.pipe.pieces.is_empty(), "its settings were written, and then it has read");
    pair.exchange();
    assert_eq!(pair.body_bytes, 10);
}

#[test]
fn output_outside_a_turn_wakes_the_task_once() {
    let mut pair = Pair::new(0, usize::MAX);
    pair.exchange();
    let ping = |pair: &Pair| pair.session.with(|codec, _| codec.ping([1; 8]));
    assert_eq!(pair.wakes.count(), 0);
    pair.session.with(|codec, _| codec.open_streams());
    assert_eq!(pair.wakes.count(), 0, "nothing was added");
    ping(&pair);
    ping(&pair);
    assert_eq!(pair.wakes.count(), 1);
    let waker = Waker::from(Arc::clone(&pair.wakes));
    pair.session.turn(&mut Context::from_waker(&waker), |_| ping(&pair));
    assert_eq!(pair.wakes.count(), 1, "the turn writes it");
    pair.session.wake();
    assert_eq!(pair.wakes.count(), 2);
}

#[test]
fn a_turn_ends_after_so_many_reads() {
    let mut pair = Pair::new(0, usize::MAX);
    let output = pair.client.output().to_vec();
    pair.pipe.pieces.extend(output.iter().map(|byte| Ok(vec![*byte])));
    let pieces = pair.pipe.pieces.len();
    assert!(pair.poll().is_pending());
    assert_eq!(pair.wakes.count(), 1);
    assert_eq!(pieces - pair.pipe.pieces.len(), READS_PER_TURN as usize);
    assert_eq!(pair.pipe.reads_begun, READS_PER_TURN as usize);
}

#[test]
fn every_end_has_its_reason() {
    let mut pair = Pair::new(0, usize::MAX);
    pair.pipe.pieces.push_back(Ok(b"GET / HTTP/1.1\r\n\r\n".to_vec()));
    let Poll::Ready(End::Fault(error)) = pair.poll() else { panic!("a fault") };
    assert_eq!(error.code, ErrorCode::PROTOCOL_ERROR);
    assert!(pair.pipe.written.ends_with(error.reason.as_bytes()), "its GOAWAY is written");

    let mut pair = Pair::new(0, usize::MAX);
    pair.pipe.pieces.push_back(Ok(Vec::new()));
    assert!(matches!(pair.poll(), Poll::Ready(End::Closed)));

    let mut pair = Pair::new(0, usize::MAX);
    pair.pipe.pieces.push_back(Err(ErrorKind::ConnectionReset.into()));
    assert!(matches!(pair.poll(), Poll::Ready(End::Broken(_))));

    let mut pair = Pair::new(0, usize::MAX);
    pair.exchange();
    pair.session.with(|codec, _| codec.close(ErrorCode::NO_ERROR, "idle"));
    assert!(matches!(pair.poll(), Poll::Ready(End::Finished)));
}

#[test]
fn a_deadline_that_has_passed_ends_the_connection() {
    let mut pair = Pair::new(0, usize::MAX);
    assert!(pair.session.tick(1000).is_ok());
    let error = pair.session.tick(60_000).expect_err("no preface has come");
    assert_eq!(error.code, ErrorCode::SETTINGS_TIMEOUT);
    assert!(matches!(pair.poll(), Poll::Ready(End::Finished)));
}

#[test]
fn a_full_transport_keeps_what_it_did_not_take() {
    let mut pair = Pair::new(0, 5);
    assert!(pair.poll().is_pending());
    assert_eq!(pair.pipe.written.len(), 5);
    pair.pipe.room = usize::MAX;
    pair.exchange();
    pair.open();
    pair.exchange();
    assert_eq!(pair.client.open_streams(), 0, "the response has arrived");
}

#[test]
fn the_table_finds_no_stream_of_the_past() {
    let mut pair = Pair::new(0, usize::MAX);
    let mut table = StreamTable::default();
    let [first, second] = [pair.open(), pair.open()];
    *table.insert(first, 'a') = 'b';
    table.insert(second, 'c');
    assert_eq!((table.get(first).copied(), table.get_mut(second)), (Some('b'), Some(&mut 'c')));
    pair.client.release(first);
    let third = pair.open();
    assert_eq!(third.slot(), first.slot());
    table.insert(third, 'd');
    assert_eq!((table.get(first).copied(), table.remove(first)), (None, None));
    assert_eq!(table.iter_mut().map(|(_, state)| *state).collect::<String>(), "dc");
    table.retain(|stream, _| stream == second);
    assert_eq!(table.remove(second), Some('c'));
    assert!(table.is_empty());
}
