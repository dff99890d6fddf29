//! A group: commands on their way into one commit.

use tokio::sync::oneshot;

use crate::command::{Command, Outcome};
use crate::health::Touched;
use crate::journal::Journal;
use crate::refusal::Refusal;
use crate::registry::QueueShare;
use crate::state::{Change, State};

/// Bytes of writes after which a group is committed although more commands wait: a fraction of what
/// the store takes in one transaction.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) type Reply = oneshot::Sender<Result<Outcome, Refusal>>;

/// See the module. Refusals wait with the rest: they may rest on what the commit makes true.
pub(super) struct Group {
    pub(super) state: State,
    pub(super) journal: Journal,
    pub(super) now_ms: u64,
    pub(super) done: Vec<Done>,
    pub(super) touched: Vec<Touched>,
}

/// A command with what came of it, kept to be done again without the others.
pub(super) struct Done {
    pub(super) command: Command,
    /// Nobody waits for what the keeper does of its own accord.
    pub(super) reply: Option<Reply>,
    pub(super) outcome: Result<Outcome, Refusal>,
    pub(super) share: Option<QueueShare>,
}

impl Group {
    /// A group of no commands yet, over this state.
    pub(super) fn new(state: State, now_ms: u64) -> Self {
        let (done, touched) = (Vec::new(), Vec::new());
        Self { state, journal: Journal::default(), now_ms, done, touched }
    }

    /// Whether it should be committed before more joins it.
    pub(super) fn is_full(&self) -> bool {
        self.journal.bytes() >= GROUP_BYTES_MAX
    }

    /// Does a command after the others.
    pub(super) fn apply(
        &mut self,
        command: Command,
        reply: Option<Reply>,
        share: Option<QueueShare>,
    ) {
        let mut change =
            Change { now_ms: self.now_ms, journal: &mut self.journal, touched: &mut self.touched };
        let outcome = self.state.apply(command.clone(), &mut change);
        self.done.push(Done { command, reply, outcome, share });
    }
}
