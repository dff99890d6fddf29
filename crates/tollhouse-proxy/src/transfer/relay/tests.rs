//! Responses over loopback sockets: what the client gets of what the node sends, piece by piece.

use std::future::poll_fn;

use tollhouse_http::ChunkedDecoder;
use tollhouse_plugin::HeaderEdits;

use super::*;
use crate::connection::buffer::BODY_BUFFER_BYTES;
use crate::transfer::testing::{Bench, Far, fill, pattern, run};

/// The head written for the client.
const HEAD: &[u8] = b"client's head|";

/// A response: how its body is delimited and framed, what arrived with its head, then pairs of
/// what the node sends and what the client sees of it before more is sent.
struct Case<'a> {
    body: BodyLength,
    coding: Coding,
    passes_trailers: bool,
    early: &'a str,
    head_and: &'a str,
    pieces: &'a [(&'a str, &'a str)],
    /// What the client sees when the node ends the stream; `None` when the response ends before.
    at_end: Option<&'a str>,
}

/// Plays a response that ends well; the relay and what is left in the node's buffer.
async fn play(case: &Case<'_>) -> (ResponseRelay, Vec<u8>) {
    let Bench { buffers, mut downstream, mut upstream, mut client, mut node } = Bench::new().await;
    fill(&mut upstream, &buffers, case.early.as_bytes());
    let trailers = case.passes_trailers.then(|| TrailerLines::new(&HeaderEdits::default()));
    let mut relay = ResponseRelay::new(case.body, case.coding, trailers);
    let mut out = HEAD.to_vec();
    let sending = poll_fn(|context| {
        relay.poll_send(
            context,
            &mut out,
            &mut Sides::new(&buffers, &mut downstream, &mut upstream),
        )
    });
    let playing = async {
        client.expect(&[HEAD, case.head_and.as_bytes()].concat()).await;
        for (sent, seen) in case.pieces {
            node.send(sent.as_bytes()).await;
            client.expect(seen.as_bytes()).await;
        }
        if let Some(seen) = case.at_end {
            node.finish().await;
            client.expect(seen.as_bytes()).await;
        }
    };
    let (sent, ()) = tokio::join!(sending, playing);
    assert!(sent.is_ok(), "{sent:?} {:?}", case.pieces);
    assert!(client.is_quiet().await, "nothing follows {:?}", case.pieces);
    assert!(out.is_empty(), "the head's buffer is free again");
    (relay, upstream.buffer.filled().to_vec())
}

/// What was written behind the head.
fn body_bytes(relay: &ResponseRelay) -> u64 {
    relay.progress.written.saturating_sub(HEAD.len() as u64)
}

async fn check(case: Case<'_>) {
    play(&case).await;
}

/// A response that breaks off after the head and `seen`.
async fn check_broken(
    body: BodyLength,
    early: &str,
    end: impl AsyncFnOnce(Far),
    is_expected: fn(&RelayError) -> bool,
) -> ResponseRelay {
    let Bench { buffers, mut downstream, mut upstream, client: _client, node } = Bench::new().await;
    fill(&mut upstream, &buffers, early.as_bytes());
    let coding = if body == BodyLength::Chunked { Coding::Chunked } else { Coding::Plain };
    let mut relay = ResponseRelay::new(body, coding, None);
    let mut out = HEAD.to_vec();
    let sending = poll_fn(|context| {
        relay.poll_send(
            context,
            &mut out,
            &mut Sides::new(&buffers, &mut downstream, &mut upstream),
        )
    });
    let (sent, ()) = tokio::join!(sending, end(node));
    assert!(sent.as_ref().is_err_and(is_expected), "{sent:?} {body:?} {early:?}");
    relay
}

fn is_truncated(error: &RelayError) -> bool {
    matches!(error, RelayError::UpstreamTruncated)
}

fn is_bad_body(error: &RelayError) -> bool {
    matches!(error, RelayError::BadBody)
}

#[test]
fn a_response_without_a_body_is_its_head() {
    run(async {
        let case = Case {
            body: BodyLength::None,
            coding: Coding::Plain,
            passes_trailers: false,
            early: "not its own",
            head_and: "",
            pieces: &[],
            at_end: None,
        };
        let (relay, left) = play(&case).await;
        assert_eq!(left, b"not its own");
        assert_eq!((body_bytes(&relay), relay.progress.moved), (0, HEAD.len() as u64));
    });
}

#[test]
fn a_body_of_known_length_passes_as_it_arrives_and_ends_where_it_says() {
    run(async {
        let known = |early, head_and, pieces| Case {
            body: BodyLength::Known(10),
            coding: Coding::Plain,
            passes_trailers: false,
            early,
            head_and,
            pieces,
            at_end: None,
        };
        check(known("0123456789", "0123456789", &[])).await;
        check(known("01234", "01234", &[("56789", "56789")])).await;
        check(known("", "", &[("0", "0"), ("12345678", "12345678"), ("9", "9")])).await;
        let (relay, left) = play(&known("0123456789extra", "0123456789", &[])).await;
        assert_eq!((body_bytes(&relay), left.as_slice()), (10, &b"extra"[..]));
    });
}

#[test]
fn chunks_are_made_anew_of_what_has_arrived_and_end_without_trailers() {
    run(async {
        let chunked = |early, head_and, pieces| Case {
            body: BodyLength::Chunked,
            coding: Coding::Chunked,
            passes_trailers: false,
            early,
            head_and,
            pieces,
            at_end: None,
        };
        let whole = "05;x=y\r\nhello\r\n1\r\n!\r\n000\r\nX-Sum: 1\r\n\r\n";
        check(chunked(whole, "6\r\nhello!\r\n0\r\n\r\n", &[])).await;
        let pieces = &[("\r\nhe", "2\r\nhe\r\n"), ("llo\r\n0\r\n\r\n", "3\r\nllo\r\n0\r\n\r\n")];
        check(chunked("5", "", pieces)).await;
        let pieces = &[("\r\n", ""), ("0", ""), (";z\r\n", ""), ("\r\n", "0\r\n\r\n")];
        check(chunked("2\r\nok", "2\r\nok\r\n", pieces)).await;
        let (relay, left) = play(&chunked("0\r\n\r\nextra", "0\r\n\r\n", &[])).await;
        assert_eq!((body_bytes(&relay), left.as_slice()), (5, &b"extra"[..]));
    });
}

#[test]
fn trailers_pass_to_a_client_that_asked_for_them() {
    run(async {
        let asked = |early, head_and, pieces| Case {
            body: BodyLength::Chunked,
            coding: Coding::Chunked,
            passes_trailers: true,
            early,
            head_and,
            pieces,
            at_end: None,
        };
        let end = "0\r\nHost: x\r\nX-Sum: 1\r\n\r\n";
        let whole = format!("5\r\nhello\r\n{end}");
        check(asked(&whole, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", &[])).await;
        check(asked("1\r\n!\r\n0\r\n\r\n", "1\r\n!\r\n0\r\n\r\n", &[])).await;
        let pieces = &[("um: 1\r\n", ""), ("\r\n", "0\r\nX-Sum: 1\r\n\r\n")];
        check(asked("1\r\n!\r\n0\r\nX-S", "1\r\n!\r\n", pieces)).await;
    });
}

#[test]
fn a_long_chunked_body_passes_whole_in_chunks_of_our_own() {
    run(async {
        let data = pattern(5 * BUFFER_BYTES);
        let mut sent = Vec::new();
        for piece in data.chunks(701) {
            sent.extend_from_slice(format!("{:08X};e=\"1\"\r\n", piece.len()).as_bytes());
            sent.extend_from_slice(piece);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b"0\r\nHost: x\r\n\r\n");
        let Bench { buffers, mut downstream, mut upstream, mut client, mut node } =
            Bench::new().await;
        let mut relay = ResponseRelay::new(BodyLength::Chunked, Coding::Chunked, None);
        let mut out = HEAD.to_vec();
        let sending = poll_fn(|context| {
            relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            )
        });
        let reading = async {
            client.expect(HEAD).await;
            let mut decoder = ChunkedDecoder::new();
            let mut found = Vec::new();
            while !decoder.is_done() {
                let mut byte = client.take_one().await;
                let undone = decoder.undo(&mut byte, |_| {}).expect("well-formed");
                found.extend_from_slice(&byte[..undone.data]);
            }
            found
        };
        let (relayed, (), found) = tokio::join!(sending, node.send(&sent), reading);
        assert!(relayed.is_ok(), "{relayed:?}");
        assert!(found == data, "{} bytes of {}", found.len(), data.len());
        assert_eq!(upstream.buffer.size(), BUFFER_BYTES);
    });
}

#[test]
fn chunks_are_undone_for_a_client_that_knows_none() {
    run(async {
        let decoded = |early, head_and, pieces| Case {
            body: BodyLength::Chunked,
            coding: Coding::Plain,
            passes_trailers: false,
            early,
            head_and,
            pieces,
            at_end: None,
        };
        check(decoded("5;x\r\nhello\r\n3\r\nyou\r\n0\r\nX: 1\r\n\r\n", "helloyou", &[])).await;
        check(decoded("0\r\n\r\n", "", &[])).await;
        let pieces = &[("he", "he"), ("llo\r\n1\r\n", "llo"), ("!\r\n0\r\n", "!"), ("\r\n", "")];
        check(decoded("5\r\n", "", pieces)).await;
        let (relay, left) = play(&decoded("1\r\na\r\n0\r\n\r\nextra", "a", &[])).await;
        assert_eq!((body_bytes(&relay), left.as_slice()), (1, &b"extra"[..]));
    });
}

#[test]
fn a_body_that_ends_with_its_connection_is_cut_into_chunks_as_it_arrives() {
    run(async {
        let encoded = |early, head_and, pieces, at_end| Case {
            body: BodyLength::UntilClose,
            coding: Coding::Chunked,
            passes_trailers: false,
            early,
            head_and,
            pieces,
            at_end: Some(at_end),
        };
        check(encoded("", "", &[], "0\r\n\r\n")).await;
        check(encoded("hello", "5\r\nhello\r\n", &[], "0\r\n\r\n")).await;
        let pieces =
            &[("0123456789abcdef", "10\r\n0123456789abcdef\r\n"), ("\r\n", "2\r\n\r\n\r\n")];
        check(encoded("", "", pieces, "0\r\n\r\n")).await;
    });
}

#[test]
fn without_chunks_the_end_of_the_connection_is_the_end_of_the_body() {
    run(async {
        check(Case {
            body: BodyLength::UntilClose,
            coding: Coding::Plain,
            passes_trailers: false,
            early: "he",
            head_and: "he",
            pieces: &[("llo", "llo")],
            at_end: Some(""),
        })
        .await;
    });
}

#[test]
fn a_node_that_ends_inside_of_its_body_is_found_out() {
    run(async {
        for (body, early) in [
            (BodyLength::Known(10), ""),
            (BodyLength::Known(10), "012345678"),
            (BodyLength::Chunked, ""),
            (BodyLength::Chunked, "5\r\nhel"),
            (BodyLength::Chunked, "5\r\nhello\r\n"),
            (BodyLength::Chunked, "0\r\n"),
        ] {
            let finish = async |mut node: Far| node.finish().await;
            let relay = check_broken(body, early, finish, is_truncated).await;
            let passed: u64 = match early {
                "5\r\nhel" => "3\r\nhel\r\n".len() as u64,
                "5\r\nhello\r\n" => "5\r\nhello\r\n".len() as u64,
                "0\r\n" => 0,
                plain => plain.len() as u64,
            };
            assert_eq!(body_bytes(&relay), passed, "what came before was passed on");
        }
    });
}

#[test]
fn a_reset_is_never_taken_for_the_end_of_a_body() {
    run(async {
        let Bench { buffers, mut downstream, mut upstream, client: _client, node } =
            Bench::new().await;
        // Bytes that the node has not read when it closes make it a reset.
        let unread = [IoSlice::new(b"unread")];
        poll_fn(|context| upstream.stream.poll_write(context, &unread)).await.expect("sent");
        node.close();
        let mut relay = ResponseRelay::new(BodyLength::UntilClose, Coding::Chunked, None);
        let mut out = HEAD.to_vec();
        let sent = poll_fn(|context| {
            relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            )
        })
        .await;
        assert!(sent.as_ref().is_err_and(is_truncated), "{sent:?}");
    });
}

#[test]
fn a_body_that_is_broken_from_its_first_byte_keeps_even_the_head_back() {
    run(async {
        let wait = async |_node: Far| {};
        let relay = check_broken(BodyLength::Chunked, "zz\r\n", wait, is_bad_body).await;
        assert_eq!(relay.progress.moved, 0);
    });
}

#[test]
fn a_body_that_breaks_later_ends_there() {
    run(async {
        let break_it = async |mut node: Far| node.send(b"Xhello").await;
        let relay = check_broken(BodyLength::Chunked, "5\r\nhello", break_it, is_bad_body).await;
        assert_eq!(body_bytes(&relay), "5\r\nhello\r\n".len() as u64);
    });
}

#[test]
fn a_client_that_has_left_ends_the_response() {
    run(async {
        let body = pattern(64 * BUFFER_BYTES);
        let Bench { buffers, mut downstream, mut upstream, client, mut node } = Bench::new().await;
        client.close();
        let mut relay = ResponseRelay::new(BodyLength::UntilClose, Coding::Plain, None);
        let mut out = HEAD.to_vec();
        let sending = poll_fn(|context| {
            relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            )
        });
        let sent = tokio::select! {
            sent = sending => sent,
            () = node.send_and_wait(&body) => unreachable!("it waits for ever"),
        };
        assert!(matches!(sent, Err(RelayError::DownstreamGone)), "{sent:?}");
    });
}

#[test]
fn a_long_body_passes_whole_through_one_large_buffer() {
    run(async {
        let body = pattern(40 * BODY_BUFFER_BYTES + 3);
        let Bench { buffers, mut downstream, mut upstream, mut client, mut node } =
            Bench::new().await;
        let mut relay =
            ResponseRelay::new(BodyLength::Known(body.len() as u64), Coding::Plain, None);
        let mut out = HEAD.to_vec();
        let mut sizes = Vec::new();
        let sending = poll_fn(|context| {
            let sent = relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            );
            sizes.push(upstream.buffer.size());
            sent
        });
        let whole = [HEAD, &body].concat();
        let (sent, (), ()) = tokio::join!(sending, node.send(&body), client.expect(&whole));
        assert!(sent.is_ok(), "{sent:?}");
        assert_eq!(body_bytes(&relay), body.len() as u64);
        assert!(sizes.contains(&BODY_BUFFER_BYTES), "{sizes:?}");
        assert!(sizes.iter().all(|&size| size <= BODY_BUFFER_BYTES), "{sizes:?}");
    });
}

#[test]
fn a_slow_client_stops_the_node_and_then_loses_nothing() {
    run(async {
        // More than the kernel's buffers of both connections take.
        let body = pattern(65_537).repeat(1000);
        let Bench { buffers, mut downstream, mut upstream, mut client, mut node } =
            Bench::new().await;
        let mut relay = ResponseRelay::new(BodyLength::UntilClose, Coding::Plain, None);
        let mut out = HEAD.to_vec();
        let mut sending_node = Box::pin(async {
            node.send(&body).await;
            node.finish().await;
        });
        // Both are pending when the client's side is full.
        let mut quiet_polls = 0;
        poll_fn(|context| {
            let moved = relay.progress.moved;
            assert!(sending_node.as_mut().poll(context).is_pending(), "the node is held up");
            let sent = relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            );
            assert!(sent.is_pending());
            let is_full =
                relay.progress.waiting == Waiting::DownstreamWrite && relay.progress.moved == moved;
            quiet_polls = if is_full { quiet_polls + 1 } else { 0 };
            if quiet_polls == 3 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert!(upstream.buffer.size() <= BODY_BUFFER_BYTES);
        let sending = poll_fn(|context| {
            relay.poll_send(
                context,
                &mut out,
                &mut Sides::new(&buffers, &mut downstream, &mut upstream),
            )
        });
        let whole = [HEAD, &body].concat();
        let (sent, (), ()) = tokio::join!(sending, sending_node, client.expect(&whole));
        assert!(sent.is_ok(), "{sent:?}");
    });
}
