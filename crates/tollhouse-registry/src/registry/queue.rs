//! What waits for the keeper: commands, and unhealthy instances that were heard of again. Bounded in
//! number and in bytes; whoever comes when it is full is refused at once, since waiting would hold the
//! bytes all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::command::{Command, Outcome};
use crate::held_bytes::HeldBytes;
use crate::limits::{COMMANDS_QUEUED_BYTES_MAX, COMMANDS_QUEUED_MAX};
use crate::refusal::Refusal;

/// What the keeper is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// Do this, and answer.
    Command(Command, Waiter),
    /// The unhealthy instance of this id was heard of.
    Recover(Arc<str>),
}

/// Who waits for the outcome of a command, with the command's share of the queue's bytes: it counts until
/// its answer, not only until the keeper takes it out.
#[derive(Debug)]
pub(crate) struct Waiter {
    reply: oneshot::Sender<Result<Outcome, Refusal>>,
    _share: ByteShare,
}

/// The end of the queue that is written to; see the module.
#[derive(Debug, Clone)]
pub(crate) struct RequestQueue {
    sender: mpsc::Sender<Request>,
    bytes: Arc<AtomicUsize>,
}

/// The bytes of one command; given back when dropped.
#[derive(Debug)]
struct ByteShare {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl RequestQueue {
    /// An empty queue, and the end that the keeper reads.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(COMMANDS_QUEUED_MAX);
        (Self { sender, bytes: Arc::default() }, receiver)
    }

    /// Queues a command; its outcome comes over the channel.
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

    /// Queues an unhealthy instance that was heard of again; whether there was room.
    pub(crate) fn push_recovery(&self, id: &Arc<str>) -> bool {
        self.sender.try_send(Request::Recover(Arc::clone(id))).is_ok()
    }
}

impl Waiter {
    /// Answers. Nobody may be there any more to hear it.
    pub(crate) fn answer(self, outcome: Result<Outcome, Refusal>) {
        let _ = self.reply.send(outcome);
    }
}

impl ByteShare {
    fn take(held: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, Refusal> {
        let before = held.fetch_add(bytes, Ordering::Relaxed);
        // Made first, so that a refusal gives back what was added.
        let share = Self { held: Arc::clone(held), bytes };
        if before + bytes > COMMANDS_QUEUED_BYTES_MAX { Err(Refusal::Busy) } else { Ok(share) }
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
