//! Tunnels over loopback sockets: both directions, each with an end of its own.

use std::future::poll_fn;

use super::*;
use crate::transfer::testing::{Bench, fill, pattern, run};

#[test]
fn bytes_pass_both_ways_and_early_ones_come_first() {
    run(async {
        let Bench { buffers, mut downstream, mut upstream, mut client, mut node } =
            Bench::new().await;
        fill(&mut downstream, &buffers, b"early up,");
        fill(&mut upstream, &buffers, b"early down,");
        let mut tunnel = Tunnel::default();
        let passing = poll_fn(|context| {
            tunnel.poll(context, &mut Sides::new(&buffers, &mut downstream, &mut upstream))
        });
        let talking = async {
            node.expect(b"early up,").await;
            client.expect(b"early down,").await;
            client.send(b"ping").await;
            node.expect(b"ping").await;
            node.send(b"pong").await;
            client.expect(b"pong").await;
            client.finish().await;
            node.finish().await;
        };
        let (passed, ()) = tokio::join!(passing, talking);
        passed.expect("both have ended");
        assert_eq!(tunnel.bytes(), (13, 15));
        client.expect_end(b"").await;
        node.expect_end(b"").await;
    });
}

#[test]
fn a_side_that_has_ended_still_receives() {
    run(async {
        let answer = pattern(200_000);
        for client_ends_first in [true, false] {
            let Bench { buffers, mut downstream, mut upstream, client, node } = Bench::new().await;
            let (mut first, mut last) =
                if client_ends_first { (client, node) } else { (node, client) };
            let mut tunnel = Tunnel::default();
            let passing = poll_fn(|context| {
                tunnel.poll(context, &mut Sides::new(&buffers, &mut downstream, &mut upstream))
            });
            let talking = async {
                first.send(b"question").await;
                first.finish().await;
                last.expect_end(b"question").await;
                let answering = async {
                    last.send(&answer).await;
                    last.finish().await;
                };
                tokio::join!(answering, first.expect_end(&answer));
            };
            let (passed, ()) = tokio::join!(passing, talking);
            passed.expect("both have ended");
            let (up, down) = tunnel.bytes();
            let (fewer, more) = if client_ends_first { (up, down) } else { (down, up) };
            assert_eq!((fewer, more), (8, 200_000));
        }
    });
}

#[test]
fn a_side_that_fails_ends_both() {
    run(async {
        let Bench { buffers, mut downstream, mut upstream, client: _client, mut node } =
            Bench::new().await;
        fill(&mut downstream, &buffers, b"read in part");
        let mut tunnel = Tunnel::default();
        let passing = poll_fn(|context| {
            tunnel.poll(context, &mut Sides::new(&buffers, &mut downstream, &mut upstream))
        });
        // Bytes that the node has not read when it closes make it a reset.
        let closing = async {
            node.expect(b"read").await;
            node.close();
        };
        let (passed, ()) = tokio::join!(passing, closing);
        assert!(passed.is_err(), "the client is not kept waiting");
    });
}

#[test]
fn a_quiet_tunnel_holds_no_buffers() {
    run(async {
        let Bench { buffers, mut downstream, mut upstream, mut client, mut node } =
            Bench::new().await;
        fill(&mut upstream, &buffers, b"hello");
        let mut tunnel = Tunnel::default();
        for _ in 0..3 {
            poll_fn(|context| {
                let passed =
                    tunnel.poll(context, &mut Sides::new(&buffers, &mut downstream, &mut upstream));
                assert!(passed.is_pending());
                Poll::Ready(())
            })
            .await;
            assert!(downstream.buffer.is_absent() && upstream.buffer.is_absent());
            client.send(b"x").await;
            node.send(b"y").await;
            tokio::task::yield_now().await;
        }
        client.expect(b"hello").await;
    });
}
