//! A group: commands on their way into one commit.

use crate::command::{Command, Outcome};
use crate::event::InstanceEvent;
use crate::journal::Journal;
use crate::refusal::Refusal;
use crate::registry::Waiter;
use crate::state::{Change, State};

/// Bytes of writes after which a group is committed although more commands wait: a fraction of what
/// the store takes in one transaction.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// See the module. Refusals wait with the rest: they may rest on what the commit makes true.
pub(super) struct Group {
    pub(super) state: State,
    pub(super) journal: Journal,
    pub(super) now_ms: u64,
    pub(super) applied: Vec<Applied>,
    pub(super) events: Vec<InstanceEvent>,
    /// Whether the state has all that any node had done when the commands came.
    pub(super) is_current: bool,
}

/// A command with its outcome, kept to be applied again without the others.
pub(super) struct Applied {
    pub(super) command: Command,
    pub(super) outcome: Result<Outcome, Refusal>,
    /// Whether it changes anything.
    pub(super) has_written: bool,
    /// Nobody waits for what the keeper does of its own accord.
    pub(super) waiter: Option<Waiter>,
}

impl Group {
    /// A group of no commands yet, over this state.
    pub(super) fn new(state: State, journal: Journal, now_ms: u64, is_current: bool) -> Self {
        let (applied, events) = (Vec::new(), Vec::new());
        Self { state, journal, now_ms, applied, events, is_current }
    }

    /// Whether it should be committed before more joins it.
    pub(super) fn is_full(&self) -> bool {
        self.journal.bytes() >= GROUP_BYTES_MAX
    }

    /// Does a command after the others.
    pub(super) fn apply(&mut self, command: Command, waiter: Option<Waiter>) {
        let bytes_before = self.journal.bytes();
        let mut change =
            Change { now_ms: self.now_ms, journal: &mut self.journal, events: &mut self.events };
        let outcome = self.state.apply(command.clone(), &mut change);
        let has_written = self.journal.bytes() > bytes_before;
        self.applied.push(Applied { command, outcome, has_written, waiter });
    }
}
