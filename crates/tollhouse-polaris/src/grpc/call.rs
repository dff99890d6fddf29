//! A call, from its head to its status.
//!
//! A unary call whose message has arrived and whose handler need not wait is completed within
//! [`begin`], without a task or another turn of the connection. Every other call is a task; the
//! client's deadline and the stop of the thread end its waiting.

mod admission;
mod over;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{coop, spawn_local};
use tollhouse_h2::StreamId;
use tollhouse_trace::{CallSpan, Key, SpanStatus};

use super::accept::Server;
use super::budget::Waiting;
use super::connection::Link;
use super::fields::{Fields, Head};
use super::inbox::{Inbox, InboxFailure};
use super::messages::Message;
use super::outbox::Outbox;
use super::service::{Call, Handler, Method, Outcome, Reply, Series, SeriesHandler};
use super::session::{CallStream, ClientGone};
use super::status::{Code, Status};
use admission::{Refusal, admit, refuse};
use over::Over;

/// State of a call in progress, for every kind of method.
struct Running {
    link: Rc<Link>,
    call: Rc<Call>,
    inbox: Inbox,
    outbox: Outbox,
    over: Over,
    /// Wait of the handler, once the call waits.
    waiting: Option<Waiting>,
    /// Span of the call, if it is recorded.
    span: Option<CallSpan>,
}

/// A call whose head has arrived.
pub(super) struct IncomingCall {
    stream: StreamId,
    admitted: Result<(Method, Option<Duration>), Refusal>,
    fields: Fields,
    span: Option<CallSpan>,
}

impl IncomingCall {
    /// Checks the head, and takes its fields; the head can then be reused.
    pub(super) fn new(server: &Server, stream: StreamId, head: &mut Head) -> Self {
        let admitted = admit(server, head);
        let span = server.tracer.as_ref().filter(|_| admitted.is_ok()).and_then(|tracer| {
            let name = || String::from_utf8_lossy(&head.path).trim_start_matches('/').to_owned();
            CallSpan::begin(tracer, name, &|name| head.fields.find(name))
        });
        Self { stream, admitted, fields: head.take_fields(), span }
    }
}

/// Begins a call, and completes it if nothing has to be waited for.
pub(super) fn begin(link: &Rc<Link>, begun: IncomingCall, cx: &mut Context<'_>) {
    link.server.counts.calls.add_one();
    let stream = CallStream::new(&link.session, begun.stream);
    let (method, time) = match begun.admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(link, refusal, stream),
    };
    let budget = link.budget.clone();
    let mut running = Running {
        inbox: Inbox::new(&budget, link.server.message_bytes_max),
        outbox: Outbox::new(stream, budget),
        over: Over::new(link.server.stopping.listener(), time),
        call: Rc::new(Call::new(link.peer, begun.fields)),
        link: Rc::clone(link),
        waiting: None,
        span: begun.span,
    };
    match method {
        // Polled at once, because a short message usually comes in the same segment as its head,
        // and a call that is answered here needs no task.
        Method::Unary(handler) => match running.poll_only(cx) {
            Poll::Pending => running.wait(|running| running.unary(handler)),
            Poll::Ready(Err(broken)) => running.end(Err(broken)),
            Poll::Ready(Ok(message)) => {
                let bytes = message.bytes.clone();
                match running.ask(&*handler, bytes) {
                    Reply::Now(outcome) => running.answer_only(outcome),
                    Reply::Later(outcome) => {
                        running.wait(|running| running.wait_only(message, outcome));
                    }
                }
            }
        },
        Method::Each(handler) => running.wait(|running| running.each(handler)),
        Method::Series(handler) => running.wait(|running| running.series(handler)),
    }
}

/// Records the outcome of a call (semantic conventions for gRPC servers).
fn record(span: CallSpan, status: &Status) {
    let is_fault = matches!(
        status.code,
        Code::DeadlineExceeded | Code::Unimplemented | Code::Internal | Code::Unavailable
    );
    let outcome = if is_fault { SpanStatus::Error(&status.message) } else { SpanStatus::Unset };
    span.end(outcome, |span| {
        span.text(Key::RpcSystem, b"grpc").number(Key::RpcGrpcStatusCode, status.code as u64);
    });
}

impl Running {
    /// Continues in a task, if the budget admits another waiting call.
    fn wait<F: Future<Output = ()> + 'static>(mut self, go_on: impl FnOnce(Self) -> F) {
        match self.link.budget.waiting(self.call.head_bytes()) {
            Ok(waiting) => {
                self.waiting = Some(waiting);
                drop(spawn_local(go_on(self)));
            }
            Err(status) => self.end(Err(InboxFailure::Refused(status))),
        }
    }

    /// Calls a handler; a panic fails this call only.
    fn ask(&self, handler: &Handler, message: Bytes) -> Reply {
        catch_unwind(AssertUnwindSafe(|| handler(&self.call, message))).unwrap_or_else(|_| {
            self.link.server.counts.panics.add_one();
            Reply::Now(Err(Status::new(Code::Internal, "the handler failed")))
        })
    }

    /// Ends the call with the status of `ended`.
    fn end(mut self, ended: Result<(), InboxFailure>) {
        let status = match ended {
            Ok(()) => Status::OK,
            Err(InboxFailure::Refused(status)) => status,
            Err(InboxFailure::Gone) => return,
        };
        if let Some(span) = self.span.take() {
            record(span, &status);
        }
        if status.code != Code::Ok {
            self.link.server.counts.calls_failed.add_one();
        }
        // Fails only if the client has gone; the status is not needed then.
        let _ = self.outbox.end(status);
    }

    /// Sends the only answer and ends the call.
    fn answer_only(mut self, outcome: Outcome) {
        let ended = self.send(outcome);
        self.end(ended);
    }

    /// Waits for the only answer. If the client cancels the call, the request to the registry still
    /// completes, and is charged to the budget until then.
    async fn wait_only(
        mut self,
        message: Message,
        outcome: Pin<Box<dyn Future<Output = Outcome>>>,
    ) {
        let outcome = match message.counted(&self.link.budget) {
            Ok(_counted) => self.over.within_deadline(outcome).await,
            Err(status) => Err(status),
        };
        self.answer_only(outcome);
    }

    async fn unary(mut self, handler: Rc<Handler>) {
        match self.only_message().await {
            Err(broken) => self.end(Err(broken)),
            Ok(message) => match self.ask(&*handler, message.bytes.clone()) {
                Reply::Now(outcome) => self.answer_only(outcome),
                Reply::Later(outcome) => self.wait_only(message, outcome).await,
            },
        }
    }

    async fn each(mut self, handler: Rc<Handler>) {
        let ended = self.answer_each(&*handler).await;
        self.end(ended);
    }

    async fn answer_each(&mut self, handler: &Handler) -> Result<(), InboxFailure> {
        while let Some(message) = poll_fn(|cx| self.poll_message(cx)).await? {
            let outcome = match self.ask(handler, message.bytes.clone()) {
                Reply::Now(outcome) => outcome,
                Reply::Later(outcome) => self.over.within_deadline(outcome).await,
            };
            drop(message);
            self.send(outcome)?;
            self.until_taken().await?;
            // Yields, so that a client with a thousand messages in its window does not starve
            // others.
            coop::consume_budget().await;
        }
        Ok(())
    }

    async fn series(mut self, handler: Rc<SeriesHandler>) {
        let ended = self.answer_series(&*handler).await;
        self.end(ended);
    }

    async fn answer_series(&mut self, handler: &SeriesHandler) -> Result<(), InboxFailure> {
        let message = self.only_message().await?;
        let mut series = handler(&self.call, message.bytes)?;
        self.outbox.open()?;
        while let Some(outcome) = poll_fn(|cx| self.poll_series(&mut *series, cx)).await? {
            self.send(outcome)?;
            self.until_taken().await?;
            coop::consume_budget().await;
        }
        Ok(())
    }

    fn poll_series(
        &mut self,
        series: &mut dyn Series,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Outcome>, InboxFailure>> {
        if let Poll::Ready(outcome) = series.poll_next(cx) {
            return Poll::Ready(Ok(outcome));
        }
        if let Poll::Ready(gone) = self.outbox.poll_gone(cx) {
            return Poll::Ready(Err(gone.into()));
        }
        self.over.poll(cx).map(|status| Err(InboxFailure::Refused(status)))
    }

    fn poll_only(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, InboxFailure>> {
        self.inbox.poll_only(self.outbox.stream(), cx)
    }

    async fn only_message(&mut self) -> Result<Message, InboxFailure> {
        poll_fn(|cx| match self.poll_only(cx) {
            Poll::Ready(message) => {
                self.over.has_arrived();
                Poll::Ready(message)
            }
            Poll::Pending => {
                self.over.expect_arrival();
                self.over.poll(cx).map(|status| Err(InboxFailure::Refused(status)))
            }
        })
        .await
    }

    fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Message>, InboxFailure>> {
        if let Poll::Ready(message) = self.inbox.poll_next(self.outbox.stream(), cx) {
            self.over.has_arrived();
            return Poll::Ready(message);
        }
        if self.inbox.is_within_message() {
            self.over.expect_arrival();
        }
        if let Poll::Ready(status) = self.over.poll(cx) {
            return Poll::Ready(Err(InboxFailure::Refused(status)));
        }
        // Some clients send nothing before they have received the response head.
        match self.outbox.open() {
            Ok(_) => Poll::Pending,
            Err(gone) => Poll::Ready(Err(gone.into())),
        }
    }

    fn send(&mut self, outcome: Outcome) -> Result<(), InboxFailure> {
        Ok(self.outbox.send(outcome?)??)
    }

    /// Waits until the client has read enough of the answer.
    async fn until_taken(&mut self) -> Result<(), InboxFailure> {
        if !self.outbox.is_full() {
            return Ok(());
        }
        poll_fn(|cx| match self.outbox.poll_taken(cx) {
            Poll::Ready(taken) => Poll::Ready(taken.map_err(InboxFailure::from)),
            Poll::Pending => {
                self.over.poll_deadline(cx).map(|status| Err(InboxFailure::Refused(status)))
            }
        })
        .await
    }
}

impl From<ClientGone> for InboxFailure {
    fn from(_: ClientGone) -> Self {
        Self::Gone
    }
}

impl From<Status> for InboxFailure {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}
