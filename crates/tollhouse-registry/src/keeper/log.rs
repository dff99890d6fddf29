//! The log: the commits of all nodes that share the store, in their order. It applies them to the
//! state, to the members, and to the knowledge of heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::{Instant, sleep_until};
use tollhouse_stdx::{Backoff, Random};
use tollhouse_store::{
    Entry, Event, Lost, Revision, Store, StoreError, Transaction, Watch, WatchEvent,
};

use super::reading;
use super::session::{self, LocalMember, OwnDigest, OwnIdentity};
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::digest::{CALL, DIGESTS, Digest, Digests};
use crate::cluster::member::{self, BEATS, MEMBERS};
use crate::event::InstanceEvent;
use crate::journal::{Before, Journal, Record};
use crate::membership::Membership;
use crate::registry::Shared;
use crate::state::State;

/// Maximum wait before a failed reload is repeated.
const RELOAD_WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) struct Log {
    store: Arc<dyn Store>,
    cluster: Arc<Cluster>,
    identity: OwnIdentity,
    digest: OwnDigest,
    watch: Watch,
    /// Bound on the memory of the state, in bytes.
    memory_max: usize,
    /// Names of the members, by node.
    members: HashMap<NodeId, Box<str>>,
    /// Checksums that the members have reported.
    digests: Digests,
    /// Time of the next reload; set if commits were missed.
    reload_at: Option<Instant>,
    backoff: Backoff,
}

/// Options of the state that is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateOptions {
    /// Salt of revisions, which differs between processes.
    pub(super) salt: u64,
    /// Bound of the objects' memory, in bytes.
    pub(super) memory_max: usize,
}

/// Event that the applier must handle.
pub(super) enum LogEvent {
    /// Changes of one commit, in their order.
    Commit(Vec<Event>),
    /// An event without effect on the registry.
    Nothing,
    /// The state must be read again now.
    Reload,
}

/// Effects of several commits, combined.
#[derive(Default)]
pub(super) struct CommitEffects {
    /// Effects on instances.
    pub(super) events: Vec<InstanceEvent>,
    /// Whether members have joined or left.
    pub(super) has_new_members: bool,
}

impl Log {
    /// Reads the state and follows the store from there.
    pub(super) async fn open(
        store: Arc<dyn Store>,
        member: LocalMember,
        StateOptions { salt, memory_max }: StateOptions,
        now_ms: u64,
    ) -> Result<(Self, State), StoreError> {
        let LocalMember { cluster, identity, digest } = member;
        let watch = store.watch("", Revision::ZERO);
        let mut log = Self {
            store,
            cluster,
            identity,
            digest,
            watch,
            memory_max,
            members: HashMap::new(),
            digests: Digests::default(),
            reload_at: None,
            backoff: Backoff::default(),
        };
        let mut state = State::new(salt, memory_max);
        log.read(&mut state, now_ms).await?;
        log.write_built_in(&state).await?;
        Ok((log, state))
    }

    /// Stores the built-in namespaces if they are missing, so that all nodes use one version of
    /// them.
    async fn write_built_in(&mut self, state: &State) -> Result<(), StoreError> {
        for view in state.namespaces().filter(|view| view.namespace.is_built_in()) {
            let mut journal = Journal::guarded();
            if let Ok(record) = Record::namespace(&view.namespace) {
                journal.put(record, Before::Absent);
            }
            match self.store.commit(journal.into_transaction(Revision::ZERO)).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the store into an empty state, then applies what was committed meanwhile.
    async fn read(&mut self, state: &mut State, now_ms: u64) -> Result<CommitEffects, StoreError> {
        check_proof(&*self.store, &self.cluster).await?;
        let since = self.store.revision().await?;
        self.watch = self.store.watch("", since);
        reading::read_back(&*self.store, state, now_ms, Some(since)).await?;
        let mut folded = CommitEffects { has_new_members: true, ..CommitEffects::default() };
        self.read_members(now_ms).await?;
        for entry in self.store.list(BEATS).await?.entries {
            self.note_round(&entry, now_ms);
        }
        let newest = self.store.revision().await?;
        while self.watch.revision() < newest {
            match self.watch.next().await {
                WatchEvent::Commit(changes) => {
                    // The page that was read may be newer than this commit. An instance without its
                    // service is then deleted by a later commit.
                    let _ = state.fold(&changes.events, now_ms, &mut folded.events);
                    self.fold_members(&changes.events, now_ms);
                }
                WatchEvent::Progress(_) => {}
                WatchEvent::Lost(lost) => return Err(self.unreadable(&lost)),
            }
        }
        Ok(folded)
    }

    fn unreadable(&self, lost: &Lost) -> StoreError {
        StoreError::Unreachable { place: "the registry's store".into(), reason: lost.to_string() }
    }

    async fn read_members(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let entries = self.store.list(MEMBERS).await?.entries;
        let known = std::mem::take(&mut self.members);
        for entry in &entries {
            self.join(entry, now_ms);
        }
        for node in
            known.into_keys().filter(|node| !self.members.contains_key(node)).collect::<Vec<_>>()
        {
            self.cluster.evidence.leave(node, now_ms);
        }
        Ok(())
    }

    fn join(&mut self, entry: &Entry, now_ms: u64) {
        let Some(node) = member::node_of_key(&entry.key, MEMBERS) else { return };
        let name = member::name(entry).unwrap_or_default();
        self.cluster.evidence.join(node, now_ms);
        if self.members.insert(node, name.clone()).is_none() {
            tracing::info!(%node, %name, "a node keeps the registry");
        }
    }

    /// Applies changes of members. Returns whether members have joined or left.
    fn fold_members(&mut self, events: &[Event], now_ms: u64) -> bool {
        let mut has_changed = false;
        for event in events {
            match event {
                Event::Put(entry) if entry.key.starts_with(MEMBERS) => {
                    self.join(entry, now_ms);
                    has_changed = true;
                }
                Event::Delete { key, .. } if key.starts_with(MEMBERS) => {
                    self.leave(key, now_ms);
                    has_changed = true;
                }
                _ => {}
            }
        }
        has_changed
    }

    fn leave(&mut self, key: &str, now_ms: u64) {
        let Some(node) = member::node_of_key(key, MEMBERS) else { return };
        let Some(name) = self.members.remove(&node) else { return };
        if self.cluster.node() == Some(node) {
            self.cluster.evidence.set_own(None);
            self.identity.send_replace(None);
            return;
        }
        tracing::info!(%node, %name, "a node does not keep the registry any more");
        self.cluster.evidence.leave(node, now_ms);
    }

    fn note_round(&self, entry: &Entry, now_ms: u64) {
        // Only the number of the round is used. Its heartbeats are not needed, because all
        // instances of a state just read count as alive now.
        if let Some(node) = member::node_of_key(&entry.key, BEATS)
            && self.cluster.node() != Some(node)
            && let Some(round) = crate::cluster::rounds::Round::parse(&entry.value)
        {
            self.cluster.evidence.receive(node, &round, now_ms);
        }
    }

    /// Returns the revision up to which this node has read the log.
    pub(super) fn revision(&self) -> Revision {
        self.watch.revision()
    }

    /// Returns the revision of the store's newest commit.
    pub(super) fn newest(&self) -> impl Future<Output = Result<Revision, StoreError>> + use<> {
        let store = Arc::clone(&self.store);
        async move { store.revision().await }
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> LogEvent {
        if let Some(at) = self.reload_at {
            sleep_until(at).await;
            return LogEvent::Reload;
        }
        let event = self.watch.next().await;
        self.note(event)
    }

    /// Returns the next event if one is ready.
    pub(super) fn try_next(&mut self) -> Option<LogEvent> {
        if self.reload_at.is_some() {
            return None;
        }
        let event = self.watch.try_next()?;
        Some(self.note(event))
    }

    fn note(&mut self, event: WatchEvent) -> LogEvent {
        match event {
            WatchEvent::Commit(changes) => LogEvent::Commit(changes.events),
            WatchEvent::Progress(_) => LogEvent::Nothing,
            WatchEvent::Lost(lost) => {
                tracing::warn!(%lost, "the registry is read anew");
                self.reload_at = Some(Instant::now());
                LogEvent::Nothing
            }
        }
    }

    /// Applies the changes of one commit.
    pub(super) fn fold(
        &mut self,
        shared: &Shared,
        state: &mut State,
        events: &[Event],
        folded: &mut CommitEffects,
    ) {
        let now_ms = shared.clock.now_ms();
        for event in events {
            if let Event::Put(entry) = event
                && let Some(node) = member::node_of_key(&entry.key, BEATS)
            {
                session::take_in(shared, &self.cluster, node, &entry.value);
            }
        }
        folded.has_new_members |= self.fold_members(events, now_ms);
        state.fold(events, now_ms, &mut folded.events).iter().for_each(reading::log);
        self.compare(shared, state, events);
    }

    /// Answers a request for comparison with this node's checksum, and evaluates the checksums of
    /// others.
    fn compare(&mut self, shared: &Shared, state: &State, events: &[Event]) {
        for event in events {
            let Event::Put(entry) = event else { continue };
            if *entry.key == *CALL {
                let digest = Digest::from_state(state, entry.mod_revision.0);
                self.digest.send_replace(Some(digest));
                continue;
            }
            let Some(node) = member::node_of_key(&entry.key, DIGESTS) else { continue };
            let Ok(digest) = serde_json::from_slice::<Digest>(&entry.value) else { continue };
            let (own, members) = (self.cluster.node(), self.members.keys().copied());
            if self.digests.differs(node, digest, own, members) {
                tracing::error!(
                    call = digest.call,
                    "this node has come to something else than the others; it reads everything anew"
                );
                shared.statistics.differences.fetch_add(1, Ordering::Relaxed);
                self.reload_at = Some(Instant::now());
            }
        }
    }

    /// Reads the state again, and reuses the pulses of `before`. Returns `None` on failure; the
    /// next try is then scheduled.
    pub(super) async fn reload(&mut self, before: &State, now_ms: u64) -> Option<State> {
        let salt = Random::from_process_entropy().next_u64() ^ now_ms;
        let mut state = State::new(salt, self.memory_max);
        state.keep_pulses(before);
        match self.read(&mut state, now_ms).await {
            Ok(_) => {
                self.reload_at = None;
                self.backoff.reset();
                state.forget_pulses();
                Some(state)
            }
            Err(error) => {
                let wait = self.backoff.next_wait().min(RELOAD_WAIT_MAX);
                tracing::warn!(%error, ?wait, "the registry cannot be read anew; what is known is served");
                self.reload_at = Some(Instant::now() + wait);
                None
            }
        }
    }

    /// Returns the members, and publishes them for readers.
    pub(super) fn membership(&self) -> Membership {
        self.cluster.set_members(&self.members);
        let members = self.members.keys().copied().collect();
        let own = self.cluster.evidence.own().filter(|own| self.members.contains_key(own));
        Membership::Shared { own, members }
    }

    /// Adds the condition that this node is still a member; `None` if it is not.
    pub(super) fn fence(&self, transaction: Transaction) -> Option<Transaction> {
        Some(transaction.when_exists(format!("{MEMBERS}{}", self.cluster.node()?)))
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

/// Checks that the store is still the shared one: a store that was emptied or replaced is refused.
async fn check_proof(store: &dyn Store, cluster: &Cluster) -> Result<(), StoreError> {
    let Some(proof) = &cluster.options.proof else { return Ok(()) };
    if store.get(proof).await?.is_some() {
        return Ok(());
    }
    Err(StoreError::Declined {
        place: "the registry's store".into(),
        reason: "it is not the one that this node shared: it was emptied or replaced".to_owned(),
        remedy: "bring it back as it was; until then what is known is served, and nothing is written",
    })
}
