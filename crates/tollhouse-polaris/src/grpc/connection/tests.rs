//! What a connection asks of the system: writes are counted.

use std::cell::Cell;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http::Request;
use tokio::io::{DuplexStream, ReadBuf};
use tokio::task::{LocalSet, spawn_local};

use super::*;
use crate::answer::Answer;
use crate::grpc::{Call, Options, Reply, Services};

/// A stream that counts how often it is written to.
struct Counting {
    stream: DuplexStream,
    writes: Rc<Cell<usize>>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.set(self.writes.get() + 1);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Answers with twenty kilobytes.
fn services() -> Services {
    let body = Bytes::from(vec![b'b'; 20_000]);
    let shared = body.clone();
    Services::new()
        .unary("/t.T/Unary", move |_: &Rc<Call>, _| Reply::Now(Ok(Answer::shared(body.clone()))))
        .each("/t.T/Each", move |_: &Rc<Call>, _| Reply::Now(Ok(Answer::shared(shared.clone()))))
}

/// How many writes it takes to answer calls that arrive together.
async fn writes(path: &str, calls: usize) -> usize {
    let (near, far) = tokio::io::duplex(16 << 20);
    let writes = Rc::new(Cell::new(0));
    let server = Rc::new(Server::new(services(), Options::default()));
    let presence = server.roster.enter();
    let stream = Counting { stream: near, writes: Rc::clone(&writes) };
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    spawn_local(serve(server, stream, peer, presence));
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(1 << 30).initial_connection_window_size(1 << 30);
    let (mut client, connection) = settings.handshake::<_, Bytes>(far).await.expect("HTTP/2");
    spawn_local(async { drop(connection.await) });
    let mut begin = |count: usize| -> Vec<_> {
        let begun = (0..count).map(|_| {
            let request = Request::post(format!("http://a{path}"));
            let request = request.header("content-type", "application/grpc").body(());
            let (answer, mut body) =
                client.send_request(request.expect("valid"), false).expect("sent");
            body.send_data(Bytes::from_static(&[0; 5]), true).expect("sent");
            answer
        });
        begun.collect()
    };
    // The settings of both sides are through when a call is.
    let mut measured = 0;
    for count in [1, calls] {
        let before = writes.get();
        for answer in begin(count) {
            let mut body = answer.await.expect("answered").into_body();
            let mut bytes = 0;
            while let Some(data) = body.data().await {
                bytes += data.expect("data").len();
            }
            assert_eq!(bytes, 5 + 20_000);
        }
        measured = writes.get() - before;
    }
    measured
}

#[tokio::test]
async fn what_many_calls_have_to_say_leaves_together() {
    let local = LocalSet::new();
    for path in ["/t.T/Unary", "/t.T/Each"] {
        let one = local.run_until(writes(path, 1)).await;
        assert_eq!(one, 1, "{path}: head, frames and trailers in one write");
        let hundred = local.run_until(writes(path, 100)).await;
        // Two megabytes in pieces of 64 KiB are 31 writes, were they all there at once.
        assert!(hundred <= 50, "{path}: {hundred} writes");
    }
}
