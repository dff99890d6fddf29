//! Ends: clients that go away, and the server's own.

use bytes::Bytes;
use tollhouse_testkit::patience::wait_for;

use super::{start, start_gated};
use crate::client::{Client, framed, request, run};

#[test]
fn a_client_that_is_cut_off_costs_nothing_and_nobody() {
    let server = start();
    run(async {
        let other = Client::connect(server.address).await;
        for _ in 0..20 {
            let client = Client::connect(server.address).await;
            let mut each = client.open(request("/test.Test/Each")).await;
            each.say(b"x");
            assert_eq!(each.next().await.as_deref(), Some(&b"x"[..]));
            let mut half = client.open(request("/test.Test/Echo")).await;
            half.stream.send_data(framed(b"half")[..7].to_vec().into(), false).expect("sent");
            let mut never = client.open(request("/test.Test/Never")).await;
            never.say(b"x");
            never.close();
            client.cut().await;
        }
        assert_eq!(other.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
    wait_for("all connections to end", || {
        (server.counts.connections_ended.get() == 21).then_some(())
    });
}

#[test]
fn a_call_that_is_taken_back_leaves_the_others() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        for path in ["/test.Test/Each", "/test.Test/Never", "/test.Test/Echo"] {
            let mut call = client.open(request(path)).await;
            call.say(b"x");
            call.stream.send_reset(h2::Reason::CANCEL);
        }
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));
    });
}

#[test]
fn who_speaks_another_protocol_is_sent_away() {
    use std::io::{Read, Write};
    let server = start();
    let mut socket = std::net::TcpStream::connect(server.address).expect("somebody listens");
    socket.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("sent");
    // Closed, or reset because some of it was not read.
    let _ = socket.read_to_end(&mut Vec::new());
    wait_for("the connection to end", || {
        (server.counts.connections_ended.get() == 1).then_some(())
    });
    assert_eq!(server.counts.handshakes_failed.get(), 1);
}

#[test]
fn a_stop_ends_streams_and_lets_calls_under_way_end() {
    let (server, gate) = start_gated();
    run(async {
        let client = Client::connect(server.address).await;
        let mut each = client.open(request("/test.Test/Each")).await;
        each.say(b"x");
        assert_eq!(each.next().await.as_deref(), Some(&b"x"[..]));
        let mut gated = client.open(request("/test.Test/Gated")).await;
        gated.say(b"kept");
        gated.close();
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));

        server.stop();
        let ended = each.end().await;
        assert_eq!((ended.code, &*ended.text), (Some(14), "the server is stopping"));
        gate.notify_one();
        let ended = gated.end().await;
        assert_eq!((ended.code, ended.messages), (Some(0), vec![b"kept".to_vec()]));
        client.until_ended().await;
    });
    server.join();
}

#[test]
fn a_stopped_server_takes_no_calls() {
    let server = start();
    let address = server.address;
    run(async {
        let client = Client::connect(address).await;
        assert_eq!(client.unary("/test.Test/Echo", b"x").await.code, Some(0));
        server.stop();
        client.until_ended().await;
    });
    server.join();
    let refused = std::net::TcpStream::connect(address);
    assert!(refused.is_err(), "nobody listens");
}

#[test]
fn empty_pieces_are_no_messages() {
    let server = start();
    run(async {
        let client = Client::connect(server.address).await;
        let bytes = [Bytes::new(), framed(b"a"), Bytes::new()];
        let ended = client.send(request("/test.Test/Each"), &bytes).await;
        assert_eq!((ended.code, ended.messages), (Some(0), vec![b"a".to_vec()]));
    });
}
