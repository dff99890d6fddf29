//! In-memory index of objects for checks and lists: existing objects, references, credentials, and
//! the fields for filters and sorting. With the index, checks and lists need not read the store.
//!
//! The index is built from a listing once, when the first call arrives, then follows the store's
//! commits. It catches up when it is queried, so that an idle gateway does no work and one without
//! calls needs no memory for it. A query sees at least the last commit of this
//! process. Each query costs one lookup, however many objects exist.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tollhouse_model::change_row;
use tollhouse_store::{
    Changes as Commit, Entry, Event, Listing, Lost, Revision, Store, StoreError, Watch, WatchEvent,
};

use crate::limits::OBJECTS_PER_TURN;
use crate::references::ReferenceKind;
use crate::session::SignInId;
use crate::sign_in::ended;

pub(crate) mod changes;
pub(crate) mod collections;
pub(crate) mod facts;
pub(crate) mod orders;

use self::changes::Changes;
use self::collections::{Collections, Creation, collections_of};
use self::facts::{Facts, GLOBAL_RULES, Identity};
use self::orders::{Direction, OrderKey, Orders, Sortable};

/// Function that extracts the facts of an object from its path, such as `routes/1`, and its stored
/// value.
pub(crate) type Inspect = dyn Fn(&str, &[u8]) -> Facts + Send + Sync;

pub(crate) struct Index {
    store: Arc<dyn Store>,
    /// Key prefix with slashes, such as `/apisix/`.
    prefix: String,
    inspect: Box<Inspect>,
    /// State of following the store; locked while the index catches up. Unset until the first call
    /// has read all objects.
    following: OnceCell<tokio::sync::Mutex<Following>>,
    contents: Mutex<Contents>,
    /// Revision of the newest commit of this process.
    expected: AtomicU64,
}

/// State of following the store's commits.
struct Following {
    watch: Watch,
    /// Name of the last change row that has been read; `None` once all rows have been read. Rows
    /// are read on the first query and not at the start, because there may be thousands, with
    /// complete objects. If that query is cancelled, the next one reads the rest.
    rows_after: Option<String>,
}

impl Following {
    fn new(watch: Watch) -> Self {
        Self { watch, rows_after: Some(String::new()) }
    }
}

/// Facts about all stored objects, at one revision.
#[derive(Default)]
pub(crate) struct Contents {
    /// Revision up to which the index contains all commits.
    revision: Revision,
    /// Revision of the last change of an object.
    objects_revision: Revision,
    objects: HashMap<Box<str>, Object>,
    collections: Collections,
    /// Sorted views of collections, created when a list needs them.
    orders: Orders,
    users: HashMap<Box<str>, BTreeSet<User>>,
    owners: HashMap<Identity, BTreeSet<Box<str>>>,
    /// Global rules that contain a plugin, by plugin.
    rules: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// Number of objects that contain a plugin.
    plugin_uses: HashMap<Box<str>, usize>,
    /// Summaries of change rows, by revision.
    changes: Changes,
    /// Sessions that signed out before their expiry, in the order of expiry.
    ended: BTreeSet<SignInId>,
}

/// Revisions of an object: that of its creation, and that of its last change. Both are zero before
/// it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Revisions {
    pub(crate) created: Revision,
    pub(crate) changed: Revision,
}

struct Object {
    facts: Facts,
    revisions: Revisions,
}

impl Object {
    fn sortable<'a>(&'a self, path: &'a str) -> Sortable<'a> {
        Sortable { path, fields: &self.facts.list_fields, revisions: self.revisions }
    }
}

/// A referring object: rank of its collection, kind of reference, and path.
type User = (u8, ReferenceKind, Box<str>);

/// Order in which collections are searched for references to an object.
const RANKS: [&str; 8] = [
    "routes",
    "services",
    "stream_routes",
    "plugin_configs",
    "consumers",
    "consumer_groups",
    "global_rules",
    "upstreams",
];

/// Maximum time for catching up with the store, because a shared store may be unreachable. A commit
/// normally arrives within milliseconds.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// Number of change rows per read; a row has between a few hundred bytes and 256 KiB.
const ROWS_PER_PAGE: usize = 200;

/// Prefix of the gateway's internal keys, which are not objects.
pub(crate) const OWN_KEYS: &str = "tollhouse/";

impl Index {
    /// Creates an index of all keys under the prefix; reads none yet.
    pub(crate) fn new(store: Arc<dyn Store>, prefix: String, inspect: Box<Inspect>) -> Self {
        let (following, contents) = (OnceCell::new(), Mutex::default());
        Self { store, prefix, inspect, following, contents, expected: AtomicU64::new(0) }
    }

    /// Reads all objects, unless an earlier call has. Must precede every query of a call.
    ///
    /// # Errors
    /// If the store cannot be read; the next call tries again.
    pub(crate) async fn open(&self) -> Result<(), StoreError> {
        self.opened().await.map(drop)
    }

    /// Whether all objects have been read.
    pub(crate) fn is_open(&self) -> bool {
        self.following.initialized()
    }

    async fn opened(&self) -> Result<&tokio::sync::Mutex<Following>, StoreError> {
        let open = || async {
            let contents = read_all(&*self.store, &self.prefix, &*self.inspect).await?;
            let watch = self.store.watch(&self.prefix, contents.revision);
            self.expect(contents.revision);
            *self.lock() = contents;
            Ok(tokio::sync::Mutex::new(Following::new(watch)))
        };
        self.following.get_or_try_init(open).await
    }

    /// Records a commit of this process, which later queries must see.
    pub(crate) fn expect(&self, revision: Revision) {
        self.expected.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Applies all new commits, including those of this process.
    ///
    /// # Errors
    /// If the store cannot be read, or does not deliver a commit of this process in time.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        let caught_up = tokio::time::timeout(CATCH_UP_MAX, self.read_to_expected()).await;
        caught_up.unwrap_or_else(|_| {
            let reason = format!(
                "what was written through this gateway has not come back in {} seconds",
                CATCH_UP_MAX.as_secs()
            );
            Err(StoreError::Unreachable { place: "the store".into(), reason })
        })
    }

    async fn read_to_expected(&self) -> Result<(), StoreError> {
        let following = self.opened().await?;
        let mut expected = Revision(self.expected.load(Ordering::Acquire));
        let mut following = following.lock().await;
        loop {
            self.read_changes(&mut following).await;
            let watch = &mut following.watch;
            let event = match watch.try_next() {
                Some(event) => event,
                None if watch.revision() >= expected => return Ok(()),
                None => watch.next().await,
            };
            match event {
                WatchEvent::Commit(changes) => {
                    self.lock().apply(&changes, &self.prefix, &*self.inspect);
                }
                WatchEvent::Progress(revision) => self.lock().revision = revision,
                // The index stays at its last revision; calls that read the store directly continue
                // to work.
                WatchEvent::Lost(Lost::Closed) => return Ok(()),
                WatchEvent::Lost(
                    Lost::Compacted { .. } | Lost::Rewound { .. } | Lost::Unavailable { .. },
                ) => {
                    let committed = self.expected.load(Ordering::Acquire);
                    let contents = read_all(&*self.store, &self.prefix, &*self.inspect).await?;
                    // A listing contains every commit confirmed before it. If its revision is lower
                    // than that of a confirmed commit, the store was restored from a backup, and
                    // that commit is lost. The index must not wait for its revision, which only as
                    // many new commits would reach.
                    if contents.revision.0 < committed {
                        let (lower, order) = (contents.revision.0, Ordering::Relaxed);
                        // The exchange fails if another commit was made meanwhile; that commit is
                        // then awaited.
                        let _ = self.expected.compare_exchange(committed, lower, order, order);
                    }
                    expected = expected.min(contents.revision);
                    *following = Following::new(self.store.watch(&self.prefix, contents.revision));
                    *self.lock() = contents;
                }
            }
        }
    }

    /// Reads the change rows that the index lacks. Commits that were made while the pages were read
    /// are applied afterwards, so that rows deleted meanwhile do not reappear. If the store cannot
    /// be read, the index keeps the rows read so far.
    async fn read_changes(&self, following: &mut Following) {
        while let Some(after) = &mut following.rows_after {
            let folder = format!("{}{}", self.prefix, change_row::FOLDER);
            let Ok(page) = self.store.list_page(&folder, after, ROWS_PER_PAGE).await else {
                return;
            };
            let page = page.entries;
            let Some(last) = page.last() else {
                following.rows_after = None;
                return;
            };
            *after = last.key.to_string();
            let mut contents = self.lock();
            for row in &page {
                contents.put(row, &self.prefix, &*self.inspect);
            }
        }
    }

    /// Returns the contents of the index as of the last catch-up. Do not hold the lock across an
    /// await.
    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads all entries except change rows, page by page. Later pages may contain newer objects than
/// the first page; replaying all commits since the first page then gives the right result.
async fn read_all(
    store: &dyn Store,
    prefix: &str,
    inspect: &Inspect,
) -> Result<Contents, StoreError> {
    let mut contents = Contents::default();
    let mut after = String::new();
    let rows = format!("{prefix}{}", change_row::FOLDER);
    loop {
        let Listing { revision, entries } =
            store.list_page(prefix, &after, OBJECTS_PER_TURN).await?;
        if after.is_empty() {
            (contents.revision, contents.objects_revision) = (revision, revision);
        }
        let Some(last) = entries.last() else { return Ok(contents) };
        // Skips the change rows: no key with this prefix is greater.
        after = match last.key.starts_with(&rows) {
            true => format!("{rows}{}", char::MAX),
            false => last.key.to_string(),
        };
        for entry in entries.iter().filter(|entry| !entry.key.starts_with(&rows)) {
            contents.put(entry, prefix, inspect);
        }
        tokio::task::yield_now().await;
    }
}

/// Whether an entry is an object. APISIX has marker keys for folders, and treats keys without a
/// value as deleted.
pub(crate) fn holds_object(key: &str, value: &[u8]) -> bool {
    !key.ends_with('/') && !value.is_empty()
}

impl Contents {
    fn apply(&mut self, changes: &Commit, prefix: &str, inspect: &Inspect) {
        self.revision = changes.revision;
        let folder = format!("{prefix}{OWN_KEYS}");
        if changes.events.iter().any(|event| !event.key().starts_with(&folder)) {
            self.objects_revision = changes.revision;
        }
        for event in &changes.events {
            match event {
                Event::Put(entry) => self.put(entry, prefix, inspect),
                Event::Delete { key, .. } => {
                    if let Some(path) = key.strip_prefix(prefix) {
                        self.forget(path);
                    }
                }
            }
        }
    }

    fn put(&mut self, entry: &Entry, prefix: &str, inspect: &Inspect) {
        let Some(path) = entry.key.strip_prefix(prefix) else { return };
        if path.starts_with(OWN_KEYS) {
            if let Some(name) = path.strip_prefix(change_row::FOLDER) {
                self.changes.put(name, entry);
            } else if let Some(name) = path.strip_prefix(ended::FOLDER) {
                self.ended.extend(ended::parse(name));
            }
            return;
        }
        self.remove(path);
        if !holds_object(path, &entry.value) {
            return;
        }
        let revisions = Revisions { created: entry.create_revision, changed: entry.mod_revision };
        self.insert(path, inspect(path, &entry.value), revisions);
    }

    pub(crate) fn insert(&mut self, path: &str, facts: Facts, revisions: Revisions) {
        let rank = rank_of(path);
        for (target, place) in &facts.references {
            self.users.entry(target.clone()).or_default().insert((rank, *place, path.into()));
        }
        for identity in &facts.identities {
            self.owners.entry(identity.clone()).or_default().insert(path.into());
        }
        for plugin in &facts.rule_plugins {
            self.rules.entry(plugin.clone()).or_default().insert(path.into());
        }
        for plugin in &facts.list_fields.plugins {
            *self.plugin_uses.entry(plugin.clone()).or_default() += 1;
        }
        self.collections.insert(path, revisions.created);
        let object = Object { facts, revisions };
        let collections: Vec<&str> = collections_of(path).collect();
        self.orders.insert(&collections, object.sortable(path));
        self.objects.insert(path.into(), object);
    }

    /// Whether a session was signed out.
    pub(crate) fn has_ended(&self, id: &SignInId) -> bool {
        self.ended.contains(id)
    }

    /// Returns the signed-out session to remove if at least `count` are stored: the first to
    /// expire.
    pub(crate) fn oldest_ended_beyond(&self, count: usize) -> Option<&SignInId> {
        self.ended.first().filter(|_| self.ended.len() >= count)
    }

    /// Removes the object, change row or session at a path.
    fn forget(&mut self, path: &str) {
        if let Some(name) = path.strip_prefix(change_row::FOLDER) {
            self.changes.remove(name);
        } else if let Some(id) = path.strip_prefix(ended::FOLDER).and_then(ended::parse) {
            self.ended.remove(&id);
        } else {
            self.remove(path);
        }
    }

    fn remove(&mut self, path: &str) {
        let Some(object) = self.objects.remove(path) else { return };
        let collections: Vec<&str> = collections_of(path).collect();
        self.orders.remove(&collections, object.sortable(path));
        let Object { facts, revisions } = object;
        self.collections.remove(path, revisions.created);
        let rank = rank_of(path);
        let path: Box<str> = path.into();
        for (target, place) in &facts.references {
            take(&mut self.users, target, &(rank, *place, path.clone()));
        }
        for identity in &facts.identities {
            take(&mut self.owners, identity, &path);
        }
        for plugin in &facts.list_fields.plugins {
            if let Some(uses) = self.plugin_uses.get_mut(plugin) {
                *uses = uses.saturating_sub(1);
            }
        }
        for plugin in &facts.rule_plugins {
            take(&mut self.rules, plugin, &path);
        }
    }

    /// Returns the revision up to which the index contains all commits.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the revision of the last commit that changed an object; change rows and guards do
    /// not count.
    pub(crate) fn objects_revision(&self) -> Revision {
        self.objects_revision
    }

    /// Iterates over the paths of all objects, in no particular order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(|path| &**path)
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Iterates over the paths of the objects that refer to the object at `path`. An object with a
    /// reference in a field and one in a plugin occurs twice.
    pub(crate) fn users_of(&self, path: &str) -> impl Iterator<Item = &str> {
        let users = self.users.get(path).into_iter().flatten();
        users.map(|(_, _, user)| &**user)
    }

    /// Returns the number of objects that contain this plugin.
    pub(crate) fn uses_of_plugin(&self, name: &str) -> usize {
        self.plugin_uses.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.objects.contains_key(path)
    }

    pub(crate) fn facts(&self, path: &str) -> Option<&Facts> {
        self.objects.get(path).map(|object| &object.facts)
    }

    /// Returns the number of objects in a collection.
    pub(crate) fn count(&self, collection: &str) -> usize {
        self.collections.count(collection)
    }

    /// Iterates over the objects of a collection in order of creation, optionally only those after
    /// `last`.
    pub(crate) fn created_after<'k>(
        &'k self,
        collection: &str,
        last: Option<&'k Creation>,
    ) -> impl Iterator<Item = &'k Creation> {
        self.collections.after(collection, last)
    }

    /// Builds the next part of a sorted view, of at most `objects_max` objects. Returns whether the
    /// view is complete.
    pub(crate) fn make_order(&mut self, key: OrderKey<'_>, objects_max: usize) -> bool {
        let Err(last_added) = self.orders.progress(key) else { return true };
        let part = self.collections.after(key.collection, last_added.as_ref()).take(objects_max);
        let part: Vec<&Creation> = part.collect();
        let last = part.last().filter(|_| part.len() == objects_max).map(|it| (*it).clone());
        let is_whole = last.is_none();
        let objects = part
            .into_iter()
            .filter_map(|(_, path)| self.objects.get(path).map(|object| object.sortable(path)));
        self.orders.extend(key, objects, last);
        is_whole
    }

    /// Iterates over the paths of a collection in the order of a complete sorted view, optionally
    /// only those after `last`. Each comes with its position.
    pub(crate) fn in_order<'k>(
        &'k self,
        key: OrderKey<'_>,
        direction: Direction,
        last: Option<&'k str>,
    ) -> impl Iterator<Item = (&'k str, &'k str)> {
        self.orders.after(key, direction, last)
    }

    /// Returns the first object in these collections that refers to the object at `path`.
    pub(crate) fn user_of(
        &self,
        path: &str,
        collections: &[&str],
    ) -> Option<(ReferenceKind, &str)> {
        let users = self.users.get(path)?;
        let mut matches = users.iter().filter(|(_, _, user)| {
            collections.iter().any(|collection| user.split('/').next() == Some(collection))
        });
        matches.next().map(|(_, place, user)| (*place, &**user))
    }

    /// Returns another object than `path` with this unique value.
    pub(crate) fn other_owner(&self, identity: &Identity, path: &str) -> Option<&str> {
        let owners = self.owners.get(identity)?;
        owners.iter().map(|owner| &**owner).find(|owner| *owner != path)
    }

    /// Returns another global rule than `path` with this plugin.
    pub(crate) fn other_rule(&self, plugin: &str, path: &str) -> Option<&str> {
        let rules = self.rules.get(plugin)?;
        let other = rules.iter().find(|rule| ***rule != *path)?;
        other.strip_prefix(GLOBAL_RULES)
    }
}

/// Removes a value from a key's set, and the set if it becomes empty.
fn take<K, V>(map: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V)
where
    K: std::hash::Hash + Eq,
    V: Ord,
{
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

/// Returns the index of a path's collection in [`RANKS`].
fn rank_of(path: &str) -> u8 {
    let collection = path.split('/').next().unwrap_or_default();
    let rank = RANKS.iter().position(|name| *name == collection);
    rank.and_then(|rank| u8::try_from(rank).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use tollhouse_model::change_row::{ChangeKind, ChangeRow, Way};
    use tollhouse_store::{Location, Transaction};

    use super::*;

    fn row(number: usize) -> (String, String) {
        let row = ChangeRow {
            at_ms: number as u64,
            actor: None,
            way: Way::Api,
            deed: ChangeKind::Create,
            path: format!("routes/{number}"),
            before: None,
            after: None,
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        };
        let name = change_row::key_of(row.at_ms, "a");
        (format!("/apisix/{}{name}", change_row::FOLDER), row.to_text())
    }

    #[tokio::test]
    async fn the_first_call_reads_all_objects_and_no_row_about_a_write() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let (objects, rows) = (OBJECTS_PER_TURN + 3, ROWS_PER_PAGE + 7);
        let put = |all: Transaction, (key, value): (String, String)| all.put(key, value);
        let routes = (0..objects).map(|number| (format!("/apisix/routes/{number}"), "{}".into()));
        let upstream = [("/apisix/upstreams/1".to_owned(), "{}".to_owned())];
        for pair in routes.chain((0..rows).map(row)).chain(upstream) {
            store.commit(put(Transaction::new(), pair)).await.expect("memory");
        }
        let inspect = Box::new(|_: &str, _: &[u8]| Facts::default());
        let index = Index::new(Arc::clone(&store), "/apisix/".into(), inspect);
        assert_eq!(index.contents().count("routes"), 0, "nothing is read before the first call");
        index.open().await.expect("it reads");
        let counts = |index: &Index| {
            let contents = index.contents();
            (contents.count("routes"), contents.exists("upstreams/1"), contents.changes().len())
        };
        assert_eq!(counts(&index), (objects, true, 0));
        // One row is deleted before the first query and one is added; neither counts twice.
        let (gone, _) = row(1);
        let change = put(Transaction::new().delete(gone), row(rows));
        index.expect(store.commit(change).await.expect("memory").revision);
        index.catch_up().await.expect("memory");
        assert_eq!(counts(&index), (objects, true, rows));
        assert_eq!(index.contents().changes().find(&change_row::key_of(1, "a")), None);
    }
}
