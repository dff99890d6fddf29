//! An HTTP/2 server that misbehaves on purpose, and answers gRPC as it is told.

use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::sync::watch;

/// What happens to requests.
#[derive(Clone, Default)]
pub(super) struct Plan {
    /// GOAWAY after so many answers of a connection; never when 0.
    pub(super) answers_a_connection: u64,
    /// Refuse every n-th stream; none when 0.
    pub(super) refuse_every: u64,
    /// Reset every n-th stream; none when 0.
    pub(super) reset_every: u64,
    /// Never answer every n-th stream; all are answered when 0.
    pub(super) silent_every: u64,
    /// How gRPC calls are answered, by path.
    pub(super) calls: HashMap<&'static str, Call>,
}

/// Answers one call.
pub(super) type Call = fn(Incoming) -> Pin<Box<dyn Future<Output = ()>>>;

/// A call that has come in.
pub(super) struct Incoming {
    pub(super) request: Request<RecvStream>,
    pub(super) respond: SendResponse<Bytes>,
}

/// Serves until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("sockets can be that");
        let (stop, mut stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let serving = tokio::task::LocalSet::new();
            serving.block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener, plan) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        });
        Self { address, stop, thread: Some(thread) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, plan: Plan) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let requests = Arc::new(AtomicU64::new(0));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::task::spawn_local(serve(stream, plan.clone(), Arc::clone(&requests)));
    }
}

async fn serve(stream: tokio::net::TcpStream, plan: Plan, requests: Arc<AtomicU64>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut answered = 0;
    // Those that are held get neither an answer nor a reset.
    let mut held = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        let is_nth = |every: u64| every > 0 && number.is_multiple_of(every);
        if is_nth(plan.refuse_every) {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        if is_nth(plan.reset_every) {
            respond.send_reset(Reason::INTERNAL_ERROR);
            continue;
        }
        if is_nth(plan.silent_every) {
            held.push(respond);
            continue;
        }
        if let Some(call) = plan.calls.get(request.uri().path()) {
            tokio::task::spawn_local(call(Incoming { request, respond }));
            continue;
        }
        let mut body = respond.send_response(Response::new(()), false).expect("a head");
        body.send_data(Bytes::from_static(b"ok"), true).expect("a body");
        answered += 1;
        if answered == plan.answers_a_connection {
            connection.graceful_shutdown();
        }
    }
}

impl Incoming {
    /// Answers with a head and nothing else.
    pub(super) fn head_only(mut self, status: u16, headers: &[(&'static str, &str)]) {
        let response = response(status, headers);
        self.respond.send_response(response, true).expect("a head");
    }

    /// Answers with bytes and trailers.
    pub(super) fn answer(
        mut self,
        headers: &[(&'static str, &str)],
        data: &[u8],
        trailers: &[(&'static str, &str)],
    ) {
        let mut head = vec![("content-type", "application/grpc")];
        head.extend_from_slice(headers);
        let mut body = self.respond.send_response(response(200, &head), false).expect("a head");
        body.send_data(Bytes::copy_from_slice(data), trailers.is_empty()).expect("data");
        if !trailers.is_empty() {
            body.send_trailers(header_map(trailers)).expect("trailers");
        }
    }
}

fn response(status: u16, headers: &[(&'static str, &str)]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().expect("a status");
    *response.headers_mut() = header_map(headers);
    response
}

pub(super) fn header_map(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.insert(*name, HeaderValue::from_str(value).expect("a value"));
    }
    headers
}

/// Answers as a server of HTTP/1.1 does that is spoken to in HTTP/2; lives as long as the process.
pub(super) fn http1_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                let _ = stream.read(&mut bytes);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
                // What is left unread would end the connection with a reset, and the client might see only that.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    address
}
