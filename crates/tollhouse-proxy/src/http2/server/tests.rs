//! Turns of a connection whose client opens many streams at once.

use std::io::Write;
use std::net::TcpStream as Far;

use tokio::net::TcpListener;
use tollhouse_net::Stream;

use super::*;
use crate::settings::Limits;
use crate::testing;

/// Preface of a connection, and settings without values.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Fields of `GET /` for `a`.
const FIELDS: &[u8] = b"\x82\x86\x84\x41\x01a";

/// DATA on the connection itself, which ends it (RFC 9113 §6.1).
const FAULT: &[u8] = &[0; 9];

/// Requests without a body, each on a stream of its own.
fn requests(count: u8) -> Vec<u8> {
    let head = |number: u8| [&[0, 0, 6, 1, 5, 0, 0, 0, 2 * number + 1], FIELDS].concat();
    (0..count).flat_map(head).collect()
}

/// Runs `test` with a client that has sent `bytes` at once.
fn run(bytes: &[u8], test: impl AsyncFnOnce(Rc<Worker>, Client)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let worker = testing::worker(Limits::default());
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let local = listener.local_addr().expect("bound");
        let mut far = Far::connect(local).expect("it listens");
        far.write_all(bytes).expect("few bytes");
        let (near, peer) = listener.accept().await.expect("a connection");
        let client = Client::new(&worker, Stream::from(near), peer, local);
        test(worker, client).await;
    });
}

#[test]
fn streams_that_are_opened_at_once_begin_in_several_turns() {
    const STREAMS: u8 = 2 * STREAMS_PER_TURN as u8 + 3;
    run(&[PREFACE, &requests(STREAMS)].concat(), async |worker, mut client| {
        let session = connection::server(&worker, false);
        let mut serving = Serving {
            worker: &worker,
            session: &session,
            driver: Driver::new(&worker, &session),
            reported: Report::default(),
        };
        let mut turns = Vec::new();
        poll_fn(|context| {
            let before = client.requests;
            assert!(session.turn(context, |cx| serving.poll(cx, &mut client)).is_pending());
            turns.extend(Some(client.requests - before).filter(|begun| *begun > 0));
            // Nothing more arrives: a turn that leaves streams behind is followed by another.
            if client.requests < STREAMS.into() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        assert_eq!(turns, [STREAMS_PER_TURN as u64, STREAMS_PER_TURN as u64, 3]);
    });
}

#[test]
fn streams_that_wait_for_their_turn_are_served_when_the_connection_fails() {
    const STREAMS: u8 = 2 * STREAMS_PER_TURN as u8 + 3;
    run(&[PREFACE, &requests(STREAMS), FAULT].concat(), async |worker, mut client| {
        let after = super::connection(&worker, &mut client).await;
        assert!(matches!(after, After::Linger));
        assert_eq!(client.requests, u64::from(STREAMS));
    });
}
