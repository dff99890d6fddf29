//! Origin for the instruction count (`gate.rs`) and for the training of published binaries
//! (`train.rs`). Answers every request with 128 bytes; each connection has a thread.
//!
//! The origin runs inside this program, so that the instruction count needs no other program than
//! valgrind. It supports only the framing of bodies that the gateway and the requests of this crate
//! use.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const BODY_BYTES: usize = 128;
/// Maximum size of a request in bytes, large enough for those of a proxy and for a batch of spans. A
/// larger request ends the connection.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// A running origin, whose threads end with the program.
pub(crate) struct Origin {
    port: u16,
}

impl Origin {
    /// Starts an origin on a free port.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream));
            }
        });
        Ok(Self { port })
    }

    /// Returns the port that the origin listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Answers requests until the peer closes the connection; errors end the connection and are
/// ignored.
fn serve(mut stream: TcpStream) {
    let body = "x".repeat(BODY_BYTES);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: text/plain\r\n\
         Content-Length: {BODY_BYTES}\r\n\r\n{body}"
    );
    drop(stream.set_nodelay(true));
    let mut buffer = Vec::with_capacity(4096);
    let mut chunk = [0_u8; 4096];
    loop {
        while let Some(end) = request_end(&buffer) {
            buffer.drain(..end);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 && buffer.len() + count <= REQUEST_BYTES_MAX => {
                buffer.extend_from_slice(&chunk[..count]);
            }
            _ => return,
        }
    }
}

fn request_end(buffer: &[u8]) -> Option<usize> {
    let head_end = find(buffer, b"\r\n\r\n")?;
    let head = buffer[..head_end].to_ascii_lowercase();
    if let Some(at) = find(&head, b"\r\ncontent-length: ") {
        let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        return (buffer.len() >= head_end + length).then_some(head_end + length);
    }
    if find(&head, b"\r\ntransfer-encoding: chunked").is_some() {
        return Some(head_end + find(&buffer[head_end..], b"\r\n0\r\n\r\n")?);
    }
    Some(head_end)
}

/// Returns the index after the first occurrence of `needle`.
fn find(buffer: &[u8], needle: &[u8]) -> Option<usize> {
    buffer.windows(needle.len()).position(|window| window == needle).map(|at| at + needle.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let cases: [(&str, Option<usize>); 7] = [
            ("GET / HTTP/1.1\r\nHost: a\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", Some(27)),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", None),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", Some(41)),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", None),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", Some(58)),
            ("", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(request_end(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }
}
