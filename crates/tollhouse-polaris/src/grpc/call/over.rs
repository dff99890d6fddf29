//! Ends of a call's waiting: the client's deadline, the timeout for the arrival of a message, and
//! the stop of the thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::grpc::limits::ARRIVAL_TIMEOUT;
use crate::grpc::service::Outcome;
use crate::grpc::status::{Code, Status};
use crate::grpc::stopping::Listener;

pub(super) struct Over {
    listener: Listener,
    deadline: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Timeout of the message that is arriving.
    arrival: Option<Pin<Box<Sleep>>>,
}

impl Over {
    pub(super) fn new(listener: Listener, time: Option<Duration>) -> Self {
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        Self { listener, deadline, sleep: None, arrival: None }
    }

    /// Becomes ready with the status if the deadline or the timeout has passed, or the thread
    /// stops.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.listener.has_begun(cx) {
            return Poll::Ready(Status::new(Code::Unavailable, "the server is stopping"));
        }
        let arrival = self.arrival.as_mut().map(|time| time.as_mut().poll(cx));
        if let Some(Poll::Ready(())) = arrival {
            let message = "the message did not arrive whole in time";
            return Poll::Ready(Status::new(Code::DeadlineExceeded, message));
        }
        self.poll_deadline(cx)
    }

    /// Starts the timeout for the rest of a message, unless it runs already.
    pub(super) fn expect_arrival(&mut self) {
        self.arrival.get_or_insert_with(|| Box::pin(sleep(ARRIVAL_TIMEOUT)));
    }

    pub(super) fn has_arrived(&mut self) {
        self.arrival = None;
    }

    pub(super) fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        let late = || Status::new(Code::DeadlineExceeded, "the time given is over");
        sleep.as_mut().poll(cx).map(|()| late())
    }

    /// Waits for an outcome, up to the deadline.
    pub(super) async fn within_deadline(
        &mut self,
        mut outcome: Pin<Box<dyn Future<Output = Outcome>>>,
    ) -> Outcome {
        poll_fn(|cx| match outcome.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => self.poll_deadline(cx).map(Err),
        })
        .await
    }
}
