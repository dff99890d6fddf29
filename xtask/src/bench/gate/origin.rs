//! The origin of the gate: answers every request with 128 bytes, one thread a connection.
//!
//! Part of this program, so that the gate needs nothing but valgrind.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const BODY_BYTES: usize = 128;
/// A head of a request from a proxy fits; a larger one ends the connection.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A running origin; its threads end with the program.
pub(crate) struct Origin {
    port: u16,
}

impl Origin {
    /// Listens on a free port.
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

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Answers until the peer closes; an error is the end of the connection and of no interest.
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
        while let Some(end) = head_end(&buffer) {
            buffer.drain(..end);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 && buffer.len() + count <= HEAD_BYTES_MAX => {
                buffer.extend_from_slice(&chunk[..count]);
            }
            _ => return,
        }
    }
}

/// The requests of the gate have no body, so that a head is a request.
fn head_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}
