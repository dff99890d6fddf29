//! Connections of a listener, from outside.

use http_body_util::Full;
use hyper::header::{CONNECTION, UPGRADE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const UPGRADE_REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK";

/// Answers "yes", or switches the protocol and waits for the client's end.
#[derive(Clone, Copy)]
struct Yes {
    is_expected: bool,
}

impl Service for Yes {
    type Body = Full<Bytes>;

    async fn answer(&self, mut request: Request<Incoming>, _peer: Peer) -> Response<Self::Body> {
        let mut response = Response::new(Full::from("yes"));
        if request.headers().contains_key(UPGRADE) {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = hyper_util::rt::TokioIo::new(upgrade.await.expect("an upgrade"));
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
            response = Response::new(Full::default());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(CONNECTION, "upgrade".parse().expect("a value"));
            response.headers_mut().insert(UPGRADE, "echo".parse().expect("a value"));
        }
        response
    }

    fn refuse(&self, _fault: CertificateFault) -> Response<Self::Body> {
        Response::new(Full::from("no"))
    }

    fn expects(&self, _address: SocketAddr) -> bool {
        self.is_expected
    }
}

async fn started(service: Yes, connections_max: usize) -> (SocketAddr, watch::Sender<bool>) {
    let socket = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback can be bound");
    let address = socket.local_addr().expect("bound");
    let (stop, stopped) = watch::channel(false);
    let limits = Limits {
        name: "test",
        connections_max,
        head_time_max: Duration::from_secs(60),
        drain_time_max: Duration::from_secs(9),
    };
    let listener = Listener { socket, tls: None, limits };
    tokio::spawn(serve(listener, service, until_stopped(stopped)));
    (address, stop)
}

/// Connects from another loopback address.
async fn from(source: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(source.parse().expect("an address"), 0)).expect("loopback");
    socket.connect(address).await.expect("it listens")
}

/// Sends a request, and returns the status line, or what came before the end.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    let _ = stream.write_all(request).await;
    let mut line = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).await.is_ok_and(|count| count > 0) && byte != *b"\r" {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text")
}

async fn asked(address: SocketAddr, request: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let line = ask(&mut stream, request).await;
    (stream, line)
}

#[tokio::test]
async fn a_silent_client_delays_nobody_and_the_end_is_orderly() {
    let (address, stop) = started(Yes { is_expected: true }, 16).await;
    let _silent = TcpStream::connect(address).await.expect("it listens");
    let (mut client, line) = asked(address, REQUEST).await;
    assert_eq!(line, OK);
    stop.send_replace(true);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("it closes");
    assert!(rest.ends_with(b"yes"));
}

#[tokio::test]
async fn a_connection_beyond_the_bound_waits_for_a_slot() {
    let (address, _stop) = started(Yes { is_expected: true }, 2).await;
    let (first, second) = (asked(address, REQUEST).await, asked(address, REQUEST).await);
    let waiting = tokio::spawn(asked(address, REQUEST));
    drop(first);
    assert_eq!(waiting.await.expect("no panic").1, OK);
    drop(second);
}

#[tokio::test]
async fn one_address_leaves_slots_for_others() {
    let (address, _stop) = started(Yes { is_expected: true }, 4).await;
    let mut greedy = Vec::new();
    for expected in [OK, OK, OK, "", ""] {
        greedy.push(asked(address, REQUEST).await);
        assert_eq!(greedy.last().map(|(_, line)| &**line), Some(expected));
    }
    let mut other = from("127.0.0.2", address).await;
    assert_eq!(ask(&mut other, REQUEST).await, OK);
}

#[tokio::test]
async fn a_connection_keeps_its_slot_after_an_upgrade() {
    let (address, _stop) = started(Yes { is_expected: true }, 4).await;
    let mut upgraded = Vec::new();
    for _ in 0..3 {
        let (stream, line) = asked(address, UPGRADE_REQUEST).await;
        assert_eq!(line, "HTTP/1.1 101 Switching Protocols");
        upgraded.push(stream);
    }
    assert_eq!(asked(address, REQUEST).await.1, "", "the address has its share");
    drop(upgraded);
    while asked(address, REQUEST).await.1 != OK {}
}

#[tokio::test]
async fn unexpected_clients_have_few_slots_of_their_own() {
    let (address, _stop) = started(Yes { is_expected: false }, 4).await;
    let mut open = Vec::new();
    for source in ["127.0.0.1", "127.0.0.2"] {
        loop {
            let mut stream = from(source, address).await;
            if ask(&mut stream, REQUEST).await != OK {
                break;
            }
            open.push(stream);
        }
    }
    assert_eq!(open.len(), STRANGERS_MAX);
}

#[tokio::test]
async fn a_head_has_a_limit() {
    let (address, _stop) = started(Yes { is_expected: true }, 4).await;
    // Not longer than what is read, because unread bytes would turn the end into a reset.
    let mut long = b"GET / HTTP/1.1\r\nhost: a\r\nlong: ".to_vec();
    long.resize(64 << 10, b'a');
    let (_, line) = asked(address, &long).await;
    assert_eq!(line, "HTTP/1.1 431 Request Header Fields Too Large");
}
