//! The state by itself: commands, what readers see of them, and simulations against a plain model.

mod commands;
mod simulation;

use tollhouse_store::{Entry, Operation, Revision as StoreRevision};

use super::*;
use crate::command::NewInstance;

/// Some second of Unix time.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// A state with what it made durable and its own clock.
pub(crate) struct Bench {
    pub(crate) state: State,
    pub(crate) now_ms: u64,
    pub(crate) durable: std::collections::BTreeMap<Box<str>, bytes::Bytes>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { state: State::new(1), now_ms: START_MS, durable: Default::default() }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Result<Outcome, Refusal> {
        let mut journal = Journal::default();
        let mut next = self.state.clone();
        let mut change = Change { now_ms: self.now_ms, journal: &mut journal };
        let outcome = next.apply(command, &mut change)?;
        for operation in journal.into_transaction().operations {
            match operation {
                Operation::Put { key, value, .. } => drop(self.durable.insert(key, value)),
                Operation::Delete { key } => drop(self.durable.remove(&key)),
                Operation::DeletePrefix { .. } => panic!("nothing deletes by prefix"),
            }
        }
        self.state = next;
        Ok(outcome)
    }

    pub(crate) fn register(&mut self, new: NewInstance) -> Arc<Instance> {
        match self.apply(Command::Register(Box::new(new))) {
            Ok(Outcome::Instance(instance)) => instance,
            other => panic!("{other:?}"),
        }
    }

    /// The state after a restart.
    pub(crate) fn restarted(&self) -> State {
        let entries = self.durable.iter().map(|(key, value)| Entry {
            key: key.clone(),
            value: value.clone(),
            create_revision: StoreRevision(1),
            mod_revision: StoreRevision(1),
            expires_at_ms: None,
        });
        let mut state = State::new(2);
        assert_eq!(state.load(entries.collect(), self.now_ms), []);
        state
    }
}

pub(crate) fn instance(id: &str, service: &str) -> NewInstance {
    NewInstance {
        id: id.into(),
        service: service.into(),
        namespace: "ns".into(),
        host: "10.0.0.1".into(),
        port: Some(80),
        ..NewInstance::default()
    }
}
