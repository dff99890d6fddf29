//! Load of every kind at once, while routes, certificates and the process itself are replaced: nothing may be
//! lost. A few rounds here; `RELOADS=1000 UPGRADES=20` makes a long run of it.
//!
//! The clients are what honest ones are: they go on elsewhere where a connection says that it ends, and ask
//! again where a kept one was closed before it said a word (RFC 9112 §9.3.1), or has said that it did nothing
//! (RFC 9113 §8.7). What fails beyond that is lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsConnector;
use tollhouse_testkit::Origin;
use tollhouse_testkit::patience::wait_for;

use crate::support::{gateway, upstream};
use crate::tls_support::{Authority, Pair, TlsClient, TlsOptions, der, server_certificate, ssl};

/// The host that everybody asks.
const HOST: &str = "a.test";

/// Between two requests of a client: sixty in a second, which leaves the machine to the gateway.
const PACE: Duration = Duration::from_millis(16);

/// The longest wait for an answer; longer is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests of each kind that must have been answered before a round is over.
const REQUESTS_A_ROUND: usize = 3;

/// Failures that are told.
const FAILURES_TOLD_MAX: usize = 20;

/// How often something is repeated: a few times, or as a variable says.
fn rounds(variable: &str, few: u32) -> u32 {
    let many = std::env::var(variable).ok().map(|text| text.parse().expect("a number"));
    many.unwrap_or(few)
}

/// What came of all requests.
#[derive(Default)]
struct Tally {
    answered: Mutex<BTreeMap<&'static str, usize>>,
    failures: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Tally {
    fn count(&self, kind: &'static str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => *self.answered.lock().expect("no panic").entry(kind).or_default() += 1,
            Err(failure) => {
                self.failures.lock().expect("no panic").push(format!("{kind}: {failure}"));
            }
        }
    }

    fn answered(&self) -> BTreeMap<&'static str, usize> {
        self.answered.lock().expect("no panic").clone()
    }

    /// Waits until every kind has had some more answers.
    fn wait_round(&self) {
        let before = self.answered();
        wait_for("a round of requests", || {
            let now = self.answered();
            let grown = |kind: &&str| {
                let had = before.get(kind).copied().unwrap_or(0);
                now.get(kind).copied().unwrap_or(0) >= had + REQUESTS_A_ROUND
            };
            (KINDS.iter().all(grown) || !self.failures().is_empty()).then_some(())
        });
    }

    fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("no panic").clone()
    }
}

const KINDS: [&str; 7] = [
    "http/1 kept",
    "http/1 anew",
    "https/1 kept",
    "https/1 anew",
    "http/2",
    "http/2 over tls",
    "grpc",
];

/// Where everybody asks.
#[derive(Clone)]
struct Target {
    plain: SocketAddr,
    tls: SocketAddr,
    /// Clients of HTTP/1.1 and of HTTP/2.
    clients: [TlsClient; 2],
}

/// Asks in every way until it is told to stop, on a thread of its own.
fn start_load(target: Target, tally: Arc<Tally>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let local = LocalSet::new();
        let ways = KINDS.map(|kind| {
            let (target, tally) = (target.clone(), Arc::clone(&tally));
            local.spawn_local(async move {
                match kind {
                    "http/1 kept" | "https/1 kept" | "http/1 anew" | "https/1 anew" => {
                        let client =
                            Http1::new(target, kind.starts_with("https"), kind.ends_with("kept"));
                        let client = tokio::sync::Mutex::new(client);
                        repeat(kind, &tally, async || client.lock().await.ask().await).await;
                    }
                    _ => {
                        let client = Http2::new(target, kind);
                        let client = tokio::sync::Mutex::new(client);
                        repeat(kind, &tally, async || client.lock().await.ask().await).await;
                    }
                }
            })
        });
        local.block_on(&runtime.expect("a runtime"), async {
            for way in ways {
                way.await.expect("no panic");
            }
        });
    })
}

async fn repeat(kind: &'static str, tally: &Tally, ask: impl AsyncFn() -> Result<(), String>) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !tally.stop.load(Ordering::SeqCst) {
        pace.tick().await;
        let asked = tokio::time::timeout(PATIENCE, ask()).await;
        tally.count(kind, asked.unwrap_or_else(|_| Err("no answer".to_owned())));
    }
}

/// Bytes both ways.
trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Both for S {}

async fn open(target: &Target, tls: Option<&TlsClient>) -> Result<Box<dyn Both>, String> {
    let failed = |error: std::io::Error| format!("failed to connect: {error}");
    let Some(client) = tls else {
        return Ok(Box::new(TcpStream::connect(target.plain).await.map_err(failed)?));
    };
    let stream = TcpStream::connect(target.tls).await.map_err(failed)?;
    let name = ServerName::try_from(HOST).expect("a name");
    let stream = TlsConnector::from(Arc::clone(&client.0)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| format!("failed in the handshake: {error}"))?))
}

/// A client of HTTP/1.1.
struct Http1 {
    target: Target,
    is_encrypted: bool,
    keeps: bool,
    kept: Option<Box<dyn Both>>,
}

/// How an exchange came to nothing.
enum Broken {
    /// The connection was closed before a byte of an answer.
    Closed,
    Otherwise(String),
}

impl Http1 {
    fn new(target: Target, is_encrypted: bool, keeps: bool) -> Self {
        Self { target, is_encrypted, keeps, kept: None }
    }

    async fn ask(&mut self) -> Result<(), String> {
        if let Some(mut stream) = self.kept.take() {
            match self.exchange(&mut stream).await {
                Ok(stays) => {
                    self.kept = Some(stream).filter(|_| stays);
                    return Ok(());
                }
                // Its right, whose request was not answered.
                Err(Broken::Closed) => {}
                Err(Broken::Otherwise(failure)) => return Err(failure),
            }
        }
        let tls = self.is_encrypted.then_some(&self.target.clients[0]);
        let mut stream = open(&self.target, tls).await?;
        match self.exchange(&mut stream).await {
            Ok(stays) => self.kept = Some(stream).filter(|_| stays),
            Err(Broken::Closed) => return Err("a new connection was closed".to_owned()),
            Err(Broken::Otherwise(failure)) => return Err(failure),
        }
        Ok(())
    }

    /// Whether the connection stays open.
    async fn exchange(&self, stream: &mut Box<dyn Both>) -> Result<bool, Broken> {
        let end = if self.keeps { "" } else { "Connection: close\r\n" };
        let request = format!("GET /x HTTP/1.1\r\nHost: {HOST}\r\n{end}\r\n");
        let closed = |_| Broken::Closed;
        stream.write_all(request.as_bytes()).await.map_err(closed)?;
        stream.flush().await.map_err(closed)?;
        let mut read = Vec::new();
        loop {
            let mut room = [0; 1024];
            let count = match stream.read(&mut room).await {
                Ok(0) | Err(_) if read.is_empty() => return Err(Broken::Closed),
                Ok(0) | Err(_) => {
                    let text = String::from_utf8_lossy(&read);
                    return Err(Broken::Otherwise(format!("cut: {text:?}")));
                }
                Ok(count) => count,
            };
            read.extend_from_slice(&room[..count]);
            let text = String::from_utf8_lossy(&read);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: Option<usize> = length.and_then(|length| length.trim().parse().ok());
            if length.is_some_and(|length| body.len() < length) {
                continue;
            }
            if !head.starts_with("http/1.1 200 ") || body != "hello" {
                return Err(Broken::Otherwise(format!("another answer: {text:?}")));
            }
            return Ok(self.keeps && !head.contains("connection: close"));
        }
    }
}

/// A client of HTTP/2, or of gRPC.
struct Http2 {
    target: Target,
    kind: &'static str,
    kept: Option<SendRequest<Bytes>>,
}

impl Http2 {
    fn new(target: Target, kind: &'static str) -> Self {
        Self { target, kind, kept: None }
    }

    async fn ask(&mut self) -> Result<(), String> {
        loop {
            let (sender, is_kept) = match self.kept.take() {
                Some(sender) => (sender, true),
                None => (self.connect().await?, false),
            };
            // One that takes no more streams has had none of this request.
            let sender = match sender.ready().await {
                Ok(sender) => sender,
                Err(_) if is_kept => continue,
                Err(error) => return Err(format!("a new connection takes no stream: {error}")),
            };
            match self.exchange(sender.clone()).await {
                Ok(()) => {
                    self.kept = Some(sender);
                    return Ok(());
                }
                Err(error) if is_kept && has_done_nothing(&error) => {}
                Err(error) => return Err(format!("broken: {error}")),
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, String> {
        let tls = (self.kind == "http/2 over tls").then_some(&self.target.clients[1]);
        let stream = open(&self.target, tls).await?;
        let shaken = h2::client::handshake(stream).await;
        let (sender, connection) = shaken.map_err(|error| format!("no HTTP/2: {error}"))?;
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn exchange(&self, mut sender: SendRequest<Bytes>) -> Result<(), h2::Error> {
        let is_call = self.kind == "grpc";
        let path = if is_call { "/svc.S/M" } else { "/x" };
        let request = Request::builder().uri(format!("https://{HOST}{path}"));
        let request = match is_call {
            true => request
                .method("POST")
                .header("content-type", "application/grpc")
                .header("te", "trailers"),
            false => request,
        };
        let request = request.body(()).expect("a request");
        let (response, mut body) = sender.send_request(request, !is_call)?;
        let message = Bytes::from_static(b"\0\0\0\0\x05hello");
        if is_call {
            body.send_data(message.clone(), true)?;
        }
        let (head, mut body) = response.await?.into_parts();
        let mut read = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            read.extend_from_slice(&data);
        }
        let trailers = body.trailers().await?.unwrap_or_default();
        let status = trailers.get("grpc-status").map(HeaderValue::as_bytes);
        let expected =
            if is_call { (&message[..], Some(&b"0"[..])) } else { (&b"hello"[..], None) };
        // A wrong answer is no broken connection: it fails the test where it is.
        assert_eq!((head.status.as_u16(), (&read[..], status)), (200, expected), "{}", self.kind);
        Ok(())
    }
}

/// Whether nobody can have acted on a request, so that it may go elsewhere.
fn has_done_nothing(error: &h2::Error) -> bool {
    error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM)
}

/// A node of gRPC, which answers with what it was sent.
fn grpc_node() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("a socket");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let local = LocalSet::new();
        local.block_on(&runtime.expect("a runtime"), async {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        tokio::task::spawn_local(echo(request, respond));
                    }
                });
            }
        });
    });
    address
}

async fn echo(request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let mut body = request.into_body();
    let mut read = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        read.extend_from_slice(&data);
    }
    let head = Response::builder().header("content-type", "application/grpc");
    // Whoever is gone needs no answer.
    let Ok(mut stream) = respond.send_response(head.body(()).expect("a head"), false) else {
        return;
    };
    let _ = stream.send_data(read.into(), false);
    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let _ = stream.send_trailers(HeaderMap::from_iter([status]));
}

/// The resources of a round: the routes that serve, others that come and go, and a certificate.
fn resources(round: u32, origin: SocketAddr, calls: SocketAddr, pair: &Pair) -> Value {
    let mut routes = vec![
        json!({ "id": "all", "uri": "/*", "upstream": upstream([origin]) }),
        json!({
            "id": "calls", "uri": "/svc.S/*",
            "upstream": { "scheme": "grpc", "nodes": { calls.to_string(): 1 } },
        }),
    ];
    routes.extend((round..round + 5).map(|number| {
        json!({ "id": format!("r{number}"), "uri": format!("/r{number}"), "upstream": upstream([origin]) })
    }));
    json!({ "routes": routes, "ssls": [ssl("1", &[HOST], pair)] })
}

#[test]
fn nothing_is_lost_while_routes_certificates_and_processes_are_replaced() {
    let (reloads, upgrades) = (rounds("RELOADS", 6), rounds("UPGRADES", 2));
    let authority = Authority::new("root");
    let (origin, calls) = (Origin::named("hello"), grpc_node());
    let pair = authority.server(&[HOST]);
    let first = resources(0, origin.address(), calls, &pair);
    let mut gateway = gateway().tls().resources(&first).start();
    let client = || TlsOptions::new(&authority).forgetful();
    let clients = [client().build(), client().offering(&["h2"]).build()];
    let watching = client().build();
    let target = Target { plain: gateway.address(), tls: gateway.tls_address(), clients };
    let tally = Arc::new(Tally::default());
    let load = start_load(target, Arc::clone(&tally));
    tally.wait_round();
    for round in 1..=reloads {
        if round % (reloads / upgrades.max(1)).max(1) == 0 {
            let successor = gateway.successor().flag("--upgrade").start();
            let mut old = std::mem::replace(&mut gateway, successor);
            old.wait_exit();
        }
        let pair = authority.server(&[HOST]);
        gateway.reload(&resources(round, origin.address(), calls, &pair));
        let stream = watching.connect(gateway.tls_address(), HOST).expect("a handshake");
        assert_eq!(server_certificate(&stream), der(&pair), "the first one shows the new one");
        tally.wait_round();
        if !tally.failures().is_empty() {
            break;
        }
    }
    tally.stop.store(true, Ordering::SeqCst);
    load.join().expect("every answer is right");
    let (answered, failures) = (tally.answered(), tally.failures());
    let told = &failures[..failures.len().min(FAILURES_TOLD_MAX)];
    assert!(failures.is_empty(), "{} lost, of {answered:?}: {told:#?}", failures.len());
    println!("{reloads} reloads, {upgrades} upgrades: {answered:?}, nothing lost");
}
