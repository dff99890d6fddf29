//! Optimistic concurrency between objects. Between the check and the commit of a write, another
//! write may delete an object that this one refers to, or add a reference to an object that this
//! one deletes.
//!
//! Every object that can be referred to has a guard: a key that is written with each object that
//! refers to it. A write requires that the objects it refers to exist. A deletion requires that the
//! guard is unchanged since the index was read. The store refuses the second of two conflicting
//! commits, which is then checked again.
//!
//! Unique values have guards too: one per collection, and for credentials a limited number of
//! buckets. The keyring determines a credential's bucket, so that the keys of a store reveal
//! nothing about it.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tollhouse_store::{Committed, Condition, Operation, StoreError, Transaction};

use crate::context::Admin;
use crate::index::Contents;
use crate::index::facts::{self, Identity};
use crate::limits::{ATTEMPTS_MAX, OVERTAKEN_MAX, OVERTAKEN_TIME_MAX, TURN_WAIT_MAX};
use crate::references;
use crate::reply::Reply;
use crate::resource::{Candidate, Layout, Resource};

/// Value of a guard. The value is not empty, because APISIX treats a key without a value as
/// deleted.
const GUARD_VALUE: &str = "{}";

/// Maximum length in bytes of the path of an object that can be referred to: the name of a
/// collection, and an id of at most 64 bytes.
const PATH_BYTES_MAX: usize = 128;

/// Number of credential buckets: large enough that simultaneous writes rarely collide, and small
/// enough that the guards take little space.
const IDENTITY_BUCKETS: u32 = 4096;

/// Conditions of a commit, and the guards that it writes.
#[derive(Debug, Default)]
pub(super) struct Guards {
    conditions: Vec<Condition>,
    operations: Vec<Operation>,
}

impl Guards {
    /// Returns the guards for writing an object. The objects that it refers to must exist; their
    /// guards are written, so that a concurrent deletion of them fails.
    pub(super) fn for_write(admin: &Admin, resource: &Resource, object: &Candidate<'_>) -> Self {
        let mut guards = Self::default();
        let targets: BTreeSet<String> =
            references::find(object.value).into_iter().map(|it| it.target).collect();
        // The conf of a disabled plugin may contain any text as a reference. A path that is too
        // long cannot be that of an object.
        for target in targets.into_iter().filter(|target| target.len() <= PATH_BYTES_MAX) {
            // Some references may be to a missing object; these need no condition.
            if object.contents.exists(&target) {
                guards.conditions.push(Condition::Exists { key: admin.key_of(&target).into() });
            }
            guards.put(admin, &target);
        }
        if let Some(above) = above(resource, object.path) {
            guards.conditions.push(Condition::Exists { key: admin.key_of(above).into() });
        }
        if let Some(scope) = exclusive_scope(resource, object.path) {
            guards.unchanged(admin, scope, object.contents);
            guards.put(admin, scope);
        }
        for bucket in identity_buckets(admin, resource, object) {
            let scope = format!("identities/{bucket:03x}");
            guards.unchanged(admin, &scope, object.contents);
            guards.put(admin, &scope);
        }
        guards
    }

    /// Returns the guards for deleting an object. The commit fails if a reference to the object was
    /// added, or the object was written again.
    pub(super) fn for_deletion(admin: &Admin, path: &str, contents: &Contents) -> Self {
        let mut guards = Self::default();
        let key = admin.key_of(path).into();
        guards.conditions.push(Condition::UnchangedSince { key, revision: contents.revision() });
        guards.unchanged(admin, path, contents);
        guards
    }

    /// Adds the guards to a transaction.
    pub(super) fn add_to(self, mut transaction: Transaction) -> Transaction {
        transaction.conditions.extend(self.conditions);
        transaction.operations.extend(self.operations);
        transaction
    }

    fn unchanged(&mut self, admin: &Admin, path: &str, contents: &Contents) {
        let (key, revision) = (admin.guard_key(path).into(), contents.revision());
        self.conditions.push(Condition::UnchangedSince { key, revision });
    }

    fn put(&mut self, admin: &Admin, path: &str) {
        self.operations.push(Operation::put(admin.guard_key(path), GUARD_VALUE));
    }
}

/// Returns the path of the parent of an object, which must exist.
fn above<'p>(resource: &Resource, path: &'p str) -> Option<&'p str> {
    let Layout::Child(_) = resource.layout else { return None };
    let (collection, _) = path.rsplit_once('/')?;
    collection.rsplit_once('/').map(|(above, _)| above)
}

/// Returns the collection in which values of the object must be unique. All writes of such a
/// collection are made one after the other, which is acceptable because these collections are
/// small.
fn exclusive_scope<'p>(resource: &Resource, path: &'p str) -> Option<&'p str> {
    path.rsplit_once('/').filter(|_| resource.is_exclusive()).map(|(collection, _)| collection)
}

/// Returns the key of the queue in which writes of the object wait: the object's own key, or the
/// guard of its collection if values must be unique in the collection.
pub(super) fn turn_key(admin: &Admin, resource: &Resource, path: &str) -> String {
    match exclusive_scope(resource, path) {
        Some(scope) => admin.guard_key(scope),
        None => admin.key_of(path),
    }
}

/// Returns the numbers of the buckets of all credentials in an object.
fn identity_buckets(admin: &Admin, resource: &Resource, object: &Candidate<'_>) -> BTreeSet<u32> {
    let confs = object.value.get("plugins").and_then(Value::as_object);
    let Some(confs) = confs.filter(|_| resource.holds_identities()) else {
        return BTreeSet::new();
    };
    let keyring = &admin.parts.keyring;
    let identities = facts::identities(object.path, confs, &admin.parts.catalogue, keyring);
    let buckets = |(plugin, value): &Identity| -> Vec<u32> {
        // Plugin names contain no line feed, so that the text is unambiguous.
        keyring.buckets(format!("{plugin}\n{value}").as_bytes(), IDENTITY_BUCKETS).collect()
    };
    identities.iter().flat_map(buckets).collect()
}

/// Attempts of one call to check and commit a write, which is repeated after a conflict with
/// another write.
pub(super) struct Attempts<'a> {
    admin: &'a Admin,
    tries: usize,
    /// Number of attempts that failed because another call wrote the object itself meanwhile.
    overtaken: usize,
    /// Time after which conflicting commits are no longer repeated.
    until: Instant,
    /// Lock of the object's queue, if this call has waited in it. Only one waiting call of this
    /// process makes attempts at a time, in order of arrival.
    queue: Option<MutexGuard<'a, ()>>,
    /// Key whose change made the last commit fail: that of the object, or of a guard that many
    /// objects share.
    conflict: Option<Box<str>>,
}

/// Outcome of one attempt to commit.
pub(super) enum Attempt {
    Committed(Committed),
    /// The value at this key has changed since the check, so that everything must be checked again.
    Changed(Box<str>),
}

impl<'a> Attempts<'a> {
    pub(super) fn new(admin: &'a Admin) -> Self {
        let until = Instant::now() + OVERTAKEN_TIME_MAX;
        Self { admin, tries: 0, overtaken: 0, until, queue: None, conflict: None }
    }

    /// Starts an attempt with an up-to-date index. After a conflict, first waits in the queue of
    /// the key that caused it.
    ///
    /// # Errors
    /// If there were too many attempts, or the store cannot be read.
    pub(super) async fn begin(&mut self) -> Result<(), Reply> {
        if self.tries - self.overtaken == ATTEMPTS_MAX {
            return Err(Reply::unavailable(
                "what this object depends on keeps changing; try again",
            ));
        }
        self.tries += 1;
        if let Some(key) = self.conflict.take() {
            self.wait_in_queue(&key).await;
        }
        Ok(self.admin.index.catch_up().await?)
    }

    /// Whether this is the first attempt.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// Waits until this call is the first in the queue of this key, unless it already is the first
    /// in a queue. Without queues, only one of many simultaneous writers would succeed at a time,
    /// and all others would start again. After a timeout the call continues nevertheless, so that
    /// the caller gets the error of a slow store.
    pub(super) async fn wait_in_queue(&mut self, key: &str) {
        if self.queue.is_none() {
            let queue = tokio::time::timeout(TURN_WAIT_MAX, self.admin.write_queue(key)).await;
            self.queue = queue.ok();
        }
    }

    /// Records that another call wrote the object since this call read it. A writer without a
    /// precondition tries again, because it wants to replace the object in any case; this fails
    /// only after a very large number of attempts.
    ///
    /// Because of the queues, at most one call of each other process interferes with an attempt.
    /// Each failed attempt means that another write succeeded.
    ///
    /// # Errors
    /// Returns 503 after too many failures or too long a time; APISIX returns it after the first
    /// failure.
    pub(super) fn overtaken(&mut self) -> Result<(), Reply> {
        self.overtaken += 1;
        if self.overtaken > OVERTAKEN_MAX || Instant::now() >= self.until {
            return Err(Reply::unavailable("value changed before overwritten"));
        }
        Ok(())
    }

    /// Commits a checked write, and waits until it is in service.
    pub(super) async fn commit(&mut self, transaction: Transaction) -> Result<Attempt, StoreError> {
        let puts = transaction.operations.iter().any(|it| matches!(it, Operation::Put { .. }));
        let Self { admin, .. } = self;
        match admin.parts.store.commit(transaction).await {
            Ok(committed) => {
                // The queue is released now, because the next call need not wait until this write
                // is in service.
                self.queue = None;
                // Only a commit with an effect is awaited. A commit without effect returns the
                // newest revision of the store, which may be that of another program's write
                // outside these keys, and no watch of these keys would ever report it.
                if puts || committed.removed > 0 {
                    admin.index.expect(committed.revision);
                    if let Some(in_service) = &admin.parts.in_service {
                        in_service.meets_write(committed.revision).await;
                    }
                }
                Ok(Attempt::Committed(committed))
            }
            Err(StoreError::Conflict { key }) => {
                self.conflict = Some(key.clone());
                Ok(Attempt::Changed(key))
            }
            Err(error) => Err(error),
        }
    }
}
