//! A relay between two sockets: half-closed sides, breaks and silence.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::connection::{Ends, FirstBytes, Transport};
use super::*;
use crate::settings::Limits;
use crate::testing;

/// Longer than any test of sockets takes: a hang fails with a name.
const PATIENCE: Duration = Duration::from_secs(10);

async fn pair() -> (TcpStream, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let far = TcpStream::connect(address).await.expect("it listens");
    let near = listener.accept().await.expect("a connection").0;
    (far, Link::new(Stream::from(near)))
}

/// A relay between a client and a node, which `act` plays; how it ends, and what has passed.
fn relayed(
    times: Times,
    act: impl AsyncFnOnce(TcpStream, TcpStream),
) -> (Result<(), ErrorCode>, (u64, u64)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let worker = testing::worker(Limits::default());
    runtime.expect("a runtime").block_on(async {
        let ((client, mut down), (node, mut up)) = (pair().await, pair().await);
        let any: SocketAddr = ([127, 0, 0, 1], 1).into();
        let ends = Ends { client: any, peer: any, local: any, listener: any };
        let first = FirstBytes::Datagram(Box::default());
        let mut connection = Connection::new(&worker, Transport::Tcp, ends, first);
        connection.attach().await;
        let relay = async {
            let ended = run(&mut connection, &mut down, &mut up, times).await;
            // Both ends see it.
            drop((down, up));
            ended
        };
        let both = async { tokio::join!(relay, act(client, node)) };
        let (ended, ()) = tokio::time::timeout(PATIENCE, both).await.expect("the test hangs");
        let record = &connection.record;
        (ended, (record.bytes_received, record.bytes_sent))
    })
}

const LONG: Times = Times { idle: Duration::from_secs(600), half_closed: Duration::from_secs(300) };

#[test]
fn a_client_that_has_said_everything_still_hears_the_answer() {
    let (ended, bytes) = relayed(LONG, async |mut client, mut node| {
        client.write_all(b"question").await.expect("sent");
        client.shutdown().await.expect("ended");
        let mut heard = Vec::new();
        node.read_to_end(&mut heard).await.expect("the end is passed on");
        assert_eq!(heard, b"question");
        node.write_all(b"answer").await.expect("sent");
        drop(node);
        heard.clear();
        client.read_to_end(&mut heard).await.expect("the answer arrives");
        assert_eq!(heard, b"answer");
    });
    assert_eq!((ended, bytes), (Ok(()), (8, 6)));
}

#[test]
fn megabytes_pass_both_ways_unchanged() {
    const BYTES: usize = 8 << 20;
    let text: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let send_and_hear = async |stream: TcpStream, text: &[u8]| {
        let (mut read, mut write) = stream.into_split();
        let mut heard = Vec::new();
        let send = async {
            write.write_all(text).await.expect("sent");
            write.shutdown().await.expect("ended");
        };
        let (_, read) = tokio::join!(send, read.read_to_end(&mut heard));
        read.expect("all arrives");
        assert!(heard == text, "{} bytes", heard.len());
    };
    let (ended, bytes) = relayed(LONG, async |client, node| {
        tokio::join!(send_and_hear(client, &text), send_and_hear(node, &text));
    });
    assert_eq!((ended, bytes), (Ok(()), (BYTES as u64, BYTES as u64)));
}

#[test]
fn a_side_that_breaks_off_ends_the_other_and_is_named() {
    for (breaks, expected) in
        [("client", ErrorCode::DownstreamGone), ("node", ErrorCode::UpstreamReset)]
    {
        let (ended, _) = relayed(LONG, async |client, node| {
            let (broken, mut other) =
                if breaks == "client" { (client, node) } else { (node, client) };
            // A reset instead of an end.
            broken.set_zero_linger().expect("an open socket");
            drop(broken);
            let mut rest = Vec::new();
            let _ = other.read_to_end(&mut rest).await;
        });
        assert_eq!(ended, Err(expected), "{breaks}");
    }
}

#[test]
fn silence_ends_a_relay_and_one_side_alone_has_a_time_of_its_own() {
    let soon = Duration::ZERO;
    let both_silent = Times { idle: soon, ..LONG };
    let half_silent = Times { half_closed: soon, ..LONG };
    let wait = async |mut stream: TcpStream| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    };
    let (ended, _) = relayed(both_silent, async |mut client, node| {
        // The clock of the test stands still: a byte has the deadline looked at.
        client.write_all(b"x").await.expect("sent");
        tokio::join!(wait(client), wait(node));
    });
    assert_eq!(ended, Err(ErrorCode::StreamIdle));
    let (ended, _) = relayed(half_silent, async |mut client, node| {
        client.shutdown().await.expect("ended");
        tokio::join!(wait(client), wait(node));
    });
    assert_eq!(ended, Err(ErrorCode::StreamIdle));
}
