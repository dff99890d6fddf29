//! HTTP/2 towards nodes: requests of many clients over shared connections, and calls of gRPC. Client and
//! nodes are the h2 crate.

use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tollhouse_proxy::SnapshotCell;
use tollhouse_proxy::settings::Limits;

use crate::support::{self, Gateway, Options, PATIENCE, snapshot};

pub(crate) type Call = (Request<RecvStream>, SendResponse<Bytes>);

/// What a node's connections and calls are served by.
struct Node {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// Answers calls one by one, each in a task of its own.
pub(crate) async fn serve<F: Future<Output = ()> + 'static>(
    listener: TcpListener,
    connections: Arc<AtomicUsize>,
    builder: h2::server::Builder,
    answer: impl Fn(Call) -> F + 'static,
) {
    let answer = Rc::new(answer);
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let (answer, builder) = (Rc::clone(&answer), builder.clone());
        tokio::task::spawn_local(async move {
            let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
            while let Some(Ok(call)) = connection.accept().await {
                tokio::task::spawn_local(answer(call));
            }
        });
    }
}

/// Runs `test` with a gateway before a node, on one thread beside the gateway's.
fn with_node<F, T>(
    upstream: Value,
    builder: h2::server::Builder,
    answer: impl Fn(Call) -> F + 'static,
    test: impl FnOnce(Rc<Gateway>, Node) -> T,
) where
    F: Future<Output = ()> + 'static,
    T: Future<Output = ()>,
{
    with_route(json!({}), upstream, builder, answer, test);
}

fn with_route<F, T>(
    route: Value,
    upstream: Value,
    builder: h2::server::Builder,
    answer: impl Fn(Call) -> F + 'static,
    test: impl FnOnce(Rc<Gateway>, Node) -> T,
) where
    F: Future<Output = ()> + 'static,
    T: Future<Output = ()>,
{
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::task::spawn_local(serve(listener, Arc::clone(&connections), builder, answer));
        let gateway = gateway(route, upstream, address);
        test(Rc::new(gateway), Node { address, connections }).await;
    });
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime.expect("a runtime"), async {
        tokio::time::timeout(PATIENCE, test).await.expect("the test hangs");
    });
}

/// A gateway whose one upstream has one node and, beside that, what `upstream` says.
fn gateway(route: Value, upstream: Value, node: SocketAddr) -> Gateway {
    gateway_with(route, upstream, node, Options::default())
}

pub(crate) fn gateway_with(
    mut route: Value,
    mut upstream: Value,
    node: SocketAddr,
    options: Options,
) -> Gateway {
    upstream["type"] = json!("roundrobin");
    upstream["nodes"] = json!({ node.to_string(): 1 });
    route["uri"] = json!("/*");
    route["upstream"] = upstream;
    // On a thread of its own: a runtime cannot be ended inside of another.
    let snapshot = std::thread::spawn(|| snapshot(route)).join().expect("a configuration");
    Gateway::start_with(&Arc::new(SnapshotCell::new(snapshot)), options)
}

fn grpc() -> Value {
    json!({"scheme": "grpc"})
}

/// A connection of a client to the gateway.
pub(crate) async fn connect(gateway: &Gateway) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(gateway.address).await.expect("a connection");
    let (client, connection) = h2::client::handshake(stream).await.expect("a handshake");
    tokio::task::spawn_local(connection);
    client.ready().await.expect("a connection")
}

fn call(path: &str) -> http::request::Builder {
    Request::post(format!("http://host.test{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

/// What a client has got.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    /// `grpc-status`, wherever it stands.
    fn status(&self) -> &str {
        let status = self.trailers.get("grpc-status").or(self.head.headers().get("grpc-status"));
        status.and_then(|status| status.to_str().ok()).unwrap_or("none")
    }
}

pub(crate) async fn read(response: h2::client::ResponseFuture) -> Result<Answer, h2::Error> {
    let (parts, mut stream) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(Answer { head: Response::from_parts(parts, ()), body, trailers })
}

/// One call with one message.
async fn unary(client: &mut SendRequest<Bytes>, request: Request<()>, message: &str) -> Answer {
    *client = client.clone().ready().await.expect("a connection");
    let (response, mut body) = client.send_request(request, false).expect("a stream");
    body.send_data(Bytes::copy_from_slice(message.as_bytes()), true).expect("an open stream");
    read(response).await.expect("an answer")
}

pub(crate) async fn whole(body: &mut RecvStream) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(data) = body.data().await {
        let Ok(data) = data else { break };
        let _ = body.flow_control().release_capacity(data.len());
        whole.extend_from_slice(&data);
    }
    whole
}

pub(crate) fn trailers(status: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static(status)),
        (http::HeaderName::from_static("x-note"), HeaderValue::from_static("from the node")),
    ])
}

pub(crate) fn head() -> Response<()> {
    let head = Response::builder().header("content-type", "application/grpc");
    head.body(()).expect("a head")
}

/// Answers with what it was sent, the path before it, and status 0.
async fn echo((request, mut respond): Call) {
    let (parts, mut body) = request.into_parts();
    let body = whole(&mut body).await;
    let te = parts.headers.get("te").map_or("", |te| te.to_str().unwrap_or_default());
    let text = format!("{} {te} {}", parts.uri, String::from_utf8_lossy(&body));
    let Ok(mut stream) = respond.send_response(head(), false) else { return };
    let _ = stream.send_data(text.into(), false);
    let _ = stream.send_trailers(trailers("0"));
}

pub(crate) fn plain() -> h2::server::Builder {
    h2::server::Builder::new()
}

#[test]
fn a_call_reaches_the_node_and_its_status_the_client() {
    with_node(grpc(), plain(), echo, async |gateway, node| {
        let mut client = connect(&gateway).await;
        for number in 0..20 {
            let request = call("/package.Service/Method").body(()).expect("a request");
            let answer = unary(&mut client, request, &format!("message {number}")).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let expected =
                format!("http://host.test/package.Service/Method trailers message {number}");
            assert_eq!(text, expected);
            assert_eq!(answer.status(), "0");
            assert_eq!(answer.trailers["x-note"], "from the node");
            assert_eq!(answer.head.headers()["content-type"], "application/grpc");
        }
        assert_eq!(node.connections.load(Ordering::SeqCst), 1, "one connection serves them all");
    });
}

#[test]
fn a_call_that_asks_for_no_trailers_has_its_status_all_the_same() {
    with_node(grpc(), plain(), echo, async |gateway, _node| {
        let mut client = connect(&gateway).await;
        let request =
            |kind| Request::post("http://host.test/a").header("content-type", kind).body(());
        for (kind, expected) in [("application/grpc+proto", "0"), ("text/plain", "none")] {
            let answer = unary(&mut client, request(kind).expect("a request"), "x").await;
            assert_eq!(answer.status(), expected, "{kind}");
        }
    });
}

#[test]
fn calls_of_many_clients_share_a_connection_even_before_it_stands() {
    with_node(grpc(), plain(), echo, async |gateway, node| {
        let mut clients = Vec::new();
        for _ in 0..8 {
            let gateway = Rc::clone(&gateway);
            clients.push(tokio::task::spawn_local(async move {
                let mut client = connect(&gateway).await;
                let request = call("/a").body(()).expect("a request");
                assert_eq!(unary(&mut client, request, "x").await.status(), "0");
            }));
        }
        for client in clients {
            client.await.expect("a client");
        }
        assert_eq!(node.connections.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_node_that_allows_few_streams_gets_more_connections() {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let (release, held) = tokio::sync::watch::channel(false);
    let answer = move |call: Call| {
        let mut held = held.clone();
        async move {
            let _ = held.wait_for(|is_released| *is_released).await;
            echo(call).await;
        }
    };
    with_node(grpc(), builder, answer, async |gateway, node| {
        let mut client = connect(&gateway).await;
        // The node's settings are known once an answer has come.
        release.send_replace(true);
        unary(&mut client, call("/first").body(()).expect("a request"), "x").await;
        release.send_replace(false);
        let mut calls = Vec::new();
        for _ in 0..6 {
            client = client.ready().await.expect("a connection");
            let request = call("/a").body(()).expect("a request");
            let (response, mut body) = client.send_request(request, false).expect("a stream");
            body.send_data(Bytes::from_static(b"x"), true).expect("an open stream");
            calls.push(tokio::task::spawn_local(read(response)));
        }
        while node.connections.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        release.send_replace(true);
        for call in calls {
            assert_eq!(call.await.expect("a task").expect("an answer").status(), "0");
        }
    });
}

#[test]
fn both_directions_of_a_call_flow_at_once() {
    // Answers each message as it comes, its head before the first.
    async fn ping_pong((request, mut respond): Call) {
        let mut stream = respond.send_response(head(), false).expect("a stream");
        let mut body = request.into_body();
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
            stream.send_data(data, false).expect("an open stream");
        }
        stream.send_trailers(trailers("0")).expect("an open stream");
    }
    with_node(grpc(), plain(), ping_pong, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let request = call("/bidi").body(()).expect("a request");
        let (response, mut up) = client.send_request(request, false).expect("a stream");
        let (_, mut down) = response.await.expect("a head before any message").into_parts();
        for number in 0..100 {
            up.send_data(format!("{number};").into(), false).expect("an open stream");
            let mut got = Vec::new();
            while !got.ends_with(b";") {
                let data = down.data().await.expect("a message").expect("an open stream");
                down.flow_control().release_capacity(data.len()).expect("an open stream");
                got.extend_from_slice(&data);
            }
            assert_eq!(got, format!("{number};").into_bytes());
        }
        up.send_data(Bytes::new(), true).expect("an open stream");
        assert!(down.data().await.is_none());
        let trailers = down.trailers().await.expect("trailers").expect("some");
        assert_eq!(trailers["grpc-status"], "0");
    });
}

#[test]
fn a_call_that_fails_brings_all_that_its_node_says_of_it() {
    const FIELDS: [(&str, &str); 4] = [
        ("grpc-status", "5"),
        ("grpc-message", "n%C3%A4o 50%25 \"q\"%0A"),
        ("grpc-status-details-bin", "CAUSBWhlbGxv"),
        ("x-own", "1"),
    ];
    fn fields() -> HeaderMap {
        let field =
            |(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value));
        HeaderMap::from_iter(FIELDS.map(field))
    }
    let answer = async |(request, mut respond): Call| {
        let mut only = head();
        only.headers_mut().extend(fields());
        match request.uri().path() {
            "/only" => drop(respond.send_response(only, true)),
            _ => {
                let stream = respond.send_response(head(), false);
                let _ = stream.expect("an open stream").send_trailers(fields());
            }
        }
    };
    with_node(grpc(), plain(), answer, async |gateway, _| {
        let mut client = connect(&gateway).await;
        for path in ["/only", "/behind"] {
            let answer = unary(&mut client, call(path).body(()).expect("a request"), "x").await;
            let said = |name| answer.trailers.get(name).or(answer.head.headers().get(name));
            for (name, value) in FIELDS {
                let said = said(name).and_then(|value| value.to_str().ok());
                assert_eq!(said, Some(value), "{path} {name}");
            }
        }
    });
}

#[test]
fn what_the_gateway_answers_itself_is_a_status_in_one_block() {
    // A port that the kernel gives nobody, and that no program here listens on.
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    run(async {
        let cases = [
            (json!({}), 502, "14"),
            (json!({"plugins": {"key-auth": {}}}), 401, "16"),
            (json!({"plugins": {"ip-restriction": {"blacklist": ["127.0.0.1"]}}}), 403, "7"),
            (json!({"plugins": {"fault-injection": {"abort": {"http_status": 404}}}}), 404, "12"),
            (json!({"plugins": {"fault-injection": {"abort": {"http_status": 429}}}}), 429, "14"),
            (json!({"plugins": {"fault-injection": {"abort": {"http_status": 418}}}}), 418, "2"),
        ];
        for (route, http, status) in cases {
            let gateway = gateway(route, grpc(), address);
            let mut client = connect(&gateway).await;
            let answer = unary(&mut client, call("/a").body(()).expect("a request"), "x").await;
            assert_eq!(answer.status(), status, "{http}");
            assert_eq!(answer.head.status(), 200, "{http}");
            assert_eq!(answer.head.headers()["content-type"], "application/grpc");
            assert!(answer.head.headers().get("content-length").is_none());
            assert!(answer.head.headers().contains_key("grpc-message"));
            assert!(answer.body.is_empty() && answer.trailers.is_empty());
        }
    });
}

#[test]
fn a_call_that_takes_too_long_ends_at_its_deadline_and_at_the_node() {
    let (ended, mut seen) = mpsc::unbounded_channel();
    let answer = move |(_, mut respond): Call| {
        let ended = ended.clone();
        async move {
            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
            let _ = ended.send(reason.expect("a reset"));
        }
    };
    with_node(grpc(), plain(), answer, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let request = call("/slow").header("grpc-timeout", "50m").body(()).expect("a request");
        let answer = unary(&mut client, request, "x").await;
        assert_eq!(answer.status(), "4");
        assert_eq!(seen.recv().await, Some(Reason::CANCEL));
    });
}

#[test]
fn a_deadline_in_the_middle_of_an_answer_ends_it_with_a_status() {
    async fn begin((_, mut respond): Call) {
        let mut stream = respond.send_response(head(), false).expect("a stream");
        stream.send_data(Bytes::from_static(b"first"), false).expect("an open stream");
        let _ = std::future::poll_fn(|context| stream.poll_reset(context)).await;
    }
    with_node(grpc(), plain(), begin, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let request = call("/slow").header("grpc-timeout", "80m").body(()).expect("a request");
        let answer = unary(&mut client, request, "x").await;
        assert_eq!((answer.status(), &answer.body[..]), ("4", &b"first"[..]));
    });
}

#[test]
fn a_node_that_dies_in_the_middle_of_an_answer_leaves_a_status() {
    async fn die((_, mut respond): Call) {
        let mut stream = respond.send_response(head(), false).expect("a stream");
        stream.send_data(Bytes::from_static(b"first"), false).expect("an open stream");
        // Seen by the gateway before the reset.
        tokio::task::yield_now().await;
        stream.send_reset(Reason::INTERNAL_ERROR);
    }
    with_node(grpc(), plain(), die, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let answer = unary(&mut client, call("/a").body(()).expect("a request"), "x").await;
        assert_eq!(answer.status(), "14");
    });
}

#[test]
fn a_call_that_its_client_cancels_is_cancelled_at_the_node() {
    let (ended, mut seen) = mpsc::unbounded_channel();
    let answer = move |(_, mut respond): Call| {
        let ended = ended.clone();
        async move {
            let _ = ended.send(None);
            let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
            let _ = ended.send(reason.ok());
        }
    };
    with_node(grpc(), plain(), answer, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let request = call("/a").body(()).expect("a request");
        let (response, mut body) = client.send_request(request, false).expect("a stream");
        body.send_data(Bytes::from_static(b"x"), true).expect("an open stream");
        assert_eq!(seen.recv().await, Some(None));
        drop(response);
        body.send_reset(Reason::CANCEL);
        assert_eq!(seen.recv().await, Some(Some(Reason::CANCEL)));
    });
}

#[test]
fn a_stream_that_the_node_refuses_is_sent_again_whatever_it_asks_for() {
    let refused = Rc::new(std::cell::Cell::new(0));
    let seen = Rc::clone(&refused);
    let answer = move |(request, mut respond): Call| {
        let is_first = seen.replace(seen.get() + 1) == 0;
        async move {
            if is_first {
                return respond.send_reset(Reason::REFUSED_STREAM);
            }
            echo((request, respond)).await;
        }
    };
    with_node(grpc(), plain(), answer, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let answer = unary(&mut client, call("/a").body(()).expect("a request"), "x").await;
        assert_eq!(answer.status(), "0");
    });
    assert_eq!(refused.get(), 2);
}

#[test]
fn a_node_that_goes_away_loses_no_call() {
    // Every connection takes three calls, then says that it goes.
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gateway = gateway(json!({}), grpc(), listener.local_addr().expect("an address"));
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(async move {
                    let mut connection = h2::server::handshake(stream).await.expect("a handshake");
                    let mut calls = 0;
                    while let Some(Ok(call)) = connection.accept().await {
                        tokio::task::spawn_local(echo(call));
                        calls += 1;
                        if calls == 3 {
                            connection.graceful_shutdown();
                        }
                    }
                });
            }
        });
        let client = connect(&gateway).await;
        let mut calls = Vec::new();
        for _ in 0..40 {
            let mut client = client.clone();
            calls.push(tokio::task::spawn_local(async move {
                let request = call("/a").body(()).expect("a request");
                unary(&mut client, request, "x").await.status().to_owned()
            }));
        }
        for call in calls {
            assert_eq!(call.await.expect("a task"), "0");
        }
    });
}

#[test]
fn a_request_outlives_all_connections_that_its_node_closes_on_it() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let upstream = json!({"http_version": "2"});
        let gateway = gateway(json!({}), upstream, listener.local_addr().expect("an address"));
        let (restart, restarted) = tokio::sync::watch::channel(false);
        let (arrive, mut arrived) = mpsc::unbounded_channel();
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (restarted, arrive) = (restarted.clone(), arrive.clone());
                let is_old = !*restarted.borrow();
                tokio::task::spawn_local(async move {
                    let mut builder = plain();
                    builder.max_concurrent_streams(1);
                    let mut connection = builder.handshake::<_, Bytes>(stream).await.expect("one");
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        // The stream is dropped unanswered, and the connection with it.
                        if is_old && *restarted.borrow() {
                            return;
                        }
                        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
                        let _ = arrive.send(answer);
                        tokio::task::spawn_local(async move {
                            let _ = answered.await;
                            let _ = respond.send_response(Response::new(()), true);
                        });
                    }
                });
            }
        });
        let client = connect(&gateway).await;
        let ask = || {
            let mut client = client.clone();
            tokio::task::spawn_local(async move {
                let request = Request::get("http://host.test/").body(()).expect("a request");
                client = client.ready().await.expect("a connection");
                let (response, _) = client.send_request(request, true).expect("a stream");
                read(response).await.expect("an answer").head.status()
            })
        };
        // The first tells how many streams a connection may have; then three wait at once.
        let first = ask();
        let _ = arrived.recv().await.expect("a call").send(());
        assert_eq!(first.await.expect("a task"), 200);
        let calls = [ask(), ask(), ask()];
        let mut answers = Vec::new();
        for _ in &calls {
            answers.push(arrived.recv().await.expect("a call"));
        }
        for answer in answers {
            // A task that has given up needs no answer.
            let _ = answer.send(());
        }
        for call in calls {
            assert_eq!(call.await.expect("a task"), 200);
        }
        restart.send_replace(true);
        let last = ask();
        let _ = arrived.recv().await.expect("a call").send(());
        assert_eq!(last.await.expect("a task"), 200);
    });
}

#[test]
fn plain_requests_go_over_http2_where_the_upstream_says_so() {
    async fn answer((request, mut respond): Call) {
        let (parts, mut body) = request.into_parts();
        let body = whole(&mut body).await;
        if parts.method == "HEAD" {
            let head =
                Response::builder().header("content-length", "100").body(()).expect("a head");
            respond.send_response(head, true).expect("a stream");
            return;
        }
        let text = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
        let mut stream = respond.send_response(Response::new(()), false).expect("a stream");
        stream.send_data(text.into(), true).expect("an open stream");
    }
    with_node(json!({"http_version": "2"}), plain(), answer, async |gateway, node| {
        let gateway = Rc::clone(&gateway);
        let answers = tokio::task::spawn_blocking({
            let address = gateway.address;
            move || {
                let mut client = std::net::TcpStream::connect(address).expect("a connection");
                client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
                let mut answers = Vec::new();
                for request in [
                    "GET /a?b=c HTTP/1.1\r\nHost: host.test\r\nConnection: x\r\nX: y\r\n\r\n",
                    "POST /b HTTP/1.1\r\nHost: host.test\r\nContent-Length: 5\r\n\r\nhello",
                    "POST /c HTTP/1.1\r\nHost: host.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                    "HEAD /d HTTP/1.1\r\nHost: host.test\r\n\r\n",
                ] {
                    client.write_all(request.as_bytes()).expect("the gateway reads");
                    let mut head = Vec::new();
                    support::read_head(&mut client, &mut head).expect("a head");
                    let head = String::from_utf8(head).expect("text");
                    let mut body = String::new();
                    while head.contains("Transfer-Encoding: chunked")
                        && !body.ends_with("0\r\n\r\n")
                    {
                        let mut byte = [0];
                        client.read_exact(&mut byte).expect("a body");
                        body.push(char::from(byte[0]));
                    }
                    answers.push((head, body));
                }
                answers
            }
        });
        let answers = answers.await.expect("a client");
        for ((head, body), expected) in answers.iter().zip([
            "GET http://host.test/a?b=c ",
            "POST http://host.test/b hello",
            "POST http://host.test/c abc",
            "",
        ]) {
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(body.contains(expected), "{body}");
        }
        assert!(
            answers[3].0.contains("content-length: 100")
                || answers[3].0.contains("Content-Length: 100"),
            "{}",
            answers[3].0
        );
        assert_eq!(node.connections.load(Ordering::SeqCst), 1);
        let _ = node.address;
    });
}

#[test]
fn a_message_that_is_too_long_ends_its_call_in_either_direction() {
    fn message(bytes: usize) -> Vec<u8> {
        [&[0][..], &(bytes as u32).to_be_bytes(), &vec![b'x'; bytes]].concat()
    }
    // Answers with a message as long as the path says.
    async fn long((request, mut respond): Call) {
        let bytes = request.uri().path()[1..].parse().expect("a number");
        whole(&mut request.into_body()).await;
        let Ok(mut stream) = respond.send_response(head(), false) else { return };
        let _ = stream.send_data(message(10).into(), false);
        let _ = stream.send_data(message(bytes).into(), false);
        let _ = stream.send_trailers(trailers("0"));
    }
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::task::spawn_local(serve(listener, Arc::default(), plain(), long));
        let limits = Limits { grpc_message_bytes: Some(1000), ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let gateway = gateway_with(json!({}), grpc(), address, options);
        let mut client = connect(&gateway).await;
        for (sent, answered, expected) in
            [(1000, 1000, "0"), (1001, 10, "8"), (10, 1001, "8"), (10, 100_000, "8")]
        {
            let path = format!("/{answered}");
            client = client.ready().await.expect("a connection");
            let request = call(&path).body(()).expect("a request");
            let (response, mut body) = client.send_request(request, false).expect("a stream");
            body.send_data(message(sent).into(), true).expect("an open stream");
            let answer = read(response).await.expect("an answer");
            assert_eq!(answer.status(), expected, "{sent} {answered}");
        }
    });
}

#[test]
fn trailers_pass_where_plugins_have_seen_the_answer() {
    let route = json!({"plugins": {"response-rewrite": {"headers": {"set": {"X-Seen": "yes"}}}}});
    with_route(route, grpc(), plain(), echo, async |gateway, _| {
        let mut client = connect(&gateway).await;
        let answer = unary(&mut client, call("/a").body(()).expect("a request"), "x").await;
        assert_eq!(answer.head.headers()["x-seen"], "yes");
        assert_eq!(
            (answer.status(), &answer.trailers["x-note"]),
            ("0", &HeaderValue::from_static("from the node"))
        );
    });
}

/// Serves a connection of a node that is no honest one, byte by byte.
type Speaker = fn(TcpStream) -> Pin<Box<dyn Future<Output = ()>>>;

fn with_hostile_node<T: Future<Output = ()>>(speak: Speaker, test: impl FnOnce(Rc<Gateway>) -> T) {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gateway = gateway(json!({}), grpc(), listener.local_addr().expect("an address"));
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(speak(stream));
            }
        });
        test(Rc::new(gateway)).await;
    });
}

#[test]
fn nodes_that_speak_nonsense_are_a_bad_gateway() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// What the node sends, whatever it is asked.
    async fn say(mut stream: TcpStream, bytes: Vec<u8>) {
        let _ = stream.write_all(&bytes).await;
        let mut sink = [0; 1024];
        while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    }
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }
    let speakers: [Speaker; 6] = [
        |stream| Box::pin(say(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())),
        // A head that never ends.
        |stream| {
            let mut bytes = frame(4, 0, 0, &[]);
            bytes.extend(frame(1, 0, 1, &[0x88]));
            (0..100).for_each(|_| bytes.extend(frame(9, 0, 1, &[0; 1])));
            Box::pin(say(stream, bytes))
        },
        // A head that unfolds to megabytes.
        |stream| {
            let mut block = vec![0x88, 0x40, 1, b'a', 0x7f, 0x80, 0x1e];
            block.extend([b'x'; 4000]);
            block.extend([0xbe; 12_000]);
            let mut bytes = frame(4, 0, 0, &[]);
            bytes.extend(frame(1, 4, 1, &block));
            Box::pin(say(stream, bytes))
        },
        // Data before a head.
        |stream| {
            let mut bytes = frame(4, 0, 0, &[]);
            bytes.extend(frame(0, 1, 1, b"data"));
            Box::pin(say(stream, bytes))
        },
        // A stream that nobody has opened.
        |stream| {
            let mut bytes = frame(4, 0, 0, &[]);
            bytes.extend(frame(1, 5, 7, &[0x88]));
            Box::pin(say(stream, bytes))
        },
        // A promise that was not asked for.
        |stream| {
            let mut bytes = frame(4, 0, 0, &[]);
            bytes.extend(frame(5, 4, 1, &[0, 0, 0, 2, 0x88]));
            Box::pin(say(stream, bytes))
        },
    ];
    for speak in speakers {
        with_hostile_node(speak, async |gateway| {
            let mut client = connect(&gateway).await;
            let answer = unary(&mut client, call("/a").body(()).expect("a request"), "x").await;
            assert_eq!(answer.status(), "14", "{answer:?}");
        });
    }
}
