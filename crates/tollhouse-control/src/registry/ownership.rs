//! A store that many nodes can reach, and one at a time may write.
//!
//! Who owns it has put two keys: [`OWNER`] under a lease, so that it goes when its node does, and [`EPOCH`]
//! for ever, anew at every change of owner. Every commit asks that the epoch is still its own. So a lease that
//! ran out during an outage, or a node that was stopped and woke up, costs nothing unless somebody else has
//! taken over; then nothing more can be written here, and the store says that it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tollhouse_store::{
    BoxFuture, Committed, Condition, Entry, ErrorKind, LeaseId, Limits, Listing, Lost, Revision,
    Store, StoreError, Transaction, Watch, WatchEvent, WatchSource,
};

use crate::process::handover::Predecessor;

/// Where keys of its own stand: behind all others, which begin with a slash.
const OWN: &str = "~tollhouse/";
/// The node that owns the store, while it lives.
const OWNER: &str = "~tollhouse/owner";
/// Changes with every owner.
const EPOCH: &str = "~tollhouse/epoch";

/// How long a node may be silent before another one takes its place.
pub const LEASE: Duration = Duration::from_secs(10);

/// How often it says that it lives: three times within a lease.
const RENEWAL: Duration = Duration::from_secs(3);

/// Another node owns the store.
#[derive(Debug, thiserror::Error)]
#[error("{holder} keeps the registry of this database; this node stands by to take over")]
pub struct StandingBy {
    /// Its name.
    pub holder: String,
}

/// See the module.
pub struct OwnedStore {
    claim: Arc<Claim>,
    renewer: JoinHandle<()>,
}

/// What commits and renewals rest on.
struct Claim {
    inner: Arc<dyn Store>,
    node: String,
    fence: Mutex<Fence>,
    lease: watch::Sender<LeaseId>,
    /// Why nothing more can be written.
    loss: watch::Sender<Option<&'static str>>,
}

/// What the next commit rests on.
struct Fence {
    /// The revision of the epoch.
    epoch: Revision,
    /// That of the last commit that is known to have been made.
    newest: Revision,
    /// Nobody knows whether the last one was. Before another one the epoch is made anew: the one in doubt can
    /// then never be made any more, and if anything came between, what is in memory here is not what is kept.
    is_in_doubt: bool,
}

const REPLACED: &str = "another node has taken the registry over";
const OUTDATED: &str =
    "a change that was not confirmed has been made: the registry has to be read anew";

impl OwnedStore {
    /// Takes a store over that nobody owns, or this node itself, which was killed a moment ago.
    ///
    /// # Errors
    /// [`StandingBy`] when another node owns it; or the store does not answer.
    pub async fn take(
        inner: Arc<dyn Store>,
        node: &str,
        predecessor: Predecessor,
    ) -> anyhow::Result<Self> {
        // Without a write, as long as there is another owner: nodes that stand by look often.
        let unchanged = match inner.get(OWNER).await? {
            None => Condition::Absent { key: OWNER.into() },
            Some(owner) if owner.value == node && predecessor == Predecessor::None => {
                Condition::ModifiedAt { key: OWNER.into(), revision: owner.mod_revision }
            }
            Some(owner) => return Err(standing_by(&owner).into()),
        };
        let lease = inner.grant(LEASE).await?;
        let take = Transaction::new()
            .put(EPOCH, node.to_owned())
            .put_under(lease, OWNER, node.to_owned())
            .when(unchanged);
        let epoch = match inner.commit(take).await {
            Ok(committed) => committed.revision,
            Err(error) => {
                // What was taken all the same goes with it.
                let _ = inner.revoke(lease).await;
                return Err(match (error.kind(), inner.get(OWNER).await?) {
                    (ErrorKind::Refused, Some(owner)) => standing_by(&owner).into(),
                    _ => error.into(),
                });
            }
        };
        let claim = Arc::new(Claim {
            inner,
            node: node.to_owned(),
            fence: Mutex::new(Fence { epoch, newest: epoch, is_in_doubt: false }),
            lease: watch::Sender::new(lease),
            loss: watch::Sender::new(None),
        });
        let renewer = tokio::spawn(Arc::clone(&claim).renew());
        Ok(Self { claim, renewer })
    }

    /// Why nothing more can be written through it, if that is so.
    pub fn loss(&self) -> Option<&'static str> {
        *self.claim.loss.borrow()
    }

    /// Lets another node take over at once.
    pub async fn release(&self) {
        self.renewer.abort();
        let lease = *self.claim.lease.borrow();
        if let Err(error) = self.claim.inner.revoke(lease).await {
            tracing::warn!(%error, "another node takes the registry over in {LEASE:?} only");
        }
    }
}

impl Drop for OwnedStore {
    fn drop(&mut self) {
        self.renewer.abort();
    }
}

fn standing_by(owner: &Entry) -> StandingBy {
    StandingBy { holder: String::from_utf8_lossy(&owner.value).into_owned() }
}

impl Claim {
    /// Says time and again that this node lives, until another one has taken over.
    async fn renew(self: Arc<Self>) {
        let mut renewals = tokio::time::interval_at(Instant::now() + RENEWAL, RENEWAL);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.loss.borrow().is_none() {
            renewals.tick().await;
            let lease = *self.lease.borrow();
            match self.inner.keep_alive(lease).await {
                Ok(()) => {}
                Err(StoreError::Fenced { .. }) => self.retake().await,
                Err(error) => tracing::warn!(%error, "the registry's lease could not be renewed"),
            }
        }
    }

    /// Takes the store again after the lease has ended, unless somebody has been faster.
    async fn retake(&self) {
        let mut fence = self.fence.lock().await;
        let Ok(lease) = self.inner.grant(LEASE).await else { return };
        let take = Transaction::new()
            .put_under(lease, OWNER, self.node.clone())
            .when_modified_at(EPOCH, fence.epoch);
        match self.inner.commit(take).await {
            Ok(committed) => {
                if !fence.is_in_doubt {
                    fence.newest = committed.revision;
                }
                tracing::warn!(
                    "the registry's lease had ended, and nobody took over: its database or this node \
                     did not answer for {LEASE:?}"
                );
                self.lease.send_replace(lease);
            }
            Err(StoreError::Conflict { .. }) => {
                self.lose(REPLACED);
            }
            // Tried again at the next renewal.
            Err(error) => tracing::warn!(%error, "the registry's lease could not be taken again"),
        }
    }

    /// Commits while this node is the owner.
    async fn commit(&self, mut transaction: Transaction) -> Result<Committed, StoreError> {
        let mut fence = self.fence.lock().await;
        if fence.is_in_doubt {
            self.clear_doubt(&mut fence).await?;
        }
        // First, so that a conflict of both is known for what it is.
        let is_owner = Condition::ModifiedAt { key: EPOCH.into(), revision: fence.epoch };
        transaction.conditions.insert(0, is_owner);
        match self.inner.commit(transaction).await {
            Ok(committed) => {
                fence.newest = fence.newest.max(committed.revision);
                Ok(committed)
            }
            Err(StoreError::Conflict { key }) if *key == *EPOCH => Err(self.lose(REPLACED)),
            Err(error) => {
                fence.is_in_doubt = error.kind() == ErrorKind::Unknown;
                Err(error)
            }
        }
    }

    async fn clear_doubt(&self, fence: &mut Fence) -> Result<(), StoreError> {
        let renew =
            Transaction::new().put(EPOCH, self.node.clone()).when_modified_at(EPOCH, fence.epoch);
        let epoch = match self.inner.commit(renew).await {
            Ok(committed) => committed.revision,
            Err(StoreError::Conflict { .. }) => return Err(self.lose(REPLACED)),
            Err(error) => return Err(error),
        };
        let is_unchanged = epoch == fence.newest.next();
        *fence = Fence { epoch, newest: epoch, is_in_doubt: false };
        if is_unchanged { Ok(()) } else { Err(self.lose(OUTDATED)) }
    }

    fn lose(&self, reason: &'static str) -> StoreError {
        if self.loss.send_replace(Some(reason)).is_none() {
            tracing::error!(reason, "the registry's store is closed to this node");
        }
        StoreError::Fenced { lease: *self.lease.borrow() }
    }
}

impl Store for OwnedStore {
    fn limits(&self) -> Limits {
        let inner = self.claim.inner.limits();
        // Each commit has a condition more.
        Limits {
            operations_max: inner.operations_max - 1,
            transaction_bytes_max: inner.transaction_bytes_max - EPOCH.len(),
            ..inner
        }
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.claim.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move { Ok(without_own(self.claim.inner.list(prefix).await?)) })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let page = self.claim.inner.list_page(prefix, after, entries_max);
        Box::pin(async move { Ok(without_own(page.await?)) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(self.claim.commit(transaction))
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let inner = self.claim.inner.watch(prefix, after);
        let loss = self.claim.loss.subscribe();
        Watch::new(Box::new(OwnedWatch { inner, loss }), after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.claim.inner.revision()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.claim.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.claim.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.claim.inner.revoke(lease)
    }
}

/// Keys of its own are nobody else's business.
fn without_own(mut listing: Listing) -> Listing {
    listing.entries.retain(|entry| !entry.key.starts_with(OWN));
    listing
}

/// A watch that is over once the store is lost.
struct OwnedWatch {
    inner: Watch,
    loss: watch::Receiver<Option<&'static str>>,
}

impl WatchSource for OwnedWatch {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async move {
            let Self { inner, loss } = self;
            tokio::select! {
                event = inner.next() => event,
                _ = loss.wait_for(Option::is_some) => WatchEvent::Lost(Lost::Closed),
            }
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        match *self.loss.borrow() {
            Some(_) => Some(WatchEvent::Lost(Lost::Closed)),
            None => self.inner.try_next(),
        }
    }

    fn is_over(&self) -> bool {
        self.loss.borrow().is_some() || self.inner.is_over()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::{Clock, Location, ManualClock, Options};

    use super::*;

    fn store() -> (Arc<dyn Store>, Arc<ManualClock>) {
        let hand = ManualClock::at_ms(1_000_000);
        let options = Options { clock: Clock::Manual(Arc::clone(&hand)), ..Options::default() };
        (tollhouse_store::open_with(&Location::Memory, &options).expect("memory opens"), hand)
    }

    async fn take(store: &Arc<dyn Store>, node: &str) -> OwnedStore {
        let taken = OwnedStore::take(Arc::clone(store), node, Predecessor::None).await;
        taken.unwrap_or_else(|error| panic!("{node}: {error}"))
    }

    async fn holder(store: &Arc<dyn Store>) -> String {
        let error = OwnedStore::take(Arc::clone(store), "other", Predecessor::None)
            .await
            .err()
            .expect("it is taken");
        error.downcast::<StandingBy>().expect("somebody owns it").holder
    }

    fn put(key: &str) -> Transaction {
        Transaction::new().put(key, "v")
    }

    /// Lets the lease end, with all that is put under it.
    async fn expire(store: &Arc<dyn Store>, hand: &ManualClock) {
        hand.advance(LEASE);
        while store.get(OWNER).await.expect("it reads").is_some() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_node_at_a_time_owns_a_store() {
        let (store, _) = store();
        let first = take(&store, "first").await;
        first.commit(put("/k")).await.expect("it owns it");
        assert_eq!(holder(&store).await, "first");
        let listing = first.list("").await.expect("it lists");
        assert_eq!(listing.entries.len(), 1, "nobody sees whose it is");
        first.release().await;
        take(&store, "second").await.commit(put("/k")).await.expect("it owns it now");
    }

    #[tokio::test]
    async fn a_node_that_was_killed_comes_back_at_once() {
        let (store, _) = store();
        let killed = take(&store, "first").await;
        let again = take(&store, "first").await;
        again.commit(put("/k")).await.expect("it owns it");
        assert_eq!(
            killed.commit(put("/k")).await.expect_err("it is gone").kind(),
            ErrorKind::Fenced
        );
    }

    #[tokio::test]
    async fn who_was_replaced_writes_nothing_and_learns_it() {
        let (store, hand) = store();
        let first = take(&store, "first").await;
        let watch = first.watch("", Revision::ZERO);
        expire(&store, &hand).await;
        let second = take(&store, "second").await;
        assert!(first.loss().is_none() && !watch.is_over());
        let refused = first.commit(put("/k").when_exists("/gone")).await;
        assert_eq!(refused.expect_err("it is another's").kind(), ErrorKind::Fenced);
        assert!(first.loss() == Some(REPLACED) && watch.is_over());
        assert_eq!(store.get("/k").await, Ok(None));
        // What it lets go of is its own.
        first.release().await;
        assert_eq!(holder(&store).await, "second");
        second.commit(put("/k")).await.expect("it owns it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_ended_is_taken_again_where_nobody_took_over() {
        let (store, hand) = store();
        let first = take(&store, "first").await;
        expire(&store, &hand).await;
        first.commit(put("/k")).await.expect("nobody took over");
        while store.get(OWNER).await.expect("it reads").is_none() {
            tokio::time::advance(RENEWAL).await;
        }
        assert_eq!(holder(&store).await, "first");
        assert_eq!(first.loss(), None);
        first.commit(put("/k")).await.expect("it owns it still");
    }

    #[tokio::test]
    async fn a_change_in_doubt_is_ruled_out_or_has_everything_read_anew() {
        for (was_made, expected) in [(false, None), (true, Some(OUTDATED))] {
            let (store, _) = store();
            let first = take(&store, "first").await;
            first.commit(put("/k")).await.expect("it owns it");
            first.claim.fence.lock().await.is_in_doubt = true;
            if was_made {
                store.commit(put("/l")).await.expect("it is done");
            }
            assert_eq!(first.commit(put("/m")).await.is_ok(), !was_made);
            assert_eq!(first.loss(), expected);
        }
    }
}
