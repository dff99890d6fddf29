//! Queue of requests for the keeper: commands, and unhealthy instances that were heard of again.
//! Bounded in number and in bytes. When it is full a command is refused at once, because a waiting
//! caller would hold the bytes as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::command::{Command, Outcome};
use crate::held_bytes::MemorySize;
use crate::limits::{COMMANDS_QUEUED_BYTES_MAX, COMMANDS_QUEUED_MAX};
use crate::refusal::Refusal;

/// Request to the task that changes the registry.
#[derive(Debug)]
pub(crate) enum Request {
    /// A command, and the caller that waits for its outcome.
    Command(Command, Waiter),
    /// Id of an unhealthy instance that was heard of again.
    Recover(Arc<str>),
}

/// Reply channel of a command. It holds the command's share of the queue's bytes until the answer,
/// not only until the keeper takes the command out.
#[derive(Debug)]
pub(crate) struct Waiter {
    reply: oneshot::Sender<Result<Outcome, Refusal>>,
    _share: ByteShare,
}

/// Sending end of the queue; see the module.
#[derive(Debug, Clone)]
pub(crate) struct RequestQueue {
    sender: mpsc::Sender<Request>,
    bytes: Arc<AtomicUsize>,
}

/// Share of one command in the queue's bytes; released on drop.
#[derive(Debug)]
struct ByteShare {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl RequestQueue {
    /// Creates an empty queue and its receiving end.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(COMMANDS_QUEUED_MAX);
        (Self { sender, bytes: Arc::default() }, receiver)
    }

    /// Queues a command; the receiver gets its outcome.
    pub(crate) fn push_command(
        &self,
        command: Command,
    ) -> Result<oneshot::Receiver<Result<Outcome, Refusal>>, Refusal> {
        let share = ByteShare::take(&self.bytes, command.held_bytes())?;
        let (reply, outcome) = oneshot::channel();
        let request = Request::Command(command, Waiter { reply, _share: share });
        match self.sender.try_send(request) {
            Ok(()) => Ok(outcome),
            Err(TrySendError::Full(_)) => Err(Refusal::Busy),
            Err(TrySendError::Closed(_)) => Err(Refusal::Closed),
        }
    }

    /// Queues an unhealthy instance that was heard of again. Returns whether there was room.
    pub(crate) fn push_recovery(&self, id: &Arc<str>) -> bool {
        self.sender.try_send(Request::Recover(Arc::clone(id))).is_ok()
    }
}

impl Waiter {
    /// Sends the outcome; ignored if the caller has gone.
    pub(crate) fn answer(self, outcome: Result<Outcome, Refusal>) {
        let _ = self.reply.send(outcome);
    }
}

impl ByteShare {
    fn take(held: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, Refusal> {
        let before = held.fetch_add(bytes, Ordering::Relaxed);
        // Created before the check, so that a refusal releases the added bytes.
        let share = Self { held: Arc::clone(held), bytes };
        if before + bytes > COMMANDS_QUEUED_BYTES_MAX { Err(Refusal::Busy) } else { Ok(share) }
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
