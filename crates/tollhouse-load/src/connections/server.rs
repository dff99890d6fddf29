//! Our own server: accepts on many ports, echoes every byte, and answers HTTP requests with a
//! two-byte body. An idle connection holds no buffer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::connections::identity;
use crate::connections::message::{FinalReport, Loss, ServeOrder, Tally};
use crate::connections::opening::loss_of;
use crate::error::BenchError;
use crate::result::FirstError;

/// Accept backlog, the maximum; the kernel reduces it to `somaxconn`.
const LISTEN_QUEUE: u32 = 65_535;
/// Pause after `accept` fails, for example for lack of descriptors, because an immediate retry
/// would fail again.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// Size of the read buffer, shared by all connections of a process.
const SCRATCH_BYTES: usize = 16 * 1024;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
/// End of a request head; the expected requests have no body.
const HEAD_END: &[u8] = b"\r\n\r\n";

pub(super) struct Server {
    tls: Option<TlsAcceptor>,
    began: Instant,
    tally: RefCell<Tally>,
    scratch: RefCell<Vec<u8>>,
}

/// A server that listens but does not accept yet.
pub(super) struct Listening {
    pub(super) server: Rc<Server>,
    pub(super) listeners: Vec<TcpListener>,
    pub(super) addresses: Vec<SocketAddr>,
}

/// Protocol of a connection, detected from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    Unknown,
    /// HTTP; holds the number of matched bytes of the end of a head.
    Http(usize),
    Bytes,
}

impl Server {
    pub(super) fn bind(order: &ServeOrder) -> Result<Listening, BenchError> {
        let mut listeners = Vec::with_capacity(order.addresses.len());
        let mut addresses = Vec::with_capacity(order.addresses.len());
        for address in &order.addresses {
            let listener = listen(*address).map_err(|error| cannot_listen(*address, &error))?;
            addresses.push(listener.local_addr().map_err(|error| cannot_listen(*address, &error))?);
            listeners.push(listener);
        }
        let server = Self {
            tls: order.is_tls.then(identity::acceptor).transpose()?,
            began: Instant::now(),
            tally: RefCell::default(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
        };
        Ok(Listening { server: Rc::new(server), listeners, addresses })
    }

    /// Accepts on one port forever, each connection in a separate task.
    pub(super) async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((tcp, _)) => {
                    let mut tally = self.tally.borrow_mut();
                    tally.attempted += 1;
                    tally.established += 1;
                    tally.open += 1;
                    drop(tally);
                    tokio::task::spawn_local(Rc::clone(&self).connection(tcp));
                }
                Err(error) => {
                    self.refused(&error);
                    tokio::time::sleep(PAUSE_AFTER_REFUSAL).await;
                }
            }
        }
    }

    fn refused(&self, error: &io::Error) {
        let mut tally = self.tally.borrow_mut();
        *tally.failed.entry(loss_of(error)).or_default() += 1;
        if tally.first_error.is_none() {
            let at_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let message = format!("the server end cannot accept: {error}");
            tally.first_error = Some(FirstError { at_ns, open: tally.open, message });
        }
    }

    async fn connection(self: Rc<Self>, tcp: TcpStream) {
        // Without it, responses wait for acknowledgements. Fails only if the socket is already
        // closed.
        let _ = tcp.set_nodelay(true);
        let ended = match &self.tls {
            None => self.serve(tcp).await,
            // Boxed, so that a plain connection does not reserve memory for a handshake.
            Some(acceptor) => match Box::pin(acceptor.accept(tcp)).await {
                Ok(stream) => self.serve(Box::new(stream)).await,
                Err(error) => Err(error),
            },
        };
        let loss = ended.as_ref().err().map_or(Loss::Closed, loss_of);
        let mut tally = self.tally.borrow_mut();
        tally.open -= 1;
        *tally.lost.entry(loss).or_default() += 1;
    }

    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let speech = Cell::new(Speech::Unknown);
        loop {
            let reply = poll_fn(|context| {
                // Borrowed during one poll only; no other task runs meanwhile.
                let mut scratch = self.scratch.borrow_mut();
                let mut buffer = ReadBuf::new(&mut scratch);
                Pin::new(&mut stream).poll_read(context, &mut buffer).map_ok(|()| {
                    let bytes = buffer.filled();
                    (!bytes.is_empty()).then(|| reply_to(&speech, bytes))
                })
            });
            let Some(reply) = reply.await? else { return Ok(()) };
            stream.write_all(&reply).await?;
            stream.flush().await?;
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.borrow().clone()
    }

    /// Returns the final counts.
    pub(super) fn done(&self) -> FinalReport {
        FinalReport { tally: self.tally(), ..FinalReport::default() }
    }
}

/// Returns the response to the received bytes.
fn reply_to(speech: &Cell<Speech>, bytes: &[u8]) -> Vec<u8> {
    let mut seen = match (speech.get(), bytes.first()) {
        (Speech::Http(seen), _) => seen,
        (Speech::Unknown, Some(b'A'..=b'Z')) => 0,
        _ => {
            speech.set(Speech::Bytes);
            return bytes.to_vec();
        }
    };
    let mut reply = Vec::new();
    for byte in bytes {
        seen = match *byte {
            byte if byte == HEAD_END[seen] => seen + 1,
            b'\r' => 1,
            _ => 0,
        };
        if seen == HEAD_END.len() {
            reply.extend_from_slice(ANSWER);
            seen = 0;
        }
    }
    speech.set(Speech::Http(seen));
    reply
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_QUEUE)
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> BenchError {
    BenchError::Machine(format!(
        "cannot listen on {address}: {error}; choose other ports with --base-port"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(pieces: &[&[u8]]) -> Vec<usize> {
        let speech = Cell::new(Speech::Unknown);
        pieces.iter().map(|piece| reply_to(&speech, piece).len() / ANSWER.len()).collect()
    }

    #[test]
    fn every_head_gets_one_answer_however_it_is_split() {
        let head: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(answers(&[head]), [1]);
        assert_eq!(answers(&[&[head, head].concat()]), [2]);
        for at in 1..head.len() {
            assert_eq!(answers(&[&head[..at], &head[at..]]), [0, 1], "split at {at}");
        }
        assert_eq!(answers(&[b"GET / HTTP/1.1\r\n\r\r\n\r\n"]), [1]);
    }

    #[test]
    fn other_bytes_come_back() {
        let speech = Cell::new(Speech::Unknown);
        assert_eq!(reply_to(&speech, b"."), b".");
        assert_eq!(reply_to(&speech, b"GET"), b"GET");
    }
}
