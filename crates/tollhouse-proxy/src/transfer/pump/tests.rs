//! Requests over loopback sockets: what the node gets, and what can be sent to another one.

use std::future::poll_fn;

use super::*;
use crate::connection::buffer::BUFFER_BYTES;
use crate::connection::link::Link;
use crate::transfer::testing::{Bench, fill, pattern, run};

/// The client's head as it stands in the buffer; its content is of no interest here.
const CLIENT_HEAD: &[u8] = b"client's head|";
/// The head written for the node.
const HEAD: &[u8] = b"node's head|";
const LEAD: Lead<'_> = Lead { head: HEAD, body: b"" };

/// A pump for a request of which the head and `early` have arrived.
fn pump_with(bench: &mut Bench, body: BodyLength, early: &[u8]) -> RequestPump {
    fill(&mut bench.downstream, &bench.buffers, CLIENT_HEAD);
    fill(&mut bench.downstream, &bench.buffers, early);
    let mut pump = RequestPump::new(CLIENT_HEAD.len(), body, Expectation::None, u64::MAX);
    pump.admit(&mut bench.downstream.buffer).expect("a good start");
    pump
}

async fn send(pump: &mut RequestPump, bench: &mut Bench) -> Result<(), PumpError> {
    let Bench { buffers, downstream, upstream, .. } = bench;
    poll_fn(|context| pump.poll_send(context, LEAD, &mut Sides::new(buffers, downstream, upstream)))
        .await
}

/// One poll that must come to nothing; whom it waits for.
async fn send_until_waiting(pump: &mut RequestPump, bench: &mut Bench) -> Waiting {
    let Bench { buffers, downstream, upstream, .. } = bench;
    poll_fn(|context| {
        let sent = pump.poll_send(context, LEAD, &mut Sides::new(buffers, downstream, upstream));
        assert!(sent.is_pending(), "{sent:?}");
        Poll::Ready(())
    })
    .await;
    pump.waiting
}

/// Sends while the client sends `late`; the node then has the head and `body`.
async fn check_sent(pump: &mut RequestPump, bench: &mut Bench, late: &[u8], body: &[u8]) {
    let Bench { buffers, downstream, upstream, client, node } = bench;
    let expected = [HEAD, body].concat();
    let sending = poll_fn(|context| {
        pump.poll_send(context, LEAD, &mut Sides::new(buffers, downstream, upstream))
    });
    let (sent, (), ()) = tokio::join!(sending, client.send(late), node.expect(&expected));
    assert!(sent.is_ok(), "{sent:?}");
    assert!(node.is_quiet().await, "nothing follows");
    assert!(pump.is_done() && pump.is_received());
    assert_eq!(pump.waiting, Waiting::UpstreamRead);
}

#[test]
fn a_request_without_a_body_is_its_head() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::None, b"GET /next");
        assert!(!pump.has_sent() && pump.is_received() && !pump.is_done());
        check_sent(&mut pump, &mut bench, b"", b"").await;
        assert!(pump.has_sent() && pump.is_replayable());
        assert_eq!((pump.received, pump.moved), (0, HEAD.len() as u64));
        bench.downstream.buffer.consume(pump.end_in_buffer());
        assert_eq!(bench.downstream.buffer.filled(), b"GET /next");
    });
}

#[test]
fn a_body_of_known_length_ends_where_it_says() {
    run(async {
        for (early, late) in [("hello", ""), ("", "hello"), ("he", "llo"), ("helloGET /", "")] {
            let mut bench = Bench::new().await;
            let mut pump = pump_with(&mut bench, BodyLength::Known(5), early.as_bytes());
            check_sent(&mut pump, &mut bench, late.as_bytes(), b"hello").await;
            assert_eq!(pump.received, 5);
            bench.downstream.buffer.consume(pump.end_in_buffer());
            let next = early.get(5..).unwrap_or_default();
            assert_eq!(bench.downstream.buffer.filled(), next.as_bytes(), "{early:?}");
        }
    });
}

#[test]
fn chunks_are_made_anew_of_what_has_arrived_and_end_without_trailers() {
    run(async {
        let body = "4;ext=1\r\nwiki\r\n000A\r\n0123456789\r\n0;x\r\nHost: b\r\n\r\n";
        let data_behind = [(9, 4), (21, 10)];
        for early_bytes in 0..=body.len() {
            let (early, late) = body.split_at(early_bytes);
            let mut bench = Bench::new().await;
            let mut pump = pump_with(&mut bench, BodyLength::Chunked, early.as_bytes());
            assert_eq!(pump.is_received(), late.is_empty());
            // What has arrived when sending begins is one chunk, and what comes later another.
            let arrived =
                |(start, bytes): (usize, usize)| early_bytes.saturating_sub(start).min(bytes);
            let first: usize = data_behind.into_iter().map(arrived).sum();
            let (now, then) = "wiki0123456789".split_at(first);
            let chunk = |data: &str| match data.len() {
                0 => String::new(),
                bytes => format!("{bytes:x}\r\n{data}\r\n"),
            };
            let expected = format!("{}{}0\r\n\r\n", chunk(now), chunk(then));
            check_sent(&mut pump, &mut bench, late.as_bytes(), expected.as_bytes()).await;
            assert_eq!(pump.received, body.len() as u64);
        }
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Chunked, b"1\r\na\r\n0\r\n\r\nGET /");
        check_sent(&mut pump, &mut bench, b"", b"1\r\na\r\n0\r\n\r\n").await;
        bench.downstream.buffer.consume(pump.end_in_buffer());
        assert_eq!(bench.downstream.buffer.filled(), b"GET /");
    });
}

#[test]
fn a_request_is_replayed_whole_to_another_node() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Known(10), b"01234");
        check_sent(&mut pump, &mut bench, b"56789", b"0123456789").await;
        assert!(pump.is_replayable());
        for _ in 0..2 {
            bench.upstream = replaced(&mut bench).await;
            pump.replay();
            assert!(!pump.has_sent() && !pump.is_done());
            check_sent(&mut pump, &mut bench, b"", b"0123456789").await;
            assert_eq!(pump.received, 10, "it is received once");
        }
    });
}

/// A fresh node in place of the old one.
async fn replaced(bench: &mut Bench) -> Link {
    let other = Bench::new().await;
    bench.node = other.node;
    other.upstream
}

#[test]
fn a_request_of_which_a_part_is_sent_is_replayed_from_its_first_byte() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Chunked, b"3\r\nab");
        assert_eq!(send_until_waiting(&mut pump, &mut bench).await, Waiting::DownstreamRead);
        bench.node.expect(b"node's head|2\r\nab\r\n").await;
        for _ in 0..2 {
            bench.upstream = replaced(&mut bench).await;
            pump.replay();
            let again = send_until_waiting(&mut pump, &mut bench).await;
            assert_eq!(again, Waiting::DownstreamRead);
            bench.node.expect(b"node's head|2\r\nab\r\n").await;
        }
        bench.upstream = replaced(&mut bench).await;
        pump.replay();
        let sent = b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        check_sent(&mut pump, &mut bench, b"c\r\n0\r\n\r\n", sent).await;
        bench.upstream = replaced(&mut bench).await;
        pump.replay();
        check_sent(&mut pump, &mut bench, b"", b"3\r\nabc\r\n0\r\n\r\n").await;
    });
}

#[test]
fn a_body_longer_than_the_buffer_passes_in_constant_memory_and_once() {
    run(async {
        let body = pattern(10 * BUFFER_BYTES + 7);
        let (early, late) = body.split_at(100);
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Known(body.len() as u64), early);
        assert!(pump.is_replayable());
        check_sent(&mut pump, &mut bench, late, &body).await;
        assert!(!pump.is_replayable());
        assert_eq!(bench.downstream.buffer.size(), BUFFER_BYTES);
        assert_eq!(&bench.downstream.buffer.filled()[..CLIENT_HEAD.len()], CLIENT_HEAD);
    });
}

#[test]
fn a_body_that_just_fits_the_buffer_can_be_replayed() {
    run(async {
        let body = pattern(BUFFER_BYTES - CLIENT_HEAD.len());
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Known(body.len() as u64), &body[..9]);
        check_sent(&mut pump, &mut bench, &body[9..], &body).await;
        assert!(pump.is_replayable());
        bench.upstream = replaced(&mut bench).await;
        pump.replay();
        check_sent(&mut pump, &mut bench, b"", &body).await;
    });
}

#[test]
fn a_head_that_fills_the_buffer_leaves_room_for_the_body_all_the_same() {
    run(async {
        let head = vec![b'h'; BUFFER_BYTES];
        let body = pattern(3 * BUFFER_BYTES);
        let mut bench = Bench::new().await;
        fill(&mut bench.downstream, &bench.buffers, &head);
        let length = BodyLength::Known(body.len() as u64);
        let mut pump = RequestPump::new(head.len(), length, Expectation::None, u64::MAX);
        check_sent(&mut pump, &mut bench, &body, &body).await;
        assert_eq!(&bench.downstream.buffer.filled()[..head.len()], head);
    });
}

#[test]
fn a_client_that_leaves_inside_of_its_body_is_gone() {
    run(async {
        for body in [BodyLength::Known(5), BodyLength::Chunked] {
            let mut bench = Bench::new().await;
            let mut pump = pump_with(&mut bench, body, b"2\r\n");
            bench.client.finish().await;
            let sent = send(&mut pump, &mut bench).await;
            assert!(matches!(sent, Err(PumpError::DownstreamGone)), "{sent:?}");
            assert!(!pump.is_received() && !pump.is_done());
        }
    });
}

#[test]
fn a_broken_body_is_found_whether_it_came_early_or_late() {
    run(async {
        let mut early = RequestPump::new(0, BodyLength::Chunked, Expectation::None, u64::MAX);
        let mut bytes = Buffer::holding(b"zz\r\n");
        assert!(matches!(early.admit(&mut bytes), Err(PumpError::BadBody)));

        let mut bench = Bench::new().await;
        let mut late = pump_with(&mut bench, BodyLength::Chunked, b"1\r\na");
        bench.client.send(b"b\r\n").await;
        let sent = send(&mut late, &mut bench).await;
        assert!(matches!(sent, Err(PumpError::BadBody)), "{sent:?}");
        bench.node.expect(b"node's head|1\r\na\r\n").await;
        assert!(bench.node.is_quiet().await, "what is broken is not passed on");
    });
}

#[test]
fn a_body_may_reach_the_limit_and_not_pass_it() {
    run(async {
        let body = b"3\r\nabc\r\n0\r\n\r\n";
        // The framing of chunks does not count.
        for (limit, fits) in [(3, true), (2, false)] {
            for early_bytes in [0, 4, body.len()] {
                let mut bench = Bench::new().await;
                fill(&mut bench.downstream, &bench.buffers, &body[..early_bytes]);
                let mut pump = RequestPump::new(0, BodyLength::Chunked, Expectation::None, limit);
                let admitted = pump.admit(&mut bench.downstream.buffer);
                bench.client.send(&body[early_bytes..]).await;
                let sent = match admitted {
                    Ok(()) => send(&mut pump, &mut bench).await,
                    Err(error) => Err(error),
                };
                match sent {
                    Ok(()) => assert!(fits, "{early_bytes} {limit}"),
                    Err(PumpError::BodyTooLarge) => assert!(!fits, "{early_bytes} {limit}"),
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    });
}

#[test]
fn a_node_that_has_closed_takes_no_more() {
    run(async {
        let body = pattern(64 * BUFFER_BYTES);
        let mut bench = Bench::new().await;
        let mut pump = pump_with(&mut bench, BodyLength::Known(body.len() as u64), b"");
        let Bench { buffers, mut downstream, mut upstream, mut client, node } = bench;
        node.close();
        let sending = poll_fn(|context| {
            pump.poll_send(context, LEAD, &mut Sides::new(&buffers, &mut downstream, &mut upstream))
        });
        let sent = tokio::select! {
            sent = sending => sent,
            () = client.send_and_wait(&body) => unreachable!("it waits for ever"),
        };
        assert!(matches!(sent, Err(PumpError::Upstream)), "{sent:?}");
    });
}

#[test]
fn a_node_that_reads_nothing_is_waited_for() {
    run(async {
        let body = vec![b'x'; BUFFER_BYTES - CLIENT_HEAD.len()];
        let mut bench = Bench::new().await;
        let length = BodyLength::Known(u64::MAX);
        let mut pump = pump_with(&mut bench, length, &body);
        // The kernel's buffers take some, and then no more.
        loop {
            let waiting = send_until_waiting(&mut pump, &mut bench).await;
            if waiting == Waiting::UpstreamWrite {
                break;
            }
            assert_eq!(waiting, Waiting::DownstreamRead);
            bench.client.send(&body).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(bench.downstream.buffer.size(), BUFFER_BYTES);
    });
}

/// A pump that owes the client an invitation.
fn expecting(bench: &mut Bench, early: &[u8]) -> RequestPump {
    fill(&mut bench.downstream, &bench.buffers, early);
    let body = BodyLength::Known(5);
    let mut pump = RequestPump::new(0, body, Expectation::Continue, u64::MAX);
    pump.admit(&mut bench.downstream.buffer).expect("a good start");
    pump
}

#[test]
fn a_client_that_waits_for_an_invitation_gets_one() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = expecting(&mut bench, b"");
        assert_eq!(send_until_waiting(&mut pump, &mut bench).await, Waiting::DownstreamRead);
        bench.client.expect(CONTINUE).await;
        check_sent(&mut pump, &mut bench, b"hello", b"hello").await;
        assert!(bench.client.is_quiet().await, "it is invited once");
    });
}

#[test]
fn a_client_that_did_not_wait_is_not_invited() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = expecting(&mut bench, b"hello");
        check_sent(&mut pump, &mut bench, b"", b"hello").await;
        assert!(bench.client.is_quiet().await);
    });
}

#[test]
fn an_invitation_is_withheld_once_the_answer_begins_or_somebody_else_sends_it() {
    run(async {
        let mut bench = Bench::new().await;
        let mut pump = expecting(&mut bench, b"");
        pump.withhold_continue();
        assert_eq!(pump.take_invitation(), b"");
        assert_eq!(send_until_waiting(&mut pump, &mut bench).await, Waiting::DownstreamRead);
        assert!(bench.client.is_quiet().await);

        let mut pump = expecting(&mut bench, b"");
        assert_eq!(pump.take_invitation(), CONTINUE);
        assert_eq!(pump.take_invitation(), b"");
    });
}
