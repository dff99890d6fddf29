//! What clients cannot make the server hold or do.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tollhouse_net::slots::Slots;
use tollhouse_polaris::answer::{Answer, Chunks};
use tollhouse_polaris::grpc::{Call, Options, Reply, Services};
use tollhouse_testkit::patience::wait_for;

use super::{start, start_gated, usual};
use crate::client::{Client, framed, request, run};
use crate::server::{Clock, Server, listener};

/// Bytes of a piece of a long answer.
const PIECE_BYTES: usize = 200;

/// Pieces of a long answer: 22 MB, a hundred thousand instances.
const PIECES: usize = 110_000;

/// A long answer whose pieces are counted as they are taken.
struct Counted {
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl Chunks for Counted {
    fn next(&mut self) -> Option<Bytes> {
        static PIECE: [u8; PIECE_BYTES] = [b'p'; PIECE_BYTES];
        self.left = self.left.checked_sub(1)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Bytes::from_static(&PIECE))
    }
}

/// A server with a method that has a long answer.
fn start_long(taken: &Arc<AtomicUsize>) -> Server {
    let taken = Arc::clone(taken);
    Server::start(move || {
        let long = move |_: &Rc<Call>, _| {
            let pieces = Counted { left: PIECES, taken: Arc::clone(&taken) };
            let length = 3 + PIECES * PIECE_BYTES;
            Reply::Now(Ok(Answer::chain(Bytes::from_static(b"abc"), length, pieces)))
        };
        usual().unary("/test.Test/Long", long.clone()).each("/test.Test/LongEach", long)
    })
}

#[test]
fn a_long_answer_arrives_whole() {
    let server = start_long(&Arc::default());
    run(async {
        let client = Client::connect(server.address).await;
        let ended = client.unary("/test.Test/Long", b"").await;
        let message = &ended.messages[0];
        assert_eq!(message.len(), 3 + PIECES * PIECE_BYTES);
        assert!(message.starts_with(b"abcppp") && message.ends_with(b"p"));
        assert_eq!(ended.code, Some(0));
    });
}

#[test]
fn a_client_that_does_not_read_takes_no_more_than_its_window() {
    let window = 256 * 1024;
    let taken = Arc::new(AtomicUsize::new(0));
    let server = start_long(&taken);
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(window).initial_connection_window_size(window);
    run(async {
        let slow = Client::connect_with(server.address, &settings).await;
        let mut calls = Vec::new();
        for path in ["/test.Test/LongEach", "/test.Test/Long", "/test.Test/Long"] {
            let mut call = slow.open(request(path)).await;
            call.say(b"one");
            if path.ends_with("Each") {
                call.say(b"two");
            }
            call.close();
            call.head().await;
            calls.push(call);
        }
        // Others are served meanwhile; and when they are, all that could be taken is.
        let other = Client::connect(server.address).await;
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
        let most = 2 * window as usize / PIECE_BYTES;
        assert!(taken.load(Ordering::Relaxed) <= most, "{}", taken.load(Ordering::Relaxed));
        // And once it reads, it gets everything it asked for.
        let mut call = calls.swap_remove(0);
        drop(calls);
        let body = call.body().await;
        let mut bytes = 0;
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            bytes += data.len();
            body.flow_control().release_capacity(data.len()).expect("open");
        }
        assert_eq!(bytes, 2 * (5 + 3 + PIECES * PIECE_BYTES));
    });
}

#[test]
fn answers_wait_for_a_client_that_asks_and_does_not_read() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::start(move || {
        let body = Bytes::from(vec![b'b'; 32 * 1024]);
        usual().each("/test.Test/Shared", move |_: &Rc<Call>, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Reply::Now(Ok(Answer::shared(body.clone())))
        })
    });
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(16 * 1024).initial_connection_window_size(1 << 20);
    run(async {
        let client = Client::connect_with(server.address, &settings).await;
        let mut call = client.open(request("/test.Test/Shared")).await;
        // Enough to tell a few from all, and few enough for a machine that does other things.
        for _ in 0..100 {
            call.say(b"more");
        }
        assert_eq!(call.head().await, 200);
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));
        assert!(asked.load(Ordering::Relaxed) < 10, "{}", asked.load(Ordering::Relaxed));
        call.close();
        assert_eq!(call.end().await.messages.len(), 100);
    });
}

#[test]
fn a_message_of_twenty_megabytes_ends_its_call_alone() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let mut call = client.open(request("/test.Test/Each")).await;
        call.say(b"before");
        assert_eq!(call.next().await.as_deref(), Some(&b"before"[..]));
        call.say(&vec![0; 20 << 20]);
        let ended = call.end().await;
        assert_eq!(ended.code, Some(8), "{}", ended.text);
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
}

#[test]
fn unfinished_messages_of_one_connection_have_a_bound() {
    let server = start();
    run(async {
        let greedy = Client::connect(server.address).await;
        let part = framed(&vec![0; 4 << 20]).slice(..4 << 20);
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..9 {
            let mut call = greedy.open(request("/test.Test/Echo")).await;
            call.stream.send_data(part.clone(), false).expect("sent");
            calls.spawn(call.end());
        }
        let ended = calls.join_next().await.expect("nine calls").expect("no panic");
        assert_eq!(ended.code, Some(8), "{}", ended.text);
        let other = Client::connect(server.address).await;
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
        calls.shutdown().await;
        // What was taken back counts until the server has seen that it was.
        while greedy.unary("/test.Test/Echo", &[1; 1 << 20]).await.code != Some(0) {}
    });
}

#[test]
fn whole_messages_of_calls_that_are_not_ended_have_the_same_bound() {
    let server = start();
    run(async {
        let greedy = Client::connect(server.address).await;
        let whole = framed(&vec![0; 4 << 20]);
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..9 {
            let mut call = greedy.open(request("/test.Test/Echo")).await;
            call.stream.send_data(whole.clone(), false).expect("sent");
            calls.spawn(call.end());
        }
        let ended = calls.join_next().await.expect("nine calls").expect("no panic");
        assert_eq!(ended.code, Some(8), "{}", ended.text);
        let other = Client::connect(server.address).await;
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
        calls.shutdown().await;
        while greedy.unary("/test.Test/Echo", &[1; 1 << 20]).await.code != Some(0) {}
    });
}

#[test]
fn calls_that_are_taken_back_count_until_their_work_is_done() {
    let (server, gate) = start_gated();
    // The four calls of `Echo` in between have ended.
    let allowed = u64::from(tollhouse_polaris::grpc::limits::STREAMS_MAX) + 4;
    run(async {
        let greedy = Client::connect(server.address).await;
        let other = Client::connect(server.address).await;
        for _ in 0..2 {
            let mut burst = Vec::new();
            for _ in 0..450 {
                let mut call = greedy.open(request("/test.Test/Gated")).await;
                call.say(b"work");
                call.close();
                burst.push(call);
            }
            // When this is answered the server has seen all that was sent before.
            assert_eq!(greedy.unary("/test.Test/Echo", b"x").await.code, Some(0));
            burst.iter_mut().for_each(|call| call.stream.send_reset(h2::Reason::CANCEL));
            assert_eq!(greedy.unary("/test.Test/Echo", b"x").await.code, Some(0));
        }
        let mut beyond = Vec::new();
        for _ in 0..140 {
            let mut call = greedy.open(request("/test.Test/Gated")).await;
            call.say(b"work");
            call.close();
            beyond.push(call);
        }
        let mut others = 0;
        while server.counts.calls.get() < allowed + others {
            assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
            others += 1;
        }
        gate.notify_waiters();
        // Answered behind the work that has been let go on.
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
        assert_eq!(greedy.unary("/test.Test/Echo", b"late").await.messages, [b"late"]);
    });
}

#[test]
fn header_fields_have_a_bound() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let mut long = request("/test.Test/Echo");
        long.headers_mut().insert("x-long", "a".repeat(20_000).parse().expect("valid"));
        assert_eq!(client.send(long, &[framed(b"x")]).await.http, 431);
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
}

#[test]
fn connections_have_a_bound() {
    let options = Options { slots: Slots::new("test", 1), ..Options::default() };
    let server = Server::start_with(usual, options, listener(), Clock::Real);
    run(async {
        let first = Client::connect(server.address).await;
        assert_eq!(first.unary("/test.Test/Echo", b"x").await.code, Some(0));
        let second = tokio::net::TcpStream::connect(server.address).await.expect("accepted");
        second.readable().await.expect("readable");
        let seen = second.try_read(&mut [0; 8]);
        assert!(matches!(seen, Ok(0) | Err(_)), "closed at once: {seen:?}");
        first.cut().await;
    });
    wait_for("the first connection's end", || {
        (server.counts.connections_ended.get() == 1).then_some(())
    });
    run(async {
        let third = Client::connect(server.address).await;
        assert_eq!(third.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
    assert_eq!(server.counts.connections_refused.get(), 1);
}

#[test]
fn a_flood_of_resets_ends_its_connection_and_no_other() {
    use std::io::{Read, Write};
    let server = start();
    let mut flood = PREFACE.to_vec();
    // `:method: POST`, `:scheme: http`, `:path: /`, from the static table.
    let fields = [0x83, 0x86, 0x84];
    for number in 0..20_000_u32 {
        flood.extend_from_slice(&frame(HEADERS, 4, 2 * number + 1, &fields));
        flood.extend_from_slice(&frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]));
    }
    let mut socket = std::net::TcpStream::connect(server.address).expect("somebody listens");
    let mut reading = socket.try_clone().expect("a live socket");
    // Fails when the server has had enough before all is written.
    let writing = std::thread::spawn(move || drop(socket.write_all(&flood)));
    let mut seen = Vec::new();
    // An error is an end too.
    let _ = reading.read_to_end(&mut seen);
    writing.join().expect("no panic");
    assert_eq!(server.counts.connections_faulted.get(), 1, "somebody looks for why it ended");
    run(async {
        let other = Client::connect(server.address).await;
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
    assert_eq!(server.counts.connections_faulted.get(), 1);
}

#[test]
fn a_client_that_opens_more_calls_than_it_may_is_refused_those_and_no_other_client_notices() {
    use std::io::{Read, Write};
    let server = start();
    let mut flood = PREFACE.to_vec();
    // `:method: POST`, `:scheme: http`, an authority, a path and a content type as clients of gRPC send
    // them.
    let mut fields = vec![0x83, 0x86, 0x01, 1, b'a', 0x04, 16];
    fields.extend_from_slice(b"/test.Test/Never");
    fields.extend_from_slice(&[0x0f, 0x10, 16]);
    fields.extend_from_slice(b"application/grpc");
    let allowed = tollhouse_polaris::grpc::limits::STREAMS_MAX;
    let beyond = 900;
    for number in 0..allowed {
        flood.extend_from_slice(&frame(HEADERS, 4, 2 * number + 1, &fields));
        flood.extend_from_slice(&frame(DATA, 1, 2 * number + 1, &framed(b"x")));
    }
    // Heads alone: what follows a refused one counts as a mistake of its own.
    for number in allowed..allowed + beyond {
        flood.extend_from_slice(&frame(HEADERS, 4, 2 * number + 1, &fields));
    }
    let mut socket = std::net::TcpStream::connect(server.address).expect("somebody listens");
    let mut reading = socket.try_clone().expect("a live socket");
    let writing = std::thread::spawn(move || socket.write_all(&flood).map(|()| socket));
    // Every call beyond the bound is refused, and none within it.
    let mut refused = 0;
    while refused < beyond {
        let mut head = [0; 9];
        reading.read_exact(&mut head).expect("the connection stays");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut body = vec![0; length];
        reading.read_exact(&mut body).expect("whole frames");
        assert_ne!(head[3], GOAWAY, "{body:?}");
        if head[3] == RST_STREAM {
            assert_eq!(body, [0, 0, 0, 7], "REFUSED_STREAM: the client may try again");
            refused += 1;
        }
    }
    run(async {
        let other = Client::connect(server.address).await;
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
    assert_eq!(server.counts.calls.get(), u64::from(allowed) + 1);
    drop((writing.join().expect("no panic").expect("all was taken"), reading));
    wait_for("the end of the flood", || (server.counts.connections_ended.get() == 2).then_some(()));
}

/// Services without a method, for servers that are only connected to.
fn none() -> Services {
    Services::new()
}

#[test]
fn silent_connections_are_asked_and_then_ended() {
    use std::io::{Read, Write};
    let server = Server::start_with(none, Options::default(), listener(), Clock::LeapsWhenAsked);
    let connect = || std::net::TcpStream::connect(server.address).expect("somebody listens");
    let (mut spoken, mut mute) = (connect(), connect());
    spoken.write_all(PREFACE).expect("the kernel takes it");
    // Before time leaps, the server has both connections and has heard what one of them says: it answers
    // the settings with its own and an acknowledgement.
    let mut seen = Vec::new();
    while !frames_with_flags(&seen).contains(&(SETTINGS, 1)) {
        let mut more = [0; 1_024];
        let count = spoken.read(&mut more).expect("it answers");
        assert_ne!(count, 0, "it goes on");
        seen.extend_from_slice(&more[..count]);
    }
    wait_for("both connections", || (server.counts.connections.get() == 2).then_some(()));
    server.leap();
    spoken.read_to_end(&mut seen).expect("ended by the server");
    let kinds = frames_with_flags(&seen);
    let pings = kinds.iter().filter(|(kind, _)| *kind == PING).count();
    assert_eq!(pings, 1, "{kinds:?}");
    let mut nothing = Vec::new();
    mute.read_to_end(&mut nothing).expect("ended by the server");
    assert_eq!(server.counts.handshakes_failed.get(), 1);
}

/// What a client of HTTP/2 begins with: the preface, and settings that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Types of frames (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(body.len()).expect("short").to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

/// The types and flags of frames, as far as they are whole.
fn frames_with_flags(mut bytes: &[u8]) -> Vec<(u8, u8)> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some(rest) = rest.get(length..) else { break };
        kinds.push((head[3], head[4]));
        bytes = rest;
    }
    kinds
}
