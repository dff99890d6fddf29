//! The client that attacks, and the clients that come after it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::http2::client as http2;
use super::node::{Node, VICTIM};
use super::script::Script;

/// Time that an attack waits for bytes, because a node may hold the rest of an answer back.
const ATTACK_PATIENCE: Duration = Duration::from_millis(40);

/// Time that a victim waits for bytes; only a fault makes it wait so long.
pub(super) const VICTIM_PATIENCE: Duration = Duration::from_secs(3);

/// Bytes and streams that a client has read.
#[derive(Debug, Default)]
pub struct Heard {
    pub bytes: Vec<u8>,
    /// Whether the gateway closed the connection.
    pub ended: bool,
    /// Answers over HTTP/2, instead of bytes.
    pub streams: Option<http2::Streams>,
}

/// A client that must get its own answer.
#[derive(Debug)]
pub struct Victim {
    /// Token that its answer contains, if it comes from the node.
    pub token: String,
    /// Answer that the client has read.
    pub heard: Heard,
}

/// Sends the requests of the script, and reads to the end.
///
/// # Panics
/// If the gateway does not accept connections.
pub fn attack(gateway: SocketAddr, script: &Script) -> Heard {
    let mut stream = connect(gateway, ATTACK_PATIENCE);
    if let Some(attack) = &script.attack {
        let streams = Some(http2::attack(&mut stream, attack));
        return Heard { streams, ..Heard::default() };
    }
    let mut left = script.leaving.said(script.sent().len());
    for piece in script.pieces.iter().filter(|piece| !piece.is_empty()) {
        let piece = &piece[..piece.len().min(left)];
        left -= piece.len();
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    if script.leaving.reset(&mut stream) {
        return Heard::default();
    }
    let _ = stream.shutdown(Shutdown::Write);
    listen(&mut stream)
}

/// Runs two clients after an attack. The first one sends its request before the node releases the
/// bytes that it held back.
///
/// # Panics
/// If the gateway does not accept connections.
pub fn victims(gateway: SocketAddr, node: &Node, script: &Script) -> Vec<Victim> {
    let (mut first, first_token) = ask(gateway);
    std::thread::yield_now();
    node.release();
    let first = Victim { token: first_token, heard: listen(&mut first) };
    if script.attack.is_some() {
        return vec![first, ask_over_http2(gateway)];
    }
    let (mut second, second_token) = ask(gateway);
    vec![first, Victim { token: second_token, heard: listen(&mut second) }]
}

pub(super) fn next_token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Sends one request and reads the answer.
pub fn ask_one(gateway: SocketAddr) -> Heard {
    let (mut stream, _) = ask(gateway);
    listen(&mut stream)
}

fn ask_over_http2(gateway: SocketAddr) -> Victim {
    let token = next_token();
    let mut stream = connect(gateway, VICTIM_PATIENCE);
    let path = format!("/victim?t={token}");
    let lines =
        [("apikey", "key-one"), ("authorization", "Basic Zm9vOmJhcg=="), (VICTIM, token.as_str())];
    http2::ask(&mut stream, &path, &lines);
    let streams = Some(http2::hear(&mut stream));
    Victim { token, heard: Heard { streams, ..Heard::default() } }
}

fn ask(gateway: SocketAddr) -> (TcpStream, String) {
    let token = next_token();
    let mut stream = connect(gateway, VICTIM_PATIENCE);
    let request = format!(
        "GET /victim?t={token} HTTP/1.1\r\nHost: victim.example\r\napikey: key-one\r\n\
         Authorization: Basic Zm9vOmJhcg==\r\n{VICTIM}: {token}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(request.as_bytes());
    (stream, token)
}

pub(super) fn connect(gateway: SocketAddr, patience: Duration) -> TcpStream {
    let stream = TcpStream::connect(gateway).expect("the gateway takes connections");
    stream.set_read_timeout(Some(patience)).expect("an open socket");
    stream.set_nodelay(true).expect("an open socket");
    stream
}

pub(super) fn listen(stream: &mut TcpStream) -> Heard {
    let mut heard = Heard::default();
    let mut bytes = [0; 16 * 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => {
                heard.ended = true;
                return heard;
            }
            Ok(read) => heard.bytes.extend_from_slice(&bytes[..read]),
            // The fuzzer's own alarm signal interrupts reads.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let waited = matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                );
                heard.ended = !waited;
                return heard;
            }
        }
    }
}
