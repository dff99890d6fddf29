//! HTTP/1 in a mock: reads requests completely and writes responses from prepared bytes.
//!
//! Requests of a connection are answered one after another; the latency of a pipelined request
//! begins when its turn comes. A waiting connection holds no buffer.

mod incoming;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::answers::{Answer, Persistence};
use super::wire::{Wire, poll_write_all};
use super::worker::{Outcome, Worker};
use incoming::{AnswerForm, Incoming, MockRequest, Step};

/// Size up to which responses to pipelined requests are sent together.
const TOGETHER_BYTES_MAX: usize = 64 * 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Continuation of a connection after HTTP/1.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    End,
    /// Reset by the mock, as an injected failure.
    Reset,
    /// HTTP/2; its preface has been received and is passed on.
    Http2,
    /// WebSocket handshake with this `Sec-WebSocket-Key`.
    WebSocket(String),
}

pub(super) struct Connection<'a, S> {
    worker: &'a Worker,
    stream: S,
    incoming: Incoming,
    /// Responses to pipelined requests, not yet sent.
    unsent: Vec<u8>,
}

impl<'a, S: Wire> Connection<'a, S> {
    pub(super) fn new(worker: &'a Worker, stream: S) -> Self {
        Self { worker, stream, incoming: Incoming::default(), unsent: Vec::new() }
    }

    /// Returns the stream, and bytes read from it but not yet processed.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        (self.stream, self.incoming.into_rest())
    }

    /// Answers requests until the connection ends.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub(super) async fn serve(&mut self) -> io::Result<After> {
        loop {
            match poll_fn(|context| self.poll_step(context)).await? {
                Step::More => return Ok(After::End),
                Step::Continue => self.send(CONTINUE, &[]).await?,
                Step::Malformed => {
                    self.worker.counts().malformed.add_one();
                    let answer = &self.worker.shared.answers.bad_request;
                    let [first, rest] = answer.message(Persistence::Ends);
                    self.send(first, rest).await?;
                    return self.end().await;
                }
                Step::Preface => return Ok(After::Http2),
                Step::Whole => {
                    if let Some(after) = self.answer().await? {
                        return Ok(after);
                    }
                }
            }
        }
    }

    /// Returns the next event on the connection; `More` at its end.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Step>> {
        loop {
            match self.incoming.step(self.worker) {
                Step::More => {}
                step => return Poll::Ready(Ok(step)),
            }
            if !self.unsent.is_empty() {
                ready!(self.poll_send_unsent(context))?;
            }
            let mut scratch = self.worker.scratch.borrow_mut();
            let mut read = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(Step::More));
            }
            match self.incoming.feed(self.worker, read.filled()) {
                Step::More => {}
                step => return Poll::Ready(Ok(step)),
            }
        }
    }

    /// Answers one request; `Some` if the connection serves no further one.
    async fn answer(&mut self) -> io::Result<Option<After>> {
        let worker = self.worker;
        worker.counts().requests.add_one();
        let verdict = worker.verdict();
        let due_ns = worker.due_ns();
        if due_ns.is_some() {
            // Earlier responses of a pipeline are sent before this one waits.
            self.send(&[], &[]).await?;
            worker.until(due_ns).await?;
        }
        let MockRequest { form, standing, echo, websocket_key } = self.incoming.take();
        let answer = match worker.shared.outcome(worker, verdict, standing) {
            Outcome::Reset => return Ok(Some(After::Reset)),
            Outcome::Other(answer) => answer,
            Outcome::Asked(answer) => {
                if let Some(key) = websocket_key {
                    self.send(&[], &[]).await?;
                    return Ok(Some(After::WebSocket(key.into())));
                }
                if let Some(echo) = echo {
                    let answers = &worker.shared.answers;
                    let answer =
                        answers.echo(answer.status, echo.kind.as_deref(), echo.body.into());
                    return self.send_answer(&answer, form).await;
                }
                answer
            }
        };
        self.send_answer(answer, form).await
    }

    async fn send_answer(
        &mut self,
        answer: &Answer,
        form: AnswerForm,
    ) -> io::Result<Option<After>> {
        let ends = form.persistence == Persistence::Ends;
        let [first, rest] = match form.is_head {
            true => answer.head(form.persistence),
            false => answer.message(form.persistence),
        };
        let is_short = rest.is_empty() && self.unsent.len() < TOGETHER_BYTES_MAX;
        if is_short && !ends && self.incoming.has_more() {
            // Another request has already arrived, so that the responses are sent together.
            self.unsent.extend_from_slice(first);
            return Ok(None);
        }
        self.send(first, rest).await?;
        if ends { self.end().await.map(Some) } else { Ok(None) }
    }

    /// Sends the pending responses, followed by these parts.
    async fn send(&mut self, first: &[u8], rest: &[u8]) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let mut parts = [&unsent[..], first, rest];
        poll_fn(|context| {
            for part in &mut parts {
                ready!(poll_write_all(&mut self.stream, context, part))?;
            }
            Pin::new(&mut self.stream).poll_flush(context)
        })
        .await
    }

    fn poll_send_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..written);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    async fn end(&mut self) -> io::Result<After> {
        poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await?;
        Ok(After::End)
    }
}
