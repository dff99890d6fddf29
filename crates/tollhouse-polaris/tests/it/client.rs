//! A client of gRPC made of HTTP/2 and five bytes of prefix.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
pub struct Client {
    sender: SendRequest<Bytes>,
    connection: JoinHandle<()>,
}

/// A call that has begun.
pub struct Open {
    /// The client's side.
    pub stream: SendStream<Bytes>,
    answer: Option<h2::client::ResponseFuture>,
    head: Option<HeaderMap>,
    body: Option<RecvStream>,
    bytes: Vec<u8>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The messages.
    pub messages: Vec<Vec<u8>>,
    /// The status; `None` where there was none.
    pub code: Option<u32>,
    /// Its message.
    pub text: String,
    /// The status of HTTP.
    pub http: u16,
    /// The fields of the head.
    pub head: HeaderMap,
}

/// Runs a test on a runtime of its own; one that waits in vain fails.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let patient = async { tokio::time::timeout(PATIENCE, test).await };
    runtime.expect("a runtime").block_on(patient).expect("what the test waits for happens")
}

/// A message as it travels.
pub fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

/// A request as clients of gRPC send it.
pub fn request(path: &str) -> Request<()> {
    let request = Request::builder().method("POST").uri(format!("http://registry{path}"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    request.body(()).expect("valid")
}

impl Client {
    /// Connects with windows as large as they can be.
    pub async fn connect(address: SocketAddr) -> Self {
        let mut settings = h2::client::Builder::new();
        settings.initial_window_size((1 << 31) - 1).initial_connection_window_size((1 << 31) - 1);
        Self::connect_with(address, &settings).await
    }

    /// Connects with settings.
    pub async fn connect_with(address: SocketAddr, settings: &h2::client::Builder) -> Self {
        let stream = TcpStream::connect(address).await.expect("somebody listens");
        stream.set_nodelay(true).expect("a live socket");
        let (sender, connection) = settings.handshake(stream).await.expect("HTTP/2 is spoken");
        // How it ends is seen by the calls.
        let connection = tokio::spawn(async { drop(connection.await) });
        Self { sender, connection }
    }

    /// Begins a call with its head alone.
    pub async fn open(&self, request: Request<()>) -> Open {
        let mut sender = self.sender.clone().ready().await.expect("an open connection");
        let (answer, stream) = sender.send_request(request, false).expect("sent");
        let answer = Some(answer);
        Open { stream, answer, head: None, body: None, bytes: Vec::new() }
    }

    /// A call whose client sends these bytes and ends.
    pub async fn send(&self, request: Request<()>, bytes: &[Bytes]) -> Ended {
        let mut open = self.open(request).await;
        for piece in bytes {
            // Fails when the server has refused the call before all was sent.
            let _ = open.stream.send_data(piece.clone(), false);
        }
        let _ = open.stream.send_data(Bytes::new(), true);
        open.end().await
    }

    /// A call with one message.
    pub async fn unary(&self, path: &str, message: &[u8]) -> Ended {
        self.send(request(path), &[framed(message)]).await
    }

    /// Breaks the connection off.
    pub async fn cut(self) {
        self.connection.abort();
        // Ended by the line above.
        let _ = self.connection.await;
    }

    /// Waits until the server has ended the connection.
    pub async fn until_ended(self) {
        drop(self.sender);
        self.connection.await.expect("no panic");
    }
}

impl Open {
    /// Sends a message.
    pub fn say(&mut self, message: &[u8]) {
        self.stream.send_data(framed(message), false).expect("an open call");
    }

    /// Has no more to say.
    pub fn close(&mut self) {
        self.stream.send_data(Bytes::new(), true).expect("an open call");
    }

    /// Waits for the head of the answer.
    pub async fn head(&mut self) -> u16 {
        let Some(answer) = self.answer.take() else { return 200 };
        let (head, body): (http::response::Parts, _) =
            Response::into_parts(answer.await.expect("answered"));
        self.head = Some(head.headers);
        self.body = Some(body);
        head.status.as_u16()
    }

    /// The next message; `None` at the end.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.head().await;
        loop {
            if let Some((prefix, rest)) = self.bytes.split_first_chunk::<5>() {
                let length = (&prefix[1..]).get_u32() as usize;
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    self.bytes.drain(..5 + length);
                    return Some(message);
                }
            }
            let body = self.body.as_mut().expect("the head is there");
            let data = body.data().await?.expect("data");
            body.flow_control().release_capacity(data.len()).expect("an open stream");
            self.bytes.extend_from_slice(&data);
        }
    }

    /// The body, for a test that reads it by itself.
    pub async fn body(&mut self) -> &mut RecvStream {
        self.head().await;
        self.body.as_mut().expect("the head is there")
    }

    /// Takes all that comes.
    pub async fn end(mut self) -> Ended {
        let http = self.head().await;
        let mut messages = Vec::new();
        while let Some(message) = self.next().await.filter(|_| http == 200) {
            messages.push(message);
        }
        assert!(self.bytes.is_empty() || http != 200, "whole messages");
        let head = self.head.take().expect("the head is there");
        let trailers = self.body().await.trailers().await.expect("a whole answer");
        let last = trailers.as_ref().unwrap_or(&head);
        let field = |name| last.get(name).and_then(|value| value.to_str().ok());
        let code = field("grpc-status").map(|code| code.parse().expect("a number"));
        let text = field("grpc-message").unwrap_or_default().to_owned();
        Ended { messages, code, text, http, head }
    }
}
