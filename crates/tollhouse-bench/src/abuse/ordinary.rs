//! Well-behaved client: one request at a time at a constant pace, with the latency of each.

use super::super::client::{Connection, get_request};
use super::super::measure::percentile;
use crate::shell;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Interval between two requests of the well-behaved client.
const INTERVAL: Duration = Duration::from_millis(5);
/// Time limit of a request; a slower one has failed.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Requests that the well-behaved client sends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ordinary {
    /// All requests use one connection.
    Kept { port: u16, path: &'static str },
    /// A new connection for each request.
    Fresh { port: u16, path: &'static str },
    /// A connection to the TLS port, up to the server's first message.
    Hello { port: u16 },
    /// A new datagram session for each request. The source address varies, because a gateway limits
    /// the number of sessions per address.
    Datagrams { port: u16 },
}

#[derive(Debug, Default)]
pub(super) struct Waits {
    sorted_us: Vec<f64>,
    pub(super) failures: u64,
}

impl Waits {
    /// Returns the 99th percentile of the latencies, including those of failed requests.
    pub(super) fn p99_us(&self) -> f64 {
        percentile(&self.sorted_us, 99)
    }

    pub(super) fn count(&self) -> usize {
        self.sorted_us.len()
    }
}

impl Ordinary {
    /// Sends requests for `time`, or until `is_over` is set.
    pub(super) fn run(&self, time: Duration, is_over: &AtomicBool) -> Result<Waits> {
        let mut waits = Waits::default();
        let mut kept = None;
        let begin = Instant::now();
        let mut due = begin;
        while due < begin + time && !is_over.load(Ordering::Relaxed) {
            shell::pause(due.saturating_duration_since(Instant::now()));
            let start = Instant::now();
            if self.ask(&mut kept).is_err() {
                waits.failures += 1;
                kept = None;
            }
            waits.sorted_us.push(start.elapsed().as_secs_f64() * 1e6);
            due = (due + INTERVAL).max(Instant::now());
        }
        waits.sorted_us.sort_by(f64::total_cmp);
        Ok(waits)
    }

    fn ask(&self, kept: &mut Option<Connection>) -> Result<()> {
        match *self {
            Self::Kept { port, path } => {
                let mut connection = match kept.take() {
                    Some(connection) => connection,
                    None => Connection::open(port)?,
                };
                expect_ok(connection.get(path)?)?;
                *kept = Some(connection);
                Ok(())
            }
            Self::Fresh { port, path } => {
                let request = get_request(path, "Connection: close\r\n");
                expect_ok(Connection::open(port)?.exchange(request.as_bytes())?)
            }
            Self::Hello { port } => say_hello(port),
            Self::Datagrams { port } => ask_by_datagram(port),
        }
    }
}

fn expect_ok(status: u16) -> Result<()> {
    if status == 200 { Ok(()) } else { bail!("status {status}") }
}

fn ask_by_datagram(port: u16) -> Result<()> {
    static QUESTIONS: AtomicU8 = AtomicU8::new(0);
    // All addresses of this network belong to this machine.
    let source = Ipv4Addr::new(127, 8, 0, QUESTIONS.fetch_add(1, Ordering::Relaxed).max(1));
    let socket = UdpSocket::bind((source, 0))?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    let mut answer = [0; 16];
    // Two datagrams are sent, so that the session is used more than once.
    for question in [b"one", b"two"] {
        socket.send_to(question, (Ipv4Addr::LOCALHOST, port))?;
        let bytes = socket.recv(&mut answer)?;
        if &answer[..bytes] != question {
            bail!("another answer");
        }
    }
    Ok(())
}

fn say_hello(port: u16) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(&client_hello())?;
    let mut record = [0; 6];
    stream.read_exact(&mut record).context("the server's first message")?;
    // The answer must be a handshake record with a ServerHello (RFC 8446, sections 4 and 5.1).
    if record[0] == 22 && record[5] == 2 { Ok(()) } else { bail!("no ServerHello: {record:?}") }
}

/// Returns a TLS 1.3 ClientHello for `bench.test` (RFC 8446, section 4.1.2). The key share is a
/// dummy, because the client ends the handshake after the ServerHello.
fn client_hello() -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &with_length(body)].concat();
    let name = [&[0][..], &with_length(b"bench.test")].concat();
    let key_share = [&[0, 29][..], &with_length(&[9; 32])].concat();
    let extensions = [
        extension(0, &with_length(&name)),
        // Groups: x25519.
        extension(10, &with_length(&[0, 29])),
        // Signatures: ecdsa_secp256r1_sha256, rsa_pss_rsae_sha256.
        extension(13, &with_length(&[4, 3, 8, 4])),
        // Versions: TLS 1.3.
        extension(43, &[2, 3, 4]),
        extension(51, &with_length(&key_share)),
    ]
    .concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        // TLS_AES_128_GCM_SHA256; no compression.
        &with_length(&[0x13, 0x01]),
        &[1, 0],
        &with_length(&extensions),
    ]
    .concat();
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hello_is_one_whole_record() {
        let hello = client_hello();
        assert_eq!(usize::from(u16::from_be_bytes([hello[3], hello[4]])), hello.len() - 5);
        assert_eq!(u32::from_be_bytes([0, hello[6], hello[7], hello[8]]) as usize, hello.len() - 9);
    }

    #[test]
    fn failures_count_with_the_time_they_took() {
        let waits = Waits { sorted_us: vec![1.0, 2.0, 2_000_000.0], failures: 1 };
        assert_eq!((waits.p99_us(), waits.count()), (2_000_000.0, 3));
    }
}
