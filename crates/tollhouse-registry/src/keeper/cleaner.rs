//! Deletion of objects that were unused for long, if enabled: instances that stay unhealthy,
//! services that were created by an instance and have none left, then empty namespaces and orphaned
//! contracts. Unauthenticated clients may fill these tables to their bounds; the cleaner empties
//! them again.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use crate::clock::milliseconds;
use crate::command::Command;
use crate::key::ServiceKey;
use crate::limits::{CLEAN_UP_INTERVAL, COMMANDS_BATCHED_MAX, HEALTH_TICK};
use crate::rule::RuleKind;
use crate::state::State;

/// Deletion delays; `None` keeps the objects, which is the default as in Polaris.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanUp {
    /// Delay for instances that have not become healthy again.
    pub unhealthy_after: Option<Duration>,
    /// Delay for services without instances and aliases, namespaces without services, rules and
    /// files, both only if no field was ever written by a caller, and for contracts of missing
    /// services.
    pub empty_services_after: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Cleaner {
    what: CleanUp,
    due_at_ms: u64,
    services: IdleObjects<ServiceKey>,
    namespaces: IdleObjects<Arc<str>>,
    contracts: IdleObjects<Arc<str>>,
}

/// Unused objects, and since when each is unused. An object that is used again is dropped.
#[derive(Debug)]
struct IdleObjects<K> {
    since_ms: HashMap<K, u64>,
}

impl<K: Eq + Hash + Clone> IdleObjects<K> {
    fn new() -> Self {
        Self { since_ms: HashMap::new() }
    }

    /// Replaces the set of unused objects, and returns those that have been unused for at least
    /// `after`.
    fn long(&mut self, now: impl Iterator<Item = K>, now_ms: u64, after: Duration) -> Vec<K> {
        let before = std::mem::take(&mut self.since_ms);
        let since = |key: K| {
            let since_ms = before.get(&key).copied().unwrap_or(now_ms);
            (key, since_ms)
        };
        self.since_ms = now.map(since).collect();
        let is_due = |since_ms: u64| since_ms.saturating_add(milliseconds(after)) <= now_ms;
        let due = self.since_ms.iter().filter(|(_, since_ms)| is_due(**since_ms));
        due.map(|(key, _)| key.clone()).collect()
    }
}

impl Cleaner {
    pub(super) fn new(what: CleanUp, now_ms: u64) -> Self {
        let due_at_ms = now_ms + milliseconds(CLEAN_UP_INTERVAL);
        let (services, namespaces, contracts) =
            (IdleObjects::new(), IdleObjects::new(), IdleObjects::new());
        Self { what, due_at_ms, services, namespaces, contracts }
    }

    /// Returns the time of the next run; `None` if nothing is enabled.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        (self.what != CleanUp::default()).then_some(self.due_at_ms)
    }

    /// Returns the deletions that are due, at most as many as fit into one commit.
    pub(super) fn due(&mut self, state: &State, now_ms: u64) -> Vec<Command> {
        if now_ms < self.due_at_ms || self.what == CleanUp::default() {
            return Vec::new();
        }
        self.due_at_ms = now_ms + milliseconds(CLEAN_UP_INTERVAL);
        let mut commands = Vec::new();
        if let Some(after) = self.what.unhealthy_after {
            commands.extend(long_unhealthy(state, now_ms, after));
        }
        if let Some(after) = self.what.empty_services_after {
            commands.extend(self.long_empty(state, now_ms, after));
        }
        if commands.len() > COMMANDS_BATCHED_MAX {
            // The rest follows after a tick, so that waiting commands go first.
            commands.truncate(COMMANDS_BATCHED_MAX);
            self.due_at_ms = now_ms + milliseconds(HEALTH_TICK);
        }
        commands
    }

    fn long_empty(&mut self, state: &State, now_ms: u64, after: Duration) -> Vec<Command> {
        let services = self.services.long(empty_services(state), now_ms, after);
        let namespaces = self.namespaces.long(empty_namespaces(state), now_ms, after);
        let contracts = self.contracts.long(orphaned_contracts(state), now_ms, after);
        let commands = services.into_iter().map(Command::DeleteService);
        let commands = commands.chain(contracts.into_iter().map(Command::DeleteContract));
        commands.chain(namespaces.into_iter().map(Command::DeleteNamespace)).collect()
    }
}

fn empty_services(state: &State) -> impl Iterator<Item = ServiceKey> {
    let empty = state.services().filter(|view| view.counts.total == 0).map(|view| &view.service);
    let unneeded =
        empty.filter(|service| service.is_unwritten() && !state.has_aliases(&service.key));
    unneeded.map(|service| service.key.clone())
}

fn empty_namespaces(state: &State) -> impl Iterator<Item = Arc<str>> {
    let with_rules: HashSet<&str> = RuleKind::ALL
        .iter()
        .flat_map(|kind| state.rules(*kind))
        .map(|rule| &*rule.namespace)
        .collect();
    let empty =
        state.namespaces().filter(|view| view.services.is_empty() && view.aliases.is_empty());
    let empty = empty.filter(|view| view.config_groups().next().is_none());
    let unneeded = empty.map(|view| &view.namespace).filter(move |namespace| {
        namespace.is_unwritten()
            && !namespace.is_built_in()
            && !with_rules.contains(&*namespace.name)
    });
    unneeded.map(|namespace| Arc::clone(&namespace.name))
}

/// Returns the ids of contracts whose service does not exist. A contract may be reported before the
/// first instance registers; the delay covers that time.
fn orphaned_contracts(state: &State) -> impl Iterator<Item = Arc<str>> {
    let orphaned =
        state.contracts().filter(|contract| state.resolve(contract.service.borrowed()).is_none());
    orphaned.map(|contract| Arc::clone(&contract.id))
}

/// Returns the commands that remove instances whose health is checked and that have been unhealthy
/// and unchanged for `after`.
fn long_unhealthy(state: &State, now_ms: u64, after: Duration) -> impl Iterator<Item = Command> {
    let silent = state.instances().filter(move |instance| {
        let changed_ms = instance.modified_at.saturating_mul(1_000);
        instance.awaits_heartbeat() && changed_ms.saturating_add(milliseconds(after)) <= now_ms
    });
    silent.map(|instance| Command::Deregister(instance.id.clone()))
}
