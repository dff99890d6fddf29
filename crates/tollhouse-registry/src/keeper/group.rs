//! A group of commands that the keeper commits together. Each command is applied to the group's
//! state at once; its writes and events are collected, and published only after the commit.

use crate::command::{Command, Outcome};
use crate::event::InstanceEvent;
use crate::journal::Journal;
use crate::refusal::Refusal;
use crate::registry::Waiter;
use crate::state::{Change, State};

/// Bytes of writes after which a group is committed even if more commands wait: a fraction of the
/// store's largest transaction.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Commands that are committed together. Refusals wait for the commit too, because they may depend
/// on what it makes true.
pub(super) struct Group {
    pub(super) state: State,
    pub(super) journal: Journal,
    pub(super) now_ms: u64,
    pub(super) applied: Vec<AppliedCommand>,
    pub(super) events: Vec<InstanceEvent>,
    /// Whether the state includes all commits that any node had made when the commands came.
    pub(super) is_current: bool,
}

/// A command with its outcome, kept so that it can be applied again in another group.
pub(super) struct AppliedCommand {
    pub(super) command: Command,
    pub(super) outcome: Result<Outcome, Refusal>,
    /// Whether the command changes any object.
    pub(super) has_written: bool,
    /// `None` for commands of the keeper itself, such as deletions by the cleaner.
    pub(super) waiter: Option<Waiter>,
}

impl Group {
    pub(super) fn new(state: State, journal: Journal, now_ms: u64) -> Self {
        let (applied, events) = (Vec::new(), Vec::new());
        Self { state, journal, now_ms, applied, events, is_current: false }
    }

    /// Whether the group should be committed before further commands join it.
    pub(super) fn is_full(&self) -> bool {
        self.journal.bytes() >= GROUP_BYTES_MAX
    }

    /// Applies a command on top of the previous ones.
    pub(super) fn apply(&mut self, command: Command, waiter: Option<Waiter>) {
        let bytes_before = self.journal.bytes();
        let mut change =
            Change { now_ms: self.now_ms, journal: &mut self.journal, events: &mut self.events };
        let outcome = self.state.apply(command.clone(), &mut change);
        let has_written = self.journal.bytes() > bytes_before;
        self.applied.push(AppliedCommand { command, outcome, has_written, waiter });
    }
}
