//! Small HTTP server for tests: records requests and sends configured answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum wait for a request; a test that waits longer fails.
const PATIENCE: Duration = Duration::from_secs(10);

type Answer = dyn Fn(&str) -> String + Send + Sync;

/// Test server; its threads end with their connections.
pub(crate) struct TestServer {
    address: SocketAddr,
    requests: Mutex<Receiver<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

impl TestServer {
    /// Starts a server that answers each request with the bytes from `answer`. An empty text closes
    /// the connection.
    pub(crate) fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let (sender, requests) = mpsc::channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (answer, count): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, sender) = (Arc::clone(&answer), sender.clone());
                std::thread::spawn(move || serve(stream, &answer, &sender));
            }
        });
        Self { address, requests: Mutex::new(requests), connections }
    }

    /// Starts a server that answers 200 with an empty body.
    pub(crate) fn ok() -> Self {
        Self::start(|_| reply(200, "", ""))
    }

    /// Returns the address of `path` on this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the next request as text.
    pub(crate) fn next_request(&self) -> String {
        String::from_utf8_lossy(&self.next_bytes()).into_owned()
    }

    /// Returns the next request as it arrived.
    pub(crate) fn next_bytes(&self) -> Vec<u8> {
        let requests = self.requests.lock().expect("no test panicked here");
        requests.recv_timeout(PATIENCE).expect("a request")
    }

    /// Returns the number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Builds an answer with additional header lines, each ending with CRLF.
pub(crate) fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Returns the value of a request's header.
pub(crate) fn header<'r>(request: &'r str, name: &str) -> Option<&'r str> {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Returns the body of a request.
pub(crate) fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn serve(mut stream: TcpStream, answer: &Arc<Answer>, sender: &Sender<Vec<u8>>) {
    let mut kept = Vec::new();
    while let Some(request) = next(&mut stream, &mut kept) {
        let answered = answer(&String::from_utf8_lossy(&request));
        // The test may have ended already.
        let _ = sender.send(request);
        if answered.is_empty() || stream.write_all(answered.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads one request with its body.
fn next(stream: &mut TcpStream, kept: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(head) = kept.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&kept[..head]);
            let length =
                header(&text, "content-length").map_or(0, |text| text.parse().unwrap_or(0));
            let end = head + 4 + length;
            if kept.len() >= end {
                return Some(kept.drain(..end).collect());
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(bytes) => kept.extend_from_slice(&piece[..bytes]),
        }
    }
}
