//! The store in memory, for tests and for a gateway configured only by files.
//!
//! Commits happen immediately, under a lock held only for the commit. One thread waits for entries
//! to expire. The size is bounded only by the entries that are put.

use super::apply::{ApplyOutcome, Table, Terms, apply, removal};
use super::history::History;
use super::leases::Leases;
use crate::clock::Clock;
use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::lease::LeaseId;
use crate::limits::{EXPIRED_PER_COMMIT_MAX, EXPIRY_WAIT_MAX, Limits};
use crate::options::Options;
use crate::store::Store;
use crate::transaction::{Committed, Transaction};
use crate::watch::Watch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(super) struct MemoryStore {
    shared: Arc<Shared>,
    expiry: Option<JoinHandle<()>>,
}

impl MemoryStore {
    pub(super) fn open(options: &Options) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            woken: Condvar::new(),
            history: Arc::new(History::new(Revision::ZERO, options.history)),
            clock: options.clock.clone(),
        });
        let weak = Arc::downgrade(&shared);
        options.clock.on_jump(move || {
            if let Some(shared) = weak.upgrade() {
                shared.wake();
            }
        });
        let for_thread = Arc::clone(&shared);
        let expiry = thread::Builder::new()
            .name("store-expiry".to_owned())
            .spawn(move || for_thread.expire_until_closed())
            .map_err(|error| StoreError::from_io(Path::new("store-expiry"), &error))?;
        Ok(Self { shared, expiry: Some(expiry) })
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.history.close();
        self.shared.wake();
        if let Some(thread) = self.expiry.take() {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}

impl Store for MemoryStore {
    fn limits(&self) -> Limits {
        Limits::EMBEDDED
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move { Ok(self.shared.lock().entries.get(key).cloned()) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            let state = self.shared.lock();
            let entries = state.under(prefix).cloned().collect();
            Ok(Listing { revision: state.revision, entries })
        })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            let state = self.shared.lock();
            let first =
                if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
            let later = state.range(first, prefix);
            let entries = later.take(entries_max).cloned().collect();
            Ok(Listing { revision: state.revision, entries })
        })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            transaction.check(&Limits::EMBEDDED)?;
            let mut state = self.shared.lock();
            self.shared.expire(&mut state);
            self.shared.commit(&mut state, transaction)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.shared.history.watch(prefix, after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move { Ok(self.shared.lock().revision) })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        let now_ms = self.shared.clock.now_ms();
        Box::pin(async move { self.shared.lock().leases.grant(ttl, now_ms) })
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.shared.keep_alive(&mut self.shared.lock(), lease) })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let mut state = self.shared.lock();
            let keys = state.leases.keys(lease);
            self.shared.commit(&mut state, removal(keys))?;
            state.leases.revoke(lease);
            Ok(())
        })
    }
}

/// State shared between the store and its thread.
struct Shared {
    state: Mutex<State>,
    /// Signals a change of the next expiry, of the clock, or the end of the store.
    woken: Condvar,
    history: Arc<History>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Box<str>, Entry>,
    /// Expiry times with their keys, soonest first.
    expiries: BTreeSet<(u64, Box<str>)>,
    revision: Revision,
    leases: Leases,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread check again. Taking the lock first ensures that it is not between checking
    /// and sleeping.
    fn wake(&self) {
        drop(self.lock());
        self.woken.notify_all();
    }

    /// Commits under the lock, so that watchers see commits in order.
    fn commit(&self, state: &mut State, transaction: Transaction) -> Result<Committed, StoreError> {
        let first_expiry = state.first_expiry_ms();
        // Taken out while the rest of the state is borrowed as the table.
        let leases = std::mem::take(&mut state.leases);
        let now_ms = self.clock.now_ms();
        let expiry_ms = |lease| leases.expiry_ms(lease, now_ms);
        let terms = Terms { expiry_ms: &expiry_ms, newest: state.revision };
        let applied = apply(state, transaction, &terms);
        state.leases = leases;
        let ApplyOutcome { committed, changes, leased } = applied?;
        if let Some(changes) = changes {
            state.leases.follow(&changes, leased);
            state.revision = changes.revision;
            self.history.publish(changes);
        }
        if state.first_expiry_ms() != first_expiry {
            self.woken.notify_all();
        }
        Ok(committed)
    }

    fn keep_alive(&self, state: &mut State, lease: LeaseId) -> Result<(), StoreError> {
        let (expires_at_ms, keys) = state.leases.renewal(lease, self.clock.now_ms())?;
        for key in keys {
            if let Some(mut entry) = state.entries.get(&key).cloned() {
                entry.expires_at_ms = Some(expires_at_ms);
                state.put(&entry)?;
            }
        }
        state.leases.renew(lease, expires_at_ms);
        self.woken.notify_all();
        Ok(())
    }

    /// Removes the entries whose expiry time has passed, and commits that.
    fn expire(&self, state: &mut State) {
        loop {
            let now_ms = self.clock.now_ms();
            let due = state.expiries.iter().take_while(|(at_ms, _)| *at_ms <= now_ms);
            let keys: Vec<_> =
                due.take(EXPIRED_PER_COMMIT_MAX).map(|(_, key)| key.clone()).collect();
            if keys.is_empty() {
                return;
            }
            self.commit(state, removal(keys)).expect("removing from memory does not fail");
        }
    }

    fn expire_until_closed(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            self.expire(&mut state);
            state = match state.first_expiry_ms() {
                None => self.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at_ms) => {
                    let wait = Duration::from_millis(at_ms.saturating_sub(self.clock.now_ms()));
                    let waited = self.woken.wait_timeout(state, wait.min(EXPIRY_WAIT_MAX));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl State {
    fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.range(Bound::Included(prefix), prefix)
    }

    /// Returns the entries under a prefix from `first` on.
    fn range<'a>(
        &'a self,
        first: Bound<&'a str>,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Entry> {
        let later = self.entries.range::<str, _>((first, Bound::Unbounded));
        later.map(|(_, entry)| entry).take_while(move |entry| entry.key.starts_with(prefix))
    }

    fn first_expiry_ms(&self) -> Option<u64> {
        self.expiries.first().map(|(at_ms, _)| *at_ms)
    }
}

impl Table for State {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), StoreError> {
        if let Some(at_ms) = entry.expires_at_ms {
            self.expiries.insert((at_ms, entry.key.clone()));
        }
        let old = self.entries.insert(entry.key.clone(), entry.clone());
        let old_expiry = old.and_then(|old| old.expires_at_ms);
        if let Some(at_ms) = old_expiry.filter(|_| old_expiry != entry.expires_at_ms) {
            self.expiries.remove(&(at_ms, entry.key.clone()));
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), StoreError> {
        let old = self.entries.remove(key);
        if let Some((at_ms, key)) = old.and_then(|old| Some((old.expires_at_ms?, old.key))) {
            self.expiries.remove(&(at_ms, key));
        }
        Ok(())
    }

    fn remove_prefix(&mut self, prefix: &str) -> Result<Vec<Box<str>>, StoreError> {
        let keys: Vec<Box<str>> = self.under(prefix).map(|entry| entry.key.clone()).collect();
        for key in &keys {
            self.remove(key)?;
        }
        Ok(keys)
    }
}
