//! HTTP/2 from clients who mean no good, or have lost count: whose connections end, and who is served
//! meanwhile. What a frame is worth is tested beside the codec.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::Reason;
use http::Request;
use tollhouse_telemetry::Metrics;

use crate::http2::{ask, echo, gateway, request, with_client};
use crate::support::{Options, PATIENCE, connect};

/// What a connection begins with, and settings that say nothing.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// `GET / HTTP/2` for `a`, as fields.
const FIELDS: &[u8] = b"\x82\x86\x84\x41\x01a";

pub(crate) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// `ENHANCE_YOUR_CALM`.
const CALM: u32 = 11;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request, and what makes an end of it: the client itself, or the server for a fault of the client.
pub(crate) fn opened_and_reset(stream: u32, by_fault: bool) -> Vec<u8> {
    let end = match by_fault {
        // No window grows by nothing.
        true => frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
        false => frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()),
    };
    [frame(HEADERS, 5, stream, FIELDS), end].concat()
}

/// Opens streams and has them reset until the connection is said to end; gives the code of that, where it
/// could still be read.
fn flood(gateway: SocketAddr, by_fault: bool) -> Option<u32> {
    let mut stream = TcpStream::connect(gateway).expect("the gateway accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut reading = stream.try_clone().expect("a socket");
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&has_ended);
    // What is not read would stop the gateway from answering, which is another bound.
    let said = std::thread::spawn(move || {
        let (mut said, mut room) = (Vec::new(), [0; 4096]);
        // A reset of the connection is an end too.
        while let Ok(read @ 1..) = reading.read(&mut room) {
            said.extend_from_slice(&room[..read]);
            if goaway_code(&said).is_some() {
                break;
            }
        }
        ends.store(true, Ordering::SeqCst);
        goaway_code(&said)
    });
    let mut streams = 0;
    let mut sent = stream.write_all(PREFACE);
    while sent.is_ok() && !has_ended.load(Ordering::SeqCst) {
        let batch = (0..100).flat_map(|_| {
            streams += 1;
            opened_and_reset(streams * 2 - 1, by_fault)
        });
        let batch: Vec<u8> = batch.collect();
        sent = stream.write_all(&batch);
    }
    said.join().expect("no panic")
}

/// The code of the last GOAWAY among frames.
fn goaway_code(mut frames: &[u8]) -> Option<u32> {
    let mut code = None;
    while let Some((head, rest)) = frames.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, behind)) = rest.split_at_checked(length) else { break };
        if head[3] == GOAWAY {
            code = payload.get(4..8).map(|code| u32::from_be_bytes(code.try_into().expect("four")));
        }
        frames = behind;
    }
    code
}

#[test]
fn others_are_served_while_clients_have_streams_reset_without_end() {
    const FLOODS: usize = 4;
    const REQUESTS: usize = 200;
    let metrics = Arc::new(Metrics::new());
    let options = Options { metrics: Arc::clone(&metrics), ..Options::default() };
    let gateway = gateway(options, echo);
    let address = gateway.address;
    let floods: Vec<_> = (0..FLOODS)
        .map(|number| std::thread::spawn(move || flood(address, number % 2 == 1)))
        .collect();
    with_client(&gateway, async |mut client| {
        for _ in 0..REQUESTS {
            assert_eq!(ask(&mut client, request("GET", "/")).await.status(), 200);
        }
    });
    for flood in floods {
        // What it ended with is lost where the gateway closes on bytes unread.
        let code = flood.join().expect("no panic");
        assert!(code.is_none_or(|code| code == CALM), "{code:?}");
    }
    gateway.stop();
    let told = metrics.render();
    let count = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
        line.trim().parse::<f64>().expect("a number")
    };
    let streams = count("tollhouse_downstream_http2_streams_total ");
    // A thousand resets at once, and some more as time gives them back.
    assert!(streams <= (REQUESTS + FLOODS * 3000) as f64, "{streams}");
    assert_eq!(count("tollhouse_downstream_http2_connections_failed_total "), FLOODS as f64);
}

#[test]
fn a_body_of_another_length_than_it_said_leaves_nothing_on_a_connection_that_is_used_again() {
    let seen: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let (heard, connections) = (Arc::clone(&seen), AtomicUsize::new(0));
    let gateway = gateway(Options::default(), move |mut node| {
        let number = connections.fetch_add(1, Ordering::SeqCst);
        while let Some(head) = node.head() {
            let method = head.split(' ').next().unwrap_or_default().to_owned();
            heard.lock().expect("no panic").push((number, method.clone()));
            let is_whole = method != "POST" || node.take(5);
            if !is_whole {
                return;
            }
            node.answer("read");
        }
    });
    with_client(&gateway, async |mut client| {
        for body in ["abcd", "abcdef", "", "abcde"] {
            assert_eq!(ask(&mut client, request("GET", "/")).await.status(), 200);
            let post = Request::post("http://host.test/").header("content-length", "5");
            let post = post.body(()).expect("a request");
            let (response, mut up) = client.send_request(post, false).expect("a stream");
            up.send_data(Bytes::copy_from_slice(body.as_bytes()), true).expect("an open stream");
            let answered = response.await;
            match body.len() {
                5 => assert_eq!(answered.expect("an answer").status(), 200),
                _ => {
                    let error = answered.expect_err("it is malformed");
                    assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR), "{body:?}");
                }
            }
        }
        assert_eq!(ask(&mut client, request("GET", "/")).await.status(), 200);
    });
    let seen = seen.lock().expect("no panic").clone();
    // Behind a body that was cut nothing came over the same connection; behind the whole one, the last.
    // In the order of connections: a head that was cut short may be seen after the next one's.
    let mut posts: Vec<usize> =
        seen.iter().enumerate().filter(|(_, it)| it.1 == "POST").map(|(place, _)| place).collect();
    posts.sort_by_key(|place| seen[*place].0);
    let later = |place: usize| {
        let number = seen[place].0;
        seen[place + 1..].iter().filter(|(other, _)| *other == number).count()
    };
    let (whole, cut) = posts.split_last().expect("the whole one has reached the node");
    for place in cut {
        assert_eq!(later(*place), 0, "connection {} was used again: {seen:?}", seen[*place].0);
    }
    assert_eq!(later(*whole), 1, "a good one is kept: {seen:?}");
    gateway.stop();
}

#[test]
fn a_header_block_that_cannot_be_read_ends_its_connection() {
    let gateway = gateway(Options::default(), |_| {});
    // A literal name of ten bytes, one of which follows. With the preface and by itself.
    let block = frame(HEADERS, 5, 1, b"\x40\x0aa");
    for pieces in [&[&[PREFACE, &block].concat()[..]][..], &[PREFACE, &block]] {
        let mut client = connect(&gateway);
        for piece in pieces {
            client.write_all(piece).expect("the gateway reads");
        }
        let mut said = Vec::new();
        client.read_to_end(&mut said).expect("the gateway closes the connection");
        // COMPRESSION_ERROR (RFC 9113 section 4.3).
        assert_eq!(goaway_code(&said), Some(9));
    }
}
