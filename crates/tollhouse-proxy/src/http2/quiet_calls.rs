//! Test of calls that are quiet for ten minutes by a manual clock. Client and node use the `h2`
//! crate.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::{Ping, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_h2::frame::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use tollhouse_model::{Id, Kind};
use tollhouse_plugin::Catalogue;
use tollhouse_stdx::CoarseClock;

use crate::Change;
use crate::run::accept;
use crate::testing;
use crate::worker::Worker;

/// Maximum duration of the test in real time, as a bound on hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A socket that records the bytes read from it.
struct Tap {
    stream: TcpStream,
    read: Rc<RefCell<Vec<u8>>>,
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read.borrow_mut().extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Returns the number of PING frames in the bytes that a peer has read.
fn pings(read: &[u8]) -> usize {
    let mut rest = &read[PREFACE.len()..];
    let mut pings = 0;
    while let Some((bytes, payload)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let header = FrameHeader::parse(bytes);
        pings += usize::from(header.kind == kind::PING && !header.has(flag::ACK));
        rest = payload.get(header.length as usize..).unwrap_or_default();
    }
    pings
}

/// Echoes every message of every call and ends the call with status 0; records the bytes read.
async fn node(listener: TcpListener, read: Rc<RefCell<Vec<u8>>>) {
    let (stream, _) = listener.accept().await.expect("a connection");
    let tap = Tap { stream, read };
    let mut connection = h2::server::handshake(tap).await.expect("a handshake");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::task::spawn_local(async move {
            let head = Response::builder().header("content-type", "application/grpc");
            let head = head.body(()).expect("a head");
            let mut out = respond.send_response(head, false).expect("an open stream");
            let mut body = request.into_body();
            while let Some(message) = next(&mut body).await {
                out.send_data(message, false).expect("an open stream");
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            out.send_trailers(trailers).expect("an open stream");
        });
    }
}

async fn next(body: &mut RecvStream) -> Option<Bytes> {
    let piece = body.data().await?.expect("an open stream");
    body.flow_control().release_capacity(piece.len()).expect("it was taken");
    Some(piece)
}

fn worker(node: SocketAddr) -> Rc<Worker> {
    let route = json!({
        "uri": "/*",
        "upstream": {
            "type": "roundrobin",
            "scheme": "grpc",
            "nodes": { node.to_string(): 1 },
            "timeout": { "connect": 1, "send": 1, "read": 1 },
        },
    });
    // On a separate thread, because a runtime cannot be ended inside another.
    let made = std::thread::spawn(|| {
        let route = Change::Upsert {
            kind: Kind::Route,
            id: Id::new("r"),
            value: Ok(route),
            path: String::new(),
        };
        testing::parts_with(testing::settings(), Catalogue::new([]), [route])
    });
    let parts = made.join().expect("a configuration");
    Worker::with_clock(parts, CoarseClock::manual(1_000_000, 1_800_000_000_000)).0
}

/// Advances the clock by a second and runs the tasks that are due.
async fn pass_second(worker: &Worker) {
    worker.clock.advance(Duration::from_secs(1));
    worker.wheel.advance(worker.clock.now_ms());
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

async fn ten_quiet_minutes() {
    let nodes = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let worker = worker(nodes.local_addr().expect("an address"));
    let read = Rc::new(RefCell::new(Vec::new()));
    tokio::task::spawn_local(node(nodes, Rc::clone(&read)));

    let gateway = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let stream = TcpStream::connect(gateway.local_addr().expect("an address")).await;
    let (accepted, peer) = gateway.accept().await.expect("a connection");
    accept::start(&worker, accepted, peer);
    let stream = stream.expect("a connection");
    let (mut client, mut connection) = h2::client::handshake(stream).await.expect("a handshake");
    let mut asking = connection.ping_pong().expect("it is asked for once");
    tokio::task::spawn_local(async move { connection.await.expect("it ends well") });

    let request = Request::post("http://host.test/chat.Chat/Talk")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = request.body(()).expect("a request");
    let (answer, mut out) = client.send_request(request, false).expect("a stream");
    let said = Bytes::from_static(b"\0\0\0\0\x05hello");
    out.send_data(said.clone(), false).expect("an open stream");
    let mut body = answer.await.expect("an answer").into_body();
    assert_eq!(next(&mut body).await, Some(said.clone()));

    for _ in 0..60 {
        for _ in 0..10 {
            pass_second(&worker).await;
        }
        asking.ping(Ping::opaque()).await.expect("an answer");
    }
    // Both directions still work, and the node received no more PINGs than gRPC servers allow: a
    // second one within five minutes counts as abuse.
    out.send_data(said.clone(), false).expect("an open stream");
    assert_eq!(next(&mut body).await, Some(said.clone()));
    assert_eq!(pings(&read.borrow()), 1, "one in 310 s");
    out.send_data(Bytes::new(), true).expect("an open stream");
    assert_eq!(next(&mut body).await, None);
    let trailers = body.trailers().await.expect("an open stream").expect("trailers");
    assert_eq!(trailers["grpc-status"], "0");
}

#[test]
fn a_call_that_is_quiet_for_ten_minutes_goes_on_and_its_node_is_hardly_asked() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime.expect("a runtime"), async {
        tokio::time::timeout(PATIENCE, ten_quiet_minutes()).await.expect("the test hangs");
    });
}
