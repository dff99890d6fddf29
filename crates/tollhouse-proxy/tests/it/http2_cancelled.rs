//! Requests that clients of HTTP/2 take back: what nodes, other clients and log plugins see of them.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tollhouse_h2::{Connection, EndStream, ErrorCode, Event, Field, Limits, Rate};
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::Metrics;

use crate::http2_floods::{HEADERS, PREFACE, frame, opened_and_reset};
use crate::http2_nodes::{Call, connect, gateway_with, head, plain, run, serve};
use crate::support::{Gateway, Options};

fn grpc() -> Value {
    json!({"scheme": "grpc"})
}

fn call() -> Request<()> {
    let request =
        Request::post("http://host.test/a.B/C").header("content-type", "application/grpc");
    request.body(()).expect("a request")
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Resets that a node has received, by connection.
#[derive(Debug, Default)]
struct Seen {
    resets: Vec<u64>,
    /// Connections that it ended for too many of them.
    ended: usize,
}

/// A node with the rule of Netty: a connection that brings 200 resets in 30 seconds is ended. Answers each call
/// with what it is sent, at once and for as long as the call is open.
async fn strict_node(listener: TcpListener, seen: Rc<RefCell<Seen>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let number = seen.borrow().resets.len();
        seen.borrow_mut().resets.push(0);
        tokio::task::spawn_local(strict_connection(stream, number, Rc::clone(&seen)));
    }
}

async fn strict_connection(mut stream: TcpStream, number: usize, seen: Rc<RefCell<Seen>>) {
    let limits = Limits {
        concurrent_streams: 10_000,
        resets: Rate { burst: 200, per_second: 0 },
        ..Limits::default()
    };
    let mut codec = Connection::server(limits, &MemoryBudget::unlimited(), 0);
    let mut room = vec![0; 16 * 1024];
    let mut is_over = false;
    while !is_over {
        let Ok(read @ 1..) = stream.read(&mut room).await else { return };
        let mut input = &room[..read];
        loop {
            match codec.receive(&mut input, 0, &mut ()) {
                Ok(None) => break,
                Ok(Some(Event::Request { stream, .. })) => {
                    let fields = [Field::new(b"content-type", b"application/grpc")];
                    codec.respond(stream, 200, fields, EndStream::No).expect("an open stream");
                }
                Ok(Some(Event::Data { stream, data, .. })) => {
                    codec.consume(stream, data.len());
                    let _ = codec.send_data(stream, data, EndStream::No);
                }
                Ok(Some(Event::Reset { stream, .. })) => codec.release(stream),
                Ok(Some(_)) => {}
                Err(error) => {
                    assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM);
                    seen.borrow_mut().ended += 1;
                    is_over = true;
                    break;
                }
            }
        }
        seen.borrow_mut().resets[number] = codec.counters().resets_received;
        let output = codec.output().to_vec();
        codec.written(output.len());
        if stream.write_all(&output).await.is_err() {
            return;
        }
    }
}

/// A call that is open in both directions.
struct OpenCall {
    up: SendStream<Bytes>,
    down: RecvStream,
}

impl OpenCall {
    async fn begin(client: &mut SendRequest<Bytes>) -> Self {
        let (response, up) = client.send_request(call(), false).expect("a stream");
        let down = response.await.expect("an answer").into_body();
        Self { up, down }
    }

    /// Sends a message, which comes back.
    async fn say(&mut self, message: &'static [u8]) {
        self.up.send_data(Bytes::from_static(message), false).expect("an open stream");
        let mut heard = Vec::new();
        while heard.len() < message.len() {
            let data = self.down.data().await.expect("an open call").expect("an open stream");
            let _ = self.down.flow_control().release_capacity(data.len());
            heard.extend_from_slice(&data);
        }
        assert_eq!(heard, message);
    }
}

#[test]
fn a_client_that_takes_back_calls_without_end_ends_no_call_of_others() {
    const CLIENTS: usize = 5;
    const CANCELLED: usize = 1000;
    run(async {
        let (listener, address) = listen().await;
        let seen = Rc::new(RefCell::new(Seen::default()));
        tokio::task::spawn_local(strict_node(listener, Rc::clone(&seen)));
        let gateway = gateway_with(json!({}), grpc(), address, Options::default());
        let mut calls = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = connect(&gateway).await;
            let mut open = OpenCall::begin(&mut client).await;
            open.say(b"hello").await;
            calls.push((client, open));
        }
        let mut attacker = connect(&gateway).await;
        for number in 0..CANCELLED {
            // A connection ends after a thousand in a row; the next one begins where it left off.
            if number % 500 == 499 {
                attacker = connect(&gateway).await;
            }
            let mut cancelled = OpenCall::begin(&mut attacker).await;
            cancelled.up.send_reset(Reason::CANCEL);
        }
        for (client, open) in &mut calls {
            open.say(b"still here").await;
            OpenCall::begin(client).await.say(b"and back again").await;
        }
        let seen = seen.borrow();
        assert_eq!(seen.ended, 0, "{seen:?}");
        assert!(seen.resets.iter().all(|resets| *resets <= 100), "{seen:?}");
        // A connection for each fifty, and those of the others.
        assert!(seen.resets.len() <= CANCELLED / 50 + CLIENTS, "{seen:?}");
    });
}

#[test]
fn a_connection_that_is_being_opened_outlives_the_requests_that_asked_for_it_and_is_counted() {
    let metrics = Arc::new(Metrics::new());
    let options = Options { metrics: Arc::clone(&metrics), ..Options::default() };
    run(async move {
        let (listener, address) = listen().await;
        let connections = Arc::new(AtomicUsize::new(0));
        let answer = async |(_, mut respond): Call| {
            // A cancelled call may have reached the node, whose stream is reset then.
            if let Ok(mut stream) = respond.send_response(head(), false) {
                let _ = stream.send_data(Bytes::from_static(b"x"), true);
            }
        };
        tokio::task::spawn_local(serve(listener, Arc::clone(&connections), plain(), answer));
        let gateway = gateway_with(json!({}), grpc(), address, options);
        let mut raw = TcpStream::connect(gateway.address).await.expect("a connection");
        let cancelled = (0..90).flat_map(|number| opened_and_reset(2 * number + 1, false));
        let bytes: Vec<u8> = PREFACE.iter().copied().chain(cancelled).collect();
        raw.write_all(&bytes).await.expect("the worker reads");
        read_until_settled(&mut raw).await;
        let mut client = connect(&gateway).await;
        let (response, _) = client.send_request(call(), true).expect("a stream");
        assert_eq!(response.await.expect("an answer").status(), 200);
        drop((raw, client));
        tokio::task::spawn_blocking(move || gateway.stop()).await.expect("it ends well");
        assert_eq!(connections.load(Ordering::SeqCst), 1, "one opening for all of them");
        let told = metrics.render();
        assert!(told.contains("tollhouse_upstream_connections_opened_total 1\n"), "{told}");
    });
}

/// Runs `take_back` on a call that a node has got and does not answer; gives the lines that a log plugin has written.
fn logged<T: Future<Output = ()>>(
    name: &str,
    take_back: impl FnOnce(SendRequest<Bytes>, SendStream<Bytes>, tokio::task::JoinHandle<()>) -> T,
) -> Vec<Value> {
    let folder = std::env::temp_dir().join(format!("tollhouse-{name}-{}", std::process::id()));
    let path = folder.join("log");
    let route = json!({"plugins": {"file-logger": {"path": path, "log_format": {
        "status": "$status", "method": "$request_method",
    }}}});
    run(async {
        let (listener, address) = listen().await;
        let (got, mut has_got) = mpsc::unbounded_channel();
        let answer = move |(request, mut respond): Call| {
            got.send(()).expect("the test waits");
            async move {
                let _ = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                drop(request);
            }
        };
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::task::spawn_local(serve(listener, connections, plain(), answer));
        let gateway = gateway_with(route, grpc(), address, Options::default());
        let stream = TcpStream::connect(gateway.address).await.expect("a connection");
        let (client, connection) = h2::client::handshake(stream).await.expect("a handshake");
        let driver = tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        let mut client: SendRequest<Bytes> = client.ready().await.expect("a connection");
        let (response, up) = client.send_request(call(), false).expect("a stream");
        has_got.recv().await.expect("the node has got it");
        take_back(client, up, driver).await;
        drop(response);
        let stopped = tokio::task::spawn_blocking(move || gateway.stop());
        stopped.await.expect("it ends well");
        while !std::fs::read(&path).is_ok_and(|lines| lines.ends_with(b"\n")) {
            tokio::task::yield_now().await;
        }
    });
    let lines = std::fs::read_to_string(&path).expect("a log");
    std::fs::remove_dir_all(&folder).expect("a folder of the test's");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn log_plugins_see_a_request_that_its_client_has_reset() {
    let lines = logged("reset", async |_, mut up, _| up.send_reset(Reason::CANCEL));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["status"], &lines[0]["method"]), (&json!(499), &json!("POST")));
}

#[test]
fn log_plugins_see_a_request_whose_client_has_closed_its_connection() {
    let lines = logged("closed", async |client, up, driver| {
        driver.abort();
        let _ = driver.await;
        drop((client, up));
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["status"], json!(499));
}

/// A node that reads heads and nothing behind them.
async fn deaf_node(listener: TcpListener) {
    let mut open = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        open.push(stream);
    }
}

#[test]
fn bodies_that_a_node_does_not_read_take_no_more_memory_than_there_is_for_them() {
    const DATA: u8 = 0;
    const POST: &[u8] = b"\x83\x86\x84\x41\x01a";
    let budget = MemoryBudget::new(1 << 20);
    let limits = tollhouse_proxy::settings::Limits {
        memory: Arc::clone(&budget),
        ..tollhouse_proxy::settings::Limits::default()
    };
    run(async move {
        let (listener, address) = listen().await;
        tokio::task::spawn_local(deaf_node(listener));
        let options = Options { limits, ..Options::default() };
        let gateway: Gateway = gateway_with(json!({}), json!({}), address, options);
        let mut clients = Vec::new();
        let mut cut = 0;
        for _ in 0..4 {
            let mut raw = TcpStream::connect(gateway.address).await.expect("a connection");
            raw.write_all(PREFACE).await.expect("the worker reads");
            for stream in 0..14 {
                let number = 2 * stream + 1;
                let head = frame(HEADERS, 4, number, POST);
                let body: Vec<u8> =
                    (0..4).flat_map(|_| frame(DATA, 0, number, &[0; 16_000])).collect();
                raw.write_all(&[head, body].concat()).await.expect("the worker reads");
            }
            let reset = read_until_settled(&mut raw).await;
            cut += reset;
            clients.push(raw);
        }
        assert!(cut > 0, "the budget cannot hold all of them");
        assert!(budget.held() <= 1 << 20);
        drop(clients);
        tokio::task::spawn_blocking(move || gateway.stop()).await.expect("it ends well");
        assert_eq!(budget.held(), 0);
    });
}

/// The number of streams that were reset until a PING was answered.
async fn read_until_settled(stream: &mut TcpStream) -> usize {
    const PING: u8 = 6;
    const RST_STREAM: u8 = 3;
    stream.write_all(&frame(PING, 0, 0, b"settled?")).await.expect("the worker reads");
    let mut resets = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.expect("a frame");
        match head[3] {
            PING if payload == b"settled?" => return resets,
            RST_STREAM => resets += 1,
            _ => {}
        }
    }
}
