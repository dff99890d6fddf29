//! Small blocking HTTP/1.1 client for probes, idle connections, the load of the instruction count
//! (`gate.rs`), and writes through the Admin API.
//!
//! Supports only responses framed by `Content-Length`, which the origins of the bench send.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Maximum size of a response head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a response body, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum time to wait for a response. Long, because a program under valgrind is slow.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Builds a GET request with additional header lines, each ended by CR LF.
pub(crate) fn get_request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n")
}

/// Builds a GET request with `Connection: close`, for checks whether a server answers.
pub(crate) fn probe(path: &str, lines: &str) -> String {
    get_request(path, &format!("{lines}Connection: close\r\n"))
}

/// A persistent connection.
pub(crate) struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Connects to a port of this machine.
    pub(crate) fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("connecting to port {port}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self { stream })
    }

    /// Sends a request and returns the status of its response; the body is discarded.
    pub(crate) fn get(&mut self, path: &str) -> Result<u16> {
        self.exchange(get_request(path, "").as_bytes())
    }

    /// Sends a complete request and returns the status of its response.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.send(request)?;
        self.receive()
    }

    /// Sends a complete request as given.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).context("sending a request")
    }

    /// Reads one complete response and returns its status.
    pub(crate) fn receive(&mut self) -> Result<u16> {
        Ok(self.receive_answer()?.0)
    }

    /// Reads one complete response and returns its status and body.
    pub(crate) fn receive_answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let mut buffer = Vec::with_capacity(4096);
        let head_end = loop {
            if let Some(end) = find_head_end(&buffer) {
                break end;
            }
            if buffer.len() > HEAD_BYTES_MAX {
                bail!("an answer's head of more than {HEAD_BYTES_MAX} bytes");
            }
            self.read_more(&mut buffer)?;
        };
        let (status, body_length) = parse_head(&buffer[..head_end])?;
        if body_length > BODY_BYTES_MAX {
            bail!("a body of more than {BODY_BYTES_MAX} bytes");
        }
        while buffer.len() < head_end + body_length {
            self.read_more(&mut buffer)?;
        }
        buffer.drain(..head_end);
        Ok((status, buffer))
    }

    /// Sends a request with a JSON body, and returns the status and body of its response. `start` is
    /// the method and the path, `lines` are further header lines.
    pub(crate) fn send_json(
        &mut self,
        start: &str,
        lines: &str,
        body: &Value,
    ) -> Result<(u16, Vec<u8>)> {
        let body = body.to_string();
        let length = body.len();
        self.send(
            format!(
                "{start} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )?;
        self.receive_answer()
    }

    fn read_more(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let mut chunk = [0_u8; 16 * 1024];
        let count = self.stream.read(&mut chunk).context("reading an answer")?;
        if count == 0 {
            bail!("the connection was closed before the answer ended");
        }
        buffer.extend_from_slice(&chunk[..count]);
        Ok(())
    }
}

/// Distributes the numbers below `count` over clients, each with its own connection. Returns the
/// time until the last number was processed.
pub(crate) fn distribute(
    clients: usize,
    port: u16,
    count: usize,
    act: impl Fn(&mut Connection, usize) -> Result<()> + Sync,
) -> Result<Duration> {
    let next = AtomicUsize::new(0);
    let mut connections: Vec<Connection> =
        (0..clients).map(|_| Connection::open(port)).collect::<Result<_>>()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|connection| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        // Relaxed ordering suffices, because the counter publishes no other data.
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return Ok(());
                        }
                        act(connection, number)?;
                    }
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(start.elapsed())
}

fn find_head_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Returns the status and content length of a response head.
fn parse_head(head: &[u8]) -> Result<(u16, usize)> {
    let text = std::str::from_utf8(head).context("a head that is not text")?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("no status in `{status_line}`"))?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().parse().context("a length that is not a number"))
        .transpose()?;
    match length {
        Some(length) => Ok((status, length)),
        None if matches!(status, 204 | 304) => Ok((status, 0)),
        None => bail!("an answer without Content-Length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_give_status_and_length() {
        let cases: [(&str, Option<(u16, usize)>); 5] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Some((200, 5))),
            ("HTTP/1.1 404 Not Found\r\nX: y\r\ncontent-length:0\r\n\r\n", Some((404, 0))),
            ("HTTP/1.1 204 No Content\r\n\r\n", Some((204, 0))),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None),
            ("nonsense\r\n\r\n", None),
        ];
        for (head, expected) in cases {
            assert_eq!(parse_head(head.as_bytes()).ok(), expected, "{head}");
        }
    }

    #[test]
    fn an_unfinished_head_has_no_end() {
        assert_eq!(find_head_end(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(find_head_end(b"A\r\n\r\nbody"), Some(5));
    }
}
