//! Probe of a listener as a client would use it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Timeout of a probe, from connecting to the answer.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// First bytes of an HTTP/2 client: the preface, and settings without changes.
const HTTP2_OPENING: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// Length of an HTTP/2 frame header, and the offset of the frame type in it.
const HTTP2_HEAD_BYTES: usize = 9;
const HTTP2_KIND_AT: usize = 3;
const HTTP2_SETTINGS: u8 = 4;

#[derive(Debug)]
pub struct Probe {
    /// Protocol of the listener, for messages.
    pub what: &'static str,
    pub address: String,
    /// Time until the answer, or the reason of the failure.
    pub outcome: Result<Duration, String>,
}

/// Probes gRPC: the server must send HTTP/2 settings.
pub fn grpc(address: &str) -> Probe {
    let greeted = |stream: &mut TcpStream| {
        stream.write_all(HTTP2_OPENING)?;
        let mut head = [0; HTTP2_HEAD_BYTES];
        stream.read_exact(&mut head)?;
        if head[HTTP2_KIND_AT] == HTTP2_SETTINGS { Ok(()) } else { Err(other("no HTTP/2")) }
    };
    Probe { what: "gRPC", address: address.to_owned(), outcome: timed(address, greeted) }
}

/// Probes HTTP: `/` must answer 200.
pub fn http(address: &str) -> Probe {
    let answered = |stream: &mut TcpStream| {
        let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        if &start == b"HTTP/1.1 200" { Ok(()) } else { Err(other("it does not answer 200")) }
    };
    Probe { what: "HTTP", address: address.to_owned(), outcome: timed(address, answered) }
}

fn timed(
    address: &str,
    exchange: impl FnOnce(&mut TcpStream) -> io::Result<()>,
) -> Result<Duration, String> {
    let started = Instant::now();
    connect(address)
        .and_then(|mut stream| exchange(&mut stream))
        .map(|()| started.elapsed())
        .map_err(|error| error.to_string())
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = other("it has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PROBE_TIME_MAX) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PROBE_TIME_MAX))?;
                stream.set_write_timeout(Some(PROBE_TIME_MAX))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn other(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_must_speak_what_it_should() {
        let table: [(&[u8], bool, bool); 3] = [
            (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00 and more", true, false),
            (b"HTTP/1.1 200 OK\r\n\r\n", false, true),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", false, false),
        ];
        for (greeting, is_grpc, is_http) in table {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let address = listener.local_addr().expect("it is bound").to_string();
            let serving = std::thread::spawn(move || {
                for _ in 0..2 {
                    let (mut stream, _) = listener.accept().expect("a client comes");
                    stream.write_all(greeting).expect("the client reads");
                    let _ = stream.read(&mut [0; 256]);
                }
            });
            assert_eq!(grpc(&address).outcome.is_ok(), is_grpc);
            assert_eq!(http(&address).outcome.is_ok(), is_http);
            serving.join().expect("nobody panicked");
        }
    }
}
