//! WebSocket echo: every message is sent back after the latency; pings are answered at once; a
//! close frame is answered and ends the connection.
//!
//! Fragments are sent back as fragments. A waiting connection holds no buffer.

mod frame;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::ready;

use tokio::io::ReadBuf;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::choice::Verdict;
use super::wire::{Wire, poll_write_all};
use super::worker::Worker;
use frame::Frame;

/// Serves a connection after its handshake request; `read` holds the bytes after it.
pub(super) async fn serve<S: Wire>(worker: &Worker, stream: S, read: Vec<u8>, key: &str) {
    let mut socket = Socket { worker, stream, read, is_within_message: false };
    // Fails only if the client is gone.
    let _ = socket.serve(key).await;
}

struct Socket<'a, S> {
    worker: &'a Worker,
    stream: S,
    /// Received bytes of an incomplete frame.
    read: Vec<u8>,
    is_within_message: bool,
}

/// Continuation or end of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Serve,
    End,
}

impl<S: Wire> Socket<'_, S> {
    async fn serve(&mut self, key: &str) -> io::Result<()> {
        let accept = derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nserver: tollhouse-mock\r\nupgrade: websocket\r\n\
             connection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n"
        );
        self.send(head.as_bytes()).await?;
        loop {
            let next = match frame::parse(&self.read) {
                Ok(Some(frame)) => self.answer(&frame).await?,
                Ok(None) => self.receive().await?,
                Err(code) => self.close(code).await?,
            };
            if next == Next::End {
                return Ok(());
            }
        }
    }

    /// Reads more bytes; the end of the stream ends the connection.
    async fn receive(&mut self) -> io::Result<Next> {
        poll_fn(|context| {
            let mut scratch = self.worker.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            self.read.extend_from_slice(buffer.filled());
            let is_over = buffer.filled().is_empty();
            Ok(if is_over { Next::End } else { Next::Serve }).into()
        })
        .await
    }

    async fn answer(&mut self, frame: &Frame) -> io::Result<Next> {
        let mut out = Vec::with_capacity(frame.bytes());
        let opcode = if frame.opcode == frame::PING { frame::PONG } else { frame.opcode };
        frame.write_back(&self.read, opcode, &mut out);
        self.read.drain(..frame.bytes());
        if self.read.is_empty() {
            self.read = Vec::new();
        }
        match frame.opcode {
            frame::PONG => Ok(Next::Serve),
            frame::PING => self.send(&out).await,
            frame::CLOSE => self.end(&out).await,
            _ => self.answer_data(frame, &out).await,
        }
    }

    /// Sends a part of a message back; the last one after the latency.
    async fn answer_data(&mut self, frame: &Frame, out: &[u8]) -> io::Result<Next> {
        if (frame.opcode == frame::CONTINUATION) != self.is_within_message {
            return self.close(frame::PROTOCOL_ERROR).await;
        }
        self.is_within_message = !frame.is_final;
        if frame.is_final {
            let counts = self.worker.counts();
            counts.requests.add_one();
            let verdict = self.worker.verdict();
            self.worker.until(self.worker.due_ns()).await?;
            match verdict {
                Verdict::Answer(_) => {}
                Verdict::Error => {
                    counts.errors.add_one();
                    return self.close(frame::INTERNAL_ERROR).await;
                }
                Verdict::Reset => {
                    counts.resets.add_one();
                    self.stream.tcp().set_zero_linger()?;
                    return Ok(Next::End);
                }
            }
        }
        self.send(out).await
    }

    async fn close(&mut self, code: u16) -> io::Result<Next> {
        if code != frame::INTERNAL_ERROR {
            self.worker.counts().malformed.add_one();
        }
        let mut out = Vec::new();
        frame::write_close(&mut out, code);
        self.end(&out).await
    }

    async fn end(&mut self, out: &[u8]) -> io::Result<Next> {
        self.send(out).await?;
        poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await?;
        Ok(Next::End)
    }

    async fn send(&mut self, out: &[u8]) -> io::Result<Next> {
        let mut left = out;
        poll_fn(|context| {
            ready!(poll_write_all(&mut self.stream, context, &mut left))?;
            Pin::new(&mut self.stream).poll_flush(context)
        })
        .await?;
        Ok(Next::Serve)
    }
}
