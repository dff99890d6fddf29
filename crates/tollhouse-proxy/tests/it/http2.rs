//! HTTP/2 towards clients: requests of one connection beside each other, and what HTTP/1.1 nodes see
//! of them. The client is the h2 crate.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use http::{HeaderMap, Request, Response};
use serde_json::json;
use tollhouse_proxy::SnapshotCell;
use tollhouse_proxy::settings::Limits;
use tollhouse_telemetry::Metrics;

use crate::support::{Gateway, Options, PATIENCE, read_head, snapshot};

/// A gateway before a node that runs `script` for every connection.
pub(crate) fn gateway(options: Options, script: impl Fn(Node) + Send + Sync + 'static) -> Gateway {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = listener.local_addr().expect("an address").to_string();
    let script = Arc::new(script);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            std::thread::spawn(move || script(Node(stream)));
        }
    });
    let route = json!({"uri": "/*", "enable_websocket": true,
        "upstream": {"type": "roundrobin", "nodes": {node: 1}}});
    Gateway::start_with(&Arc::new(SnapshotCell::new(snapshot(route))), options)
}

/// A node's end of a connection.
pub(crate) struct Node(TcpStream);

impl Node {
    /// Reads so many bytes; whether they came.
    pub(crate) fn take(&mut self, count: usize) -> bool {
        self.0.read_exact(&mut vec![0; count]).is_ok()
    }

    /// The next request's head; `None` when the gateway has closed the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        read_head(&mut self.0, &mut head)?;
        Some(String::from_utf8(head).expect("text"))
    }

    /// A body in chunks, data only.
    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                self.0.read_exact(&mut byte).expect("a chunk");
                line.push(byte[0]);
            }
            let size = std::str::from_utf8(line.trim_ascii()).expect("text");
            let size = usize::from_str_radix(size, 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            self.0.read_exact(&mut chunk).expect("a chunk");
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("the gateway reads");
    }

    pub(crate) fn answer(&mut self, body: &str) {
        let length = body.len();
        self.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"));
    }
}

/// Answers every request with its own head, and its body where it has one.
pub(crate) fn echo(mut node: Node) {
    while let Some(head) = node.head() {
        let body = if head.contains("chunked") { node.chunks() } else { Vec::new() };
        node.answer(&format!("{head}{}", String::from_utf8_lossy(&body)));
    }
}

/// Runs a client of one connection.
pub(crate) fn with_client<F: Future<Output = ()>>(
    gateway: &Gateway,
    test: impl FnOnce(SendRequest<Bytes>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = async {
        let stream = tokio::net::TcpStream::connect(gateway.address).await.expect("a connection");
        // What a stream leaves unread takes nothing from the others.
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(1 << 24);
        let (client, connection) = builder.handshake(stream).await.expect("a handshake");
        let driver = tokio::spawn(connection);
        // Settings have come once the connection takes a request.
        test(client.ready().await.expect("a connection")).await;
        driver.abort();
    };
    runtime.expect("a runtime").block_on(async {
        tokio::time::timeout(PATIENCE, run).await.expect("the test hangs");
    });
}

pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    let uri = format!("http://host.test{path}");
    Request::builder().method(method).uri(uri).body(()).expect("a request")
}

/// The whole answer: status, fields, body, trailers.
async fn answer(
    response: h2::client::ResponseFuture,
) -> Result<(Response<String>, HeaderMap), h2::Error> {
    let (parts, mut body) = response.await?.into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let text = String::from_utf8(text).expect("text");
    Ok((Response::from_parts(parts, text), trailers))
}

pub(crate) async fn ask(client: &mut SendRequest<Bytes>, request: Request<()>) -> Response<String> {
    let (response, _) = client.send_request(request, true).expect("a stream");
    answer(response).await.expect("an answer").0
}

#[test]
fn requests_of_one_connection_are_served_beside_each_other() {
    let gateway = gateway(Options::default(), echo);
    with_client(&gateway, async |mut client| {
        let mut answers = Vec::new();
        for number in 0..20 {
            let request = request("POST", &format!("/{number}"));
            let (response, mut body) = client.send_request(request, false).expect("a stream");
            body.send_data(Bytes::from(format!("body {number}")), true).expect("a window");
            answers.push(response);
        }
        for (number, response) in answers.into_iter().enumerate() {
            let (response, _) = answer(response).await.expect("an answer");
            assert_eq!(response.status(), 200);
            let text = response.body();
            assert!(text.starts_with(&format!("POST /{number} HTTP/1.1\r\n")), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\nbody {number}")), "{text}");
        }
    });
    gateway.stop();
}

#[test]
fn a_node_sees_one_host_and_one_cookie_and_nothing_of_frames() {
    let gateway = gateway(Options::default(), echo);
    with_client(&gateway, async |mut client| {
        let mut request = request("GET", "/a?b=c");
        for crumb in ["a=1", "b=2", "c=3"] {
            request.headers_mut().append("cookie", crumb.parse().expect("a value"));
        }
        request.headers_mut().insert("te", "trailers".parse().expect("a value"));
        let answer = ask(&mut client, request).await;
        let lines: Vec<String> = answer.body().split("\r\n").map(str::to_ascii_lowercase).collect();
        assert_eq!(lines[0], "get /a?b=c http/1.1");
        let all = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        assert_eq!((all("host:"), all("cookie:"), all("te:"), all("transfer")), (1, 1, 0, 0));
        assert!(lines.contains(&"host: host.test".to_owned()), "{lines:?}");
        assert!(lines.contains(&"cookie: a=1; b=2; c=3".to_owned()), "{lines:?}");
    });
    gateway.stop();
}

#[test]
fn bodies_and_trailers_pass_however_the_node_frames_them() {
    let gateway = gateway(Options::default(), |mut node| {
        while let Some(head) = node.head() {
            let path = head.split(' ').nth(1).expect("a target").to_owned();
            let is_head = head.starts_with("HEAD");
            node.send(match &*path {
                "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                "/head" if is_head => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                "/chunks" => {
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                     2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
                }
                "/trailers" => {
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\n0\r\nX-Sum: 7\r\nGrpc-Status: 0\r\n\r\n"
                }
                "/none" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/hints" => {
                    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
                }
                _ => "HTTP/1.1 200 OK\r\n\r\nhello",
            });
            if path == "/close" {
                return;
            }
        }
    });
    with_client(&gateway, async |mut client| {
        for (method, path, status, body, trailers) in [
            ("GET", "/length", 200, "hello", 0),
            ("HEAD", "/head", 200, "", 0),
            ("GET", "/chunks", 200, "hello", 0),
            ("GET", "/trailers", 200, "hello", 2),
            ("GET", "/none", 204, "", 0),
            ("GET", "/hints", 200, "hello", 0),
            ("GET", "/close", 200, "hello", 0),
        ] {
            let mut request = request(method, path);
            request.headers_mut().insert("te", "trailers".parse().expect("a value"));
            let (response, _) = client.send_request(request, true).expect("a stream");
            let (response, found) = answer(response).await.expect(path);
            assert_eq!((response.status().as_u16(), &**response.body()), (status, body), "{path}");
            assert_eq!(found.len(), trailers, "{path}");
            assert!(!response.headers().contains_key("transfer-encoding"), "{path}");
        }
    });
    gateway.stop();
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one() {
    let gateway = gateway(Options::default(), |mut node| {
        node.head();
        node.send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
    });
    with_client(&gateway, async |mut client| {
        let (response, _) = client.send_request(request("GET", "/"), true).expect("a stream");
        let error = answer(response).await.expect_err("the body is cut");
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR));
    });
    gateway.stop();
}

#[test]
fn a_request_that_its_client_takes_back_is_taken_from_its_node() {
    let (ended, end) = std::sync::mpsc::channel();
    let metrics = Arc::new(Metrics::new());
    let options = Options { metrics: Arc::clone(&metrics), ..Options::default() };
    let gateway = gateway(options, move |mut node| {
        node.head();
        let _ = ended.send("asked");
        // A reset leaves the gateway's port to the next connection; an orderly end keeps it for a minute.
        let end = node.0.read(&mut [0]).map_err(|error| error.kind());
        let is_reset = end == Err(std::io::ErrorKind::ConnectionReset);
        let _ = ended.send(if is_reset { "reset" } else { "ended" });
    });
    with_client(&gateway, async |mut client| {
        let (response, mut stream) =
            client.send_request(request("GET", "/"), true).expect("a stream");
        let told = tokio::task::spawn_blocking(move || {
            assert_eq!(end.recv_timeout(PATIENCE), Ok("asked"));
            end
        });
        let end = told.await.expect("the node is asked");
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
        let ended = tokio::task::spawn_blocking(move || end.recv_timeout(PATIENCE));
        assert_eq!(ended.await.expect("no panic"), Ok("reset"));
    });
    gateway.stop();
    let failed = "tollhouse_requests_failed_total{code=\"downstream_gone\"} 1";
    assert!(metrics.render().contains(failed), "{}", metrics.render());
}

#[test]
fn a_stream_that_nobody_reads_holds_up_no_other() {
    const LONG: usize = 8 << 20;
    let gateway = gateway(Options::default(), |mut node| {
        while let Some(head) = node.head() {
            if head.starts_with("GET /long") {
                node.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"));
                let _ = node.0.write_all(&vec![b'l'; LONG]);
            } else {
                node.answer("short");
            }
        }
    });
    with_client(&gateway, async |mut client| {
        let (long, _) = client.send_request(request("GET", "/long"), true).expect("a stream");
        let mut long = long.await.expect("a head").into_body();
        for _ in 0..10 {
            assert_eq!(ask(&mut client, request("GET", "/short")).await.body(), "short");
        }
        let mut read = 0;
        while let Some(data) = long.data().await {
            let data = data.expect("the body goes on");
            read += data.len();
            long.flow_control().release_capacity(data.len()).expect("a window");
        }
        assert_eq!(read, LONG);
    });
    gateway.stop();
}

#[test]
fn an_upload_waits_for_its_node_and_others_go_on() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let gateway = gateway(Options::default(), move |mut node| {
        while let Some(head) = node.head() {
            if head.starts_with("POST") {
                // Nothing is read until the others have been answered.
                let _ = wait.lock().expect("no panic before").recv_timeout(PATIENCE);
                let body = node.chunks();
                node.answer(&body.len().to_string());
            } else {
                node.answer("short");
            }
        }
    });
    with_client(&gateway, async |mut client| {
        const LENGTH: usize = 16 << 20;
        let (long, mut body) = client.send_request(request("POST", "/"), false).expect("a stream");
        let upload = tokio::spawn(async move {
            let mut left = LENGTH;
            while left > 0 {
                body.reserve_capacity(left.min(1 << 20));
                let allowed = poll_fn(|context| body.poll_capacity(context)).await;
                let allowed = allowed.expect("an open stream").expect("a window").min(left);
                left -= allowed;
                body.send_data(Bytes::from(vec![b'u'; allowed]), left == 0).expect("a window");
            }
        });
        for _ in 0..10 {
            assert_eq!(ask(&mut client, request("GET", "/short")).await.body(), "short");
        }
        go.send(()).expect("the node waits");
        let (answer, _) = answer(long).await.expect("an answer");
        assert_eq!(answer.body(), &LENGTH.to_string());
        upload.await.expect("the upload ends");
    });
    gateway.stop();
}

/// What a node says to the WebSocket key that it was sent.
fn accept(head: &str) -> String {
    use base64::Engine;
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
    let text = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.expect("a key").trim());
    let hash =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(hash.as_ref())
}

fn websocket(path: &str) -> Request<()> {
    let mut request = request("CONNECT", path);
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    request.headers_mut().insert("sec-websocket-version", "13".parse().expect("a value"));
    request
}

#[test]
fn a_websocket_over_a_stream_is_one_of_http_1_at_the_node() {
    let gateway = gateway(Options::default(), |mut node| {
        while let Some(head) = node.head() {
            let accept = if head.starts_with("GET /wrong") { "none".into() } else { accept(&head) };
            if head.starts_with("GET /plain") {
                node.answer("no");
                continue;
            }
            assert!(head.to_ascii_lowercase().contains("upgrade: websocket"), "{head}");
            node.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            ));
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = node.0.read(&mut bytes) {
                let _ = node.0.write_all(&bytes[..read]);
            }
            return;
        }
    });
    with_client(&gateway, async |mut client| {
        let (response, mut up) = client.send_request(websocket("/ok"), false).expect("a stream");
        let response = response.await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("upgrade"));
        let mut down = response.into_body();
        for word in ["hello", "again"] {
            up.send_data(Bytes::from_static(word.as_bytes()), false).expect("a window");
            let mut heard = Vec::new();
            while heard.len() < word.len() {
                let data = down.data().await.expect("an open tunnel").expect("bytes");
                down.flow_control().release_capacity(data.len()).expect("a window");
                heard.extend_from_slice(&data);
            }
            assert_eq!(heard, word.as_bytes());
        }
        up.send_data(Bytes::new(), true).expect("a window");
        // Both directions end, each by its own end of stream.
        while let Some(data) = down.data().await {
            assert_eq!(data.expect("a clean end"), "");
        }
        for path in ["/wrong", "/plain"] {
            let (response, _up) = client.send_request(websocket(path), false).expect("a stream");
            let (head, mut body) = response.await.expect("an answer").into_parts();
            assert_eq!(head.status, 502, "{path}");
            let page = body.data().await.expect("a page").expect("an open stream");
            assert!(page.starts_with(b"<html>"), "{path}: {page:?}");
        }
    });
    gateway.stop();
}

#[test]
fn a_websocket_over_a_stream_carries_many_messages_and_ends_at_the_node_where_its_client_resets_it()
{
    const MESSAGES: usize = 10_000;
    const AT_ONCE: usize = 100;
    let (ended, node_has_ended) = std::sync::mpsc::channel();
    let ended = std::sync::Mutex::new(ended);
    let gateway = gateway(Options::default(), move |mut node| {
        let Some(head) = node.head() else { return };
        node.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            accept(&head)
        ));
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = node.0.read(&mut bytes) {
            let _ = node.0.write_all(&bytes[..read]);
        }
        ended.lock().expect("no panic").send(()).expect("the test waits");
    });
    with_client(&gateway, async |mut client| {
        let (response, mut up) = client.send_request(websocket("/"), false).expect("a stream");
        let mut down = response.await.expect("an answer").into_body();
        let mut heard = Vec::new();
        for batch in 0..MESSAGES / AT_ONCE {
            let mut sent = Vec::new();
            for number in 0..AT_ONCE {
                let message = format!("{batch}.{number} {};", "m".repeat(number));
                sent.extend_from_slice(message.as_bytes());
                up.send_data(message.into(), false).expect("an open tunnel");
            }
            while heard.len() < sent.len() {
                let data = down.data().await.expect("an open tunnel").expect("bytes");
                down.flow_control().release_capacity(data.len()).expect("a window");
                heard.extend_from_slice(&data);
            }
            assert_eq!(heard, sent, "batch {batch}");
            heard.clear();
        }
        up.send_reset(h2::Reason::CANCEL);
        // The connection goes on: another request is served by it.
        let (response, _up) = client.send_request(websocket("/"), false).expect("a stream");
        assert_eq!(response.await.expect("an answer").status(), 200);
        let waited = tokio::task::spawn_blocking(move || node_has_ended.recv_timeout(PATIENCE));
        waited.await.expect("no panic").expect("the node's side has ended");
    });
    gateway.stop();
}

#[test]
fn a_websocket_on_a_route_without_any_is_refused_before_a_node_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = listener.local_addr().expect("an address").to_string();
    let route = json!({"uri": "/*", "upstream": {"type": "roundrobin", "nodes": {node: 1}}});
    let metrics = Arc::new(Metrics::new());
    let options = Options { metrics: Arc::clone(&metrics), ..Options::default() };
    let gateway = Gateway::start_with(&Arc::new(SnapshotCell::new(snapshot(route))), options);
    with_client(&gateway, async |mut client| {
        let (response, _up) = client.send_request(websocket("/"), false).expect("a stream");
        let (head, mut body) = response.await.expect("an answer").into_parts();
        assert_eq!(head.status, 501);
        assert!(body.data().await.expect("a page").expect("an open stream").starts_with(b"<html>"));
    });
    gateway.stop();
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "no connection has come");
    let failed = "tollhouse_requests_failed_total{code=\"method_not_implemented\"} 1";
    assert!(metrics.render().contains(failed), "{}", metrics.render());
}

#[test]
fn a_websocket_over_a_stream_that_a_plugin_answers_gets_a_whole_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        }
    });
    for (plugins, status) in [
        (json!({"mocking": {"response_status": 200, "response_example": "hello"}}), 501),
        (json!({"mocking": {"response_status": 204, "response_example": ""}}), 501),
        (json!({"mocking": {"response_status": 403, "response_example": "<html>"}}), 403),
        (json!({"response-rewrite": {"status_code": 200, "headers": {"set": {"x": "y"}}}}), 501),
    ] {
        let upstream = json!({"type": "roundrobin", "nodes": {node.clone(): 1}});
        let route = json!({"uri": "/*", "enable_websocket": true, "plugins": plugins, "upstream": upstream});
        let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
        let gateway = Gateway::start_with(&snapshots, Options::default());
        with_client(&gateway, async |mut client| {
            let (response, _up) = client.send_request(websocket("/"), false).expect("a stream");
            let (head, mut body) = response.await.expect("an answer").into_parts();
            assert_eq!(head.status, status, "{plugins}");
            let page = body.data().await.expect("a page").expect("an open stream");
            assert!(page.starts_with(b"<html>"), "{plugins}: {page:?}");
        });
        gateway.stop();
    }
}

#[test]
fn what_is_no_exchange_is_refused_with_its_status() {
    let gateway = gateway(Options::default(), echo);
    with_client(&gateway, async |mut client| {
        let connect = Request::builder().method("CONNECT").uri("host.test:443").body(());
        let answer = ask(&mut client, connect.expect("a request")).await;
        assert_eq!(answer.status(), 405);
        let mut other = request("CONNECT", "/");
        other.extensions_mut().insert(Protocol::from_static("connect-udp"));
        assert_eq!(ask(&mut client, other).await.status(), 501);
        assert_eq!(ask(&mut client, request("GET", "/")).await.status(), 200);
    });
    gateway.stop();
}

#[test]
fn a_connection_that_has_had_its_requests_is_left_without_losing_one() {
    let limits = Limits { requests_per_connection: 3, ..Limits::default() };
    let gateway = gateway(Options { limits, ..Options::default() }, echo);
    with_client(&gateway, async |mut client| {
        let mut answers = Vec::new();
        for _ in 0..5 {
            // All of them are on their way when the third has the connection announce its end.
            answers.push(client.send_request(request("GET", "/"), true).expect("a stream").0);
        }
        for response in answers {
            assert_eq!(answer(response).await.expect("an answer").0.status(), 200);
        }
        let end = poll_fn(|context| client.poll_ready(context)).await;
        assert!(end.is_err() || client.send_request(request("GET", "/"), true).is_err());
    });
    gateway.stop();
}

#[test]
fn a_preface_in_single_bytes_is_one() {
    let gateway = gateway(Options::default(), echo);
    let mut client = TcpStream::connect(gateway.address).expect("the worker accepts");
    client.set_nodelay(true).expect("an open socket");
    client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().chain(&settings) {
        client.write_all(&[*byte]).expect("the worker reads");
    }
    // The first frame of a server is SETTINGS.
    let mut header = [0; 9];
    client.read_exact(&mut header).expect("an answer");
    assert_eq!(header[3], 4, "{header:?}");
    drop(client);
    gateway.stop();
}

#[test]
fn a_preface_behind_anything_else_is_a_request_that_is_none() {
    let gateway = gateway(Options::default(), echo);
    for before in ["\r\n", &"\r\n".repeat(40), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = TcpStream::connect(gateway.address).expect("the worker accepts");
        client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        let sent = format!("{before}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.write_all(sent.as_bytes()).expect("the worker reads");
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).expect("an answer and its end");
        let answers = String::from_utf8_lossy(&answers);
        let last = answers.rfind("HTTP/1.1 ").map(|at| &answers[at..at + 12]);
        assert!(matches!(last, Some("HTTP/1.1 400" | "HTTP/1.1 505")), "{before:?}: {answers}");
    }
    gateway.stop();
}

#[test]
fn a_drain_lets_what_is_under_way_end() {
    let (asked, ask_seen) = std::sync::mpsc::channel::<()>();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let gateway = gateway(Options::default(), move |mut node| {
        while node.head().is_some() {
            let _ = asked.send(());
            let _ = wait.lock().expect("no panic before").recv_timeout(PATIENCE);
            node.answer("late");
        }
    });
    let mut gateway = Some(gateway);
    let address = gateway.as_ref().expect("just set").address;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let (mut client, connection) = h2::client::handshake(stream).await.expect("a handshake");
        let driver = tokio::spawn(connection);
        let (response, _) = client.send_request(request("GET", "/"), true).expect("a stream");
        let seen = tokio::task::spawn_blocking(move || ask_seen.recv_timeout(PATIENCE));
        seen.await.expect("no panic").expect("the node is asked");
        let gateway = gateway.take().expect("not stopped yet");
        let stopping = tokio::task::spawn_blocking(move || gateway.stop());
        // The end is announced while the request is under way, and it is answered all the same.
        go.send(()).expect("the node waits");
        let (answer, _) = answer(response).await.expect("an answer");
        assert_eq!(answer.body(), "late");
        stopping.await.expect("the worker ends");
        let _ = driver.await.expect("no panic");
    });
}
