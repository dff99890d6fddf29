//! Long bodies and slow ones: they pass in constant memory, as fast as the slower side, and piece by
//! piece.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tollhouse_testkit::{Connection, Gateway, Origin};

use crate::support::gateway_to;

const MEBIBYTE: usize = 1 << 20;

/// What a gateway may hold in addition while long bodies pass: a few buffers and the allocator's
/// slack; far below any of the bodies here.
const MEMORY_BYTES_MAX: u64 = 8 << 20;

/// What the kernel may hold between two sockets that nobody reads: its largest send and receive
/// buffers, on both sides of the gateway.
const KERNEL_BYTES_MAX: usize = 48 * MEBIBYTE;

/// Runs `transfer` and checks that the gateway's memory did not grow by it.
fn in_constant_memory(gateway: &Gateway, transfer: impl FnOnce()) {
    assert_eq!(gateway.client().get("/warm-up").status(), 200);
    let before = gateway.memory_before();
    transfer();
    let grown = gateway.memory_bytes_grown(before);
    assert!(grown < MEMORY_BYTES_MAX, "memory grew by {grown} bytes");
}

/// Takes uploads and sends downloads, both of the length that the request says.
fn mover(connection: &mut Connection) {
    while let Some(head) = connection.head() {
        let length = |name: &str| head.field(name).and_then(|text| text.parse::<u64>().ok());
        if connection.wire.discard(length("content-length").unwrap_or(0)).is_err() {
            return;
        }
        let length = length("x-send").unwrap_or(0);
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        let piece = vec![b'd'; MEBIBYTE];
        for _ in 0..length / MEBIBYTE as u64 {
            connection.send(&piece);
        }
    }
}

#[test]
fn an_upload_passes_in_constant_memory() {
    let origin = Origin::script(mover);
    let gateway = gateway_to(&origin);
    in_constant_memory(&gateway, || {
        let mut client = gateway.client();
        let length = 64 * MEBIBYTE;
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        for _ in 0..64 {
            client.send(vec![b'u'; MEBIBYTE]);
        }
        assert_eq!(client.answer().status(), 200);
        assert_eq!(client.get("/again").status(), 200);
    });
}

#[test]
fn a_chunked_upload_passes_in_constant_memory() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    in_constant_memory(&gateway, || {
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..32 {
            client.send(format!("{MEBIBYTE:x}\r\n")).send(vec![b'u'; MEBIBYTE]).send("\r\n");
        }
        assert_eq!(client.ask("0\r\n\r\n").status(), 200);
    });
    assert_eq!(origin.last_request().body.len(), 32 * MEBIBYTE);
}

#[test]
fn a_download_passes_in_constant_memory() {
    let origin = Origin::script(mover);
    let gateway = gateway_to(&origin);
    in_constant_memory(&gateway, || {
        let mut client = gateway.client();
        let length = 256 * MEBIBYTE;
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Send: {length}\r\n\r\n"));
        let head = client.answer_head();
        assert_eq!(head.field("content-length"), Some(length.to_string().as_str()));
        client.wire.discard(length as u64).expect("the whole body");
        assert_eq!(client.get("/again").status(), 200);
    });
}

#[test]
fn a_client_that_reads_nothing_holds_the_origin_up_and_fills_no_memory() {
    const LENGTH: usize = 128 * MEBIBYTE;
    let (stalled, stall) = channel();
    let stalled = Mutex::new(stalled);
    let origin = Origin::script(move |connection| {
        connection.head();
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"));
        let stream = connection.wire.stream();
        let set = stream.set_write_timeout(Some(Duration::from_millis(300)));
        set.expect("the socket takes its options");
        let (piece, mut sent) = (vec![b'd'; MEBIBYTE], 0);
        while sent < LENGTH {
            match (&mut &*stream).write(&piece[..MEBIBYTE.min(LENGTH - sent)]) {
                Ok(written) => sent += written,
                // Nothing moved for a while; told once, then waiting goes on.
                Err(_) => drop(stalled.lock().expect("no panic before").send(sent)),
            }
        }
    });
    let gateway = gateway_to(&origin);
    let before = gateway.memory_before();
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let sent = stall.recv_timeout(tollhouse_testkit::patience::DEADLINE).expect("a stall");
    assert!(sent < KERNEL_BYTES_MAX, "{sent} bytes were taken from the origin");
    let grown = gateway.memory_bytes_grown(before);
    assert!(grown < MEMORY_BYTES_MAX, "memory grew by {grown} bytes");
    assert_eq!(client.answer_head().status(), 200);
    client.wire.discard(LENGTH as u64).expect("the whole body");
}

/// How an event stream is framed: its head, and one event.
type Framing = (&'static str, fn(&str) -> String);

const FRAMINGS: [Framing; 3] = [
    ("Transfer-Encoding: chunked\r\n", |event| format!("{:x}\r\n{event}\r\n", event.len())),
    ("", str::to_owned),
    ("Content-Length: 1000000\r\n", str::to_owned),
];

fn event_stream(framing: Framing, go_on: Receiver<()>) -> Origin {
    let go_on = Mutex::new(go_on);
    Origin::script(move |connection| {
        connection.request();
        let (line, frame) = framing;
        connection
            .send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{line}\r\n"));
        for number in 0.. {
            if go_on.lock().expect("no panic before").recv().is_err() {
                return;
            }
            connection.send(frame(&format!("data: {number}\n\n")));
        }
    })
}

#[test]
fn each_event_of_a_stream_arrives_before_the_next_is_sent() {
    for framing in FRAMINGS {
        let (next, go_on) = channel();
        let origin = event_stream(framing, go_on);
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
        let head = client.answer_head();
        assert_eq!(head.field("content-type"), Some("text/event-stream"));
        for number in 0..20 {
            next.send(()).expect("the origin waits");
            let event = client.wire.take_through(b"\n\n").expect("an event").expect("no end");
            let event = String::from_utf8_lossy(&event).into_owned();
            assert!(event.ends_with(&format!("data: {number}\n\n")), "{framing:?}: {event:?}");
        }
    }
}

#[test]
fn each_piece_of_an_upload_arrives_before_the_next_is_sent() {
    let (seen, pieces) = channel();
    let seen = Mutex::new(seen);
    let origin = Origin::script(move |connection| {
        connection.head();
        while let Ok(piece) = connection.wire.take(5) {
            let _ = seen.lock().expect("no panic before").send(piece);
        }
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    for number in 100..120 {
        let piece = format!("{number}: ");
        client.send(&piece);
        let found = pieces.recv_timeout(tollhouse_testkit::patience::DEADLINE);
        assert_eq!(found.expect("the piece arrives"), piece.as_bytes());
    }
}
