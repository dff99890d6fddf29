//! What a write was checked against, made part of its commit: between the check and the commit another write
//! may take away what this one names, or begin to name what this one takes away.
//!
//! Every object that can be named has a guard, a key of its own that is put with each object that names it. A
//! write asks of the store that what it names is there; a deletion, that nobody has put the guard since the
//! index looked. Whichever commits second is refused by the store, and checked anew.
//!
//! What only one object may hold has guards too: a collection's, or, of credentials, some of few buckets. Which
//! bucket a credential has is told by the keyring, so that whoever sees the keys of a store learns nothing of it.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tollhouse_store::{Committed, Condition, Operation, StoreError, Transaction};

use crate::context::Admin;
use crate::index::Known;
use crate::index::facts::{self, Identity};
use crate::limits::{ATTEMPTS_MAX, OVERTAKEN_MAX, OVERTAKEN_TIME_MAX, TURN_WAIT_MAX};
use crate::references;
use crate::reply::Reply;
use crate::resource::{Candidate, Layout, Resource};

/// What guards hold: gateways that share the store take a key without a value for one that was deleted.
const GUARD_VALUE: &str = "{}";

/// Longest path of an object that can be named, in bytes: a collection and an id of 64.
const PATH_BYTES_MAX: usize = 128;

/// Buckets of credentials: so many that two which are written at once seldom share one, and so few that the
/// guards of all credentials there ever were take little room.
const IDENTITY_BUCKETS: u32 = 4096;

/// Conditions of a commit, and the guards that it changes.
#[derive(Debug, Default)]
pub(super) struct Guards {
    conditions: Vec<Condition>,
    operations: Vec<Operation>,
}

impl Guards {
    /// Of an object that is written: what it names stays, and who wants to delete that learns of it.
    pub(super) fn for_write(admin: &Admin, resource: &Resource, object: &Candidate<'_>) -> Self {
        let mut guards = Self::default();
        let named: BTreeSet<String> =
            references::find(object.value).into_iter().map(|found| found.target).collect();
        // A plugin that is switched off may name anything; no object has a path of such a length.
        for target in named.into_iter().filter(|target| target.len() <= PATH_BYTES_MAX) {
            // What is not there and may be named all the same can come and go as it likes.
            if object.known.exists(&target) {
                guards.conditions.push(Condition::Exists { key: admin.key_of(&target).into() });
            }
            guards.put(admin, &target);
        }
        if let Some(above) = above(resource, object.path) {
            guards.conditions.push(Condition::Exists { key: admin.key_of(above).into() });
        }
        if let Some(scope) = exclusive_scope(resource, object.path) {
            guards.unchanged(admin, scope, object.known);
            guards.put(admin, scope);
        }
        for bucket in identity_buckets(admin, resource, object) {
            let scope = format!("identities/{bucket:03x}");
            guards.unchanged(admin, &scope, object.known);
            guards.put(admin, &scope);
        }
        guards
    }

    /// Of an object that is deleted: nobody has begun to name it, nor made it anew.
    pub(super) fn for_deletion(admin: &Admin, path: &str, known: &Known) -> Self {
        let mut guards = Self::default();
        let key = admin.key_of(path).into();
        guards.conditions.push(Condition::UnchangedSince { key, revision: known.revision() });
        guards.unchanged(admin, path, known);
        guards
    }

    /// The transaction with these.
    pub(super) fn add_to(self, mut transaction: Transaction) -> Transaction {
        transaction.conditions.extend(self.conditions);
        transaction.operations.extend(self.operations);
        transaction
    }

    fn unchanged(&mut self, admin: &Admin, path: &str, known: &Known) {
        let (key, revision) = (admin.guard_key(path).into(), known.revision());
        self.conditions.push(Condition::UnchangedSince { key, revision });
    }

    fn put(&mut self, admin: &Admin, path: &str) {
        self.operations.push(Operation::put(admin.guard_key(path), GUARD_VALUE));
    }
}

/// The object that one lies below, which must be there.
fn above<'p>(resource: &Resource, path: &'p str) -> Option<&'p str> {
    let Layout::Child(_) = resource.layout else { return None };
    let (collection, _) = path.rsplit_once('/')?;
    collection.rsplit_once('/').map(|(above, _)| above)
}

/// Where no two objects may hold the same: the writes there are checked one after the other. There are few.
fn exclusive_scope<'p>(resource: &Resource, path: &'p str) -> Option<&'p str> {
    path.rsplit_once('/').filter(|_| resource.is_exclusive()).map(|(collection, _)| collection)
}

/// The buckets of the credentials in an object that holds some.
fn identity_buckets(admin: &Admin, resource: &Resource, object: &Candidate<'_>) -> BTreeSet<u32> {
    let confs = object.value.get("plugins").and_then(Value::as_object);
    let Some(confs) = confs.filter(|_| resource.holds_identities()) else {
        return BTreeSet::new();
    };
    let keyring = &admin.parts.keyring;
    let held = facts::identities(object.path, confs, &admin.parts.catalogue, keyring);
    let buckets = |(plugin, value): &Identity| -> Vec<u32> {
        // No name of a plugin has a line end.
        keyring.buckets(format!("{plugin}\n{value}").as_bytes(), IDENTITY_BUCKETS).collect()
    };
    held.iter().flat_map(buckets).collect()
}

/// The tries of one call to commit what it has checked.
pub(super) struct Attempts<'a> {
    admin: &'a Admin,
    tries: usize,
    /// How often somebody else has written the same object in between.
    overtaken: usize,
    /// Until when that is put up with.
    until: Instant,
    /// Of the calls of this process that wait for one at an object, one tries at a time, in the order in which they
    /// came.
    turn: Option<MutexGuard<'a, ()>>,
}

/// How a try ended.
pub(super) enum Attempt {
    /// It is done.
    Committed(Committed),
    /// What stands at this key is no longer what was checked; everything is to be checked anew.
    Changed(Box<str>),
}

impl<'a> Attempts<'a> {
    /// None yet.
    pub(super) fn new(admin: &'a Admin) -> Self {
        let until = Instant::now() + OVERTAKEN_TIME_MAX;
        Self { admin, tries: 0, overtaken: 0, until, turn: None }
    }

    /// Begins another try, with an index that knows what was committed so far.
    ///
    /// # Errors
    /// There were enough, or the store cannot be read.
    pub(super) async fn begin(&mut self) -> Result<(), Reply> {
        if self.tries - self.overtaken == ATTEMPTS_MAX {
            return Err(Reply::unavailable(
                "what this object depends on keeps changing; try again",
            ));
        }
        self.tries += 1;
        Ok(self.admin.index.catch_up().await?)
    }

    /// Whether nothing was tried before.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// Waits for a turn at the object of this key: whoever writes what it has read does so one after the other, for else
    /// of many at once one would succeed, and all others begin anew each time. Where the turn does not come, since the
    /// store keeps somebody waiting, it is tried without: the store's own reason is the one to be told.
    pub(super) async fn take_turn(&mut self, key: &str) {
        if self.turn.is_none() {
            let turn = tokio::time::timeout(TURN_WAIT_MAX, self.admin.turn(key)).await;
            self.turn = turn.ok();
        }
    }

    /// Somebody else has written the object at this key since it was read. Whoever does not ask for a former state
    /// wants to write all the same, so that it counts only where it never ends.
    ///
    /// With one of a process trying at a time, no more than one other of each process that shares the store stands in
    /// the way of a try, and each that is in vain is a write of somebody else.
    ///
    /// # Errors
    /// It has gone on for long: 503, as APISIX answers it the first time.
    pub(super) async fn overtaken(&mut self, key: &str) -> Result<(), Reply> {
        self.overtaken += 1;
        if self.overtaken > OVERTAKEN_MAX || Instant::now() >= self.until {
            return Err(Reply::unavailable("value changed before overwritten"));
        }
        self.take_turn(key).await;
        Ok(())
    }

    /// Commits what was checked, and waits until it serves.
    pub(super) async fn commit(&mut self, transaction: Transaction) -> Result<Attempt, StoreError> {
        let puts = transaction.operations.iter().any(|it| matches!(it, Operation::Put { .. }));
        let Self { admin, .. } = self;
        match admin.parts.store.commit(transaction).await {
            Ok(committed) => {
                // Whoever comes next need not wait until this serves.
                self.turn = None;
                // What changed nothing is answered with the newest revision. Of an engine that others write to
                // it may be theirs, and no watch of these keys ever hears of it.
                if puts || committed.removed > 0 {
                    admin.index.expect(committed.revision);
                    if let Some(in_service) = &admin.parts.in_service {
                        in_service.meets_write(committed.revision).await;
                    }
                }
                Ok(Attempt::Committed(committed))
            }
            Err(StoreError::Conflict { key }) => Ok(Attempt::Changed(key)),
            Err(error) => Err(error),
        }
    }
}
