//! The state by itself: commands, what readers see of them, and simulations against a plain model.

mod commands;
mod config;
mod identity;
mod simulation;
mod transfer;

use tollhouse_store::{Entry, Operation, Revision as StoreRevision};

use super::*;
use crate::command::NewInstance;
use crate::journal::LOADED;
use crate::limits::STATE_BYTES_MAX;

/// Some second of Unix time.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// Effects of a command before its commit.
pub(crate) struct Prepared {
    state: State,
    journal: Journal,
    events: Vec<InstanceEvent>,
    outcome: Outcome,
}

/// State with the contents of its store and a clock.
pub(crate) struct Bench {
    pub(crate) state: State,
    pub(crate) now_ms: u64,
    pub(crate) durable: std::collections::BTreeMap<Box<str>, bytes::Bytes>,
    /// Events that have not been passed to health checking yet.
    pub(crate) events: Vec<InstanceEvent>,
    /// Number of restarts, so that each process has a different salt.
    restarts: std::cell::Cell<u64>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_memory(STATE_BYTES_MAX)
    }

    pub(crate) fn with_memory(bytes_max: usize) -> Self {
        Self {
            state: State::new(1, bytes_max),
            now_ms: START_MS,
            durable: Default::default(),
            events: Vec::new(),
            restarts: std::cell::Cell::new(1),
        }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Result<Outcome, Refusal> {
        let prepared = self.prepare(command)?;
        Ok(self.commit(prepared))
    }

    /// Applies a command to a copy of the state. Dropping the result corresponds to a refused
    /// commit.
    pub(crate) fn prepare(&self, command: Command) -> Result<Prepared, Refusal> {
        let (mut journal, mut events) = (Journal::default(), Vec::new());
        let mut state = self.state.clone();
        let mut change = Change { now_ms: self.now_ms, journal: &mut journal, events: &mut events };
        let outcome = state.apply(command, &mut change);
        if outcome.is_err() {
            assert!(journal.is_empty() && events.is_empty(), "a refused command does nothing");
        }
        outcome.map(|outcome| Prepared { state, journal, events, outcome })
    }

    pub(crate) fn commit(&mut self, prepared: Prepared) -> Outcome {
        self.write(prepared.journal);
        self.state = prepared.state;
        self.events.extend(prepared.events);
        prepared.outcome
    }

    /// Applies the writes of a journal to the store.
    pub(crate) fn write(&mut self, journal: Journal) {
        for operation in journal.into_transaction(StoreRevision::ZERO).operations {
            match operation {
                Operation::Put { key, value, .. } => drop(self.durable.insert(key, value)),
                Operation::Delete { key } => drop(self.durable.remove(&key)),
                Operation::DeletePrefix { .. } => panic!("nothing deletes by prefix"),
            }
        }
    }

    pub(crate) fn register(&mut self, new: NewInstance) -> Arc<Instance> {
        match self.apply(Command::Register(Box::new(new))) {
            Ok(Outcome::Instance(instance)) => instance,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the state after a restart.
    pub(crate) fn restarted(&self) -> State {
        let entries = self.durable.iter().map(|(key, value)| Entry {
            key: key.clone(),
            value: value.clone(),
            create_revision: StoreRevision(1),
            mod_revision: StoreRevision(1),
            expires_at_ms: None,
        });
        let entries: Vec<Entry> = entries.collect();
        self.restarts.set(self.restarts.get() + 1);
        let mut state = State::new(self.restarts.get(), STATE_BYTES_MAX);
        for prefix in LOADED {
            let part: Vec<_> =
                entries.iter().filter(|entry| entry.key.starts_with(prefix)).cloned().collect();
            assert_eq!(state.load(&part, self.now_ms), []);
        }
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
