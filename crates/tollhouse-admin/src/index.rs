//! What checks and lists need to know of objects without reading the store: which exist, who names
//! whom, whose credentials are whose, and what lists are filtered and ordered by.
//!
//! It is built of a listing once and follows the store's commits from then on: whoever asks first
//! lets it catch up, so nothing runs when nothing is asked. Answers are as of the last commit of
//! this process at least. Each question costs a look-up, however many objects there are.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollhouse_model::change_row;
use tollhouse_store::{
    Changes as Commit, Entry, Event, Listing, Lost, Revision, Store, StoreError, Watch, WatchEvent,
};

use crate::limits::OBJECTS_PER_TURN;
use crate::references::Place;
use crate::session::SignInId;
use crate::sign_in::ended;

pub(crate) mod changes;
pub(crate) mod collections;
pub(crate) mod facts;
pub(crate) mod orders;

use self::changes::Changes;
use self::collections::{Collections, Creation, collections_of};
use self::facts::{Facts, GLOBAL_RULES, Identity};
use self::orders::{Ordered, Orders, SortBy};

/// Makes facts of a value; the path is without the key prefix: `routes/1`.
pub(crate) type Inspect = dyn Fn(&str, &[u8]) -> Facts + Send + Sync;

/// The index over a store.
pub(crate) struct Index {
    store: Arc<dyn Store>,
    /// `/apisix/`.
    prefix: String,
    inspect: Box<Inspect>,
    /// Whoever holds it lets the index catch up.
    following: tokio::sync::Mutex<Following>,
    known: Mutex<Known>,
    /// The newest commit of this process.
    expected: AtomicU64,
}

/// How far the store is followed.
struct Following {
    watch: Watch,
    /// The row about a write up to which rows are known; `None` once all are. A start does without them: there are some
    /// thousand, with what objects were, and nobody asks for them before the first call. Whoever asks and gives up
    /// meanwhile leaves the rest to the next one.
    rows_after: Option<String>,
}

impl Following {
    fn new(watch: Watch) -> Self {
        Self { watch, rows_after: Some(String::new()) }
    }
}

/// What is known of all objects.
#[derive(Default)]
pub(crate) struct Known {
    /// Up to where the store's commits are known.
    revision: Revision,
    /// Where objects were changed last.
    objects_revision: Revision,
    objects: HashMap<Box<str>, Object>,
    collections: Collections,
    /// Collections in other orders.
    orders: Orders,
    users: HashMap<Box<str>, BTreeSet<User>>,
    owners: HashMap<Identity, BTreeSet<Box<str>>>,
    /// Which global rules have a plugin.
    rules: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// How many objects have a plugin.
    plugin_uses: HashMap<Box<str>, usize>,
    /// What is kept of writes.
    changes: Changes,
    /// Sign-ins whose owners have signed out, by their ends.
    ended: BTreeSet<SignInId>,
}

struct Object {
    facts: Facts,
    created: Revision,
    changed: Revision,
}

impl Object {
    fn ordered<'a>(&'a self, path: &'a str) -> Ordered<'a> {
        let Self { facts, created, changed } = self;
        Ordered { path, listed: &facts.listed, created: *created, changed: *changed }
    }
}

/// An object that names another: its collection's rank, how, and its path.
type User = (u8, Place, Box<str>);

/// Collections in the order in which they are asked whether they use an object.
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

/// Longest wait for the store to pass on what it has: a shared one may be away. A commit comes back within
/// milliseconds as a rule, and whoever calls is to hear soon that it does not.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// Rows about writes that are read at once: with what objects were, each has some hundred bytes to 256 KiB.
const ROWS_PER_PAGE: usize = 200;

/// What the gateway itself keeps under the prefix, which are no objects.
pub(crate) const OWN_KEYS: &str = "tollhouse/";

impl Index {
    /// Of all that the store holds under the prefix.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        prefix: String,
        inspect: Box<Inspect>,
    ) -> Result<Self, StoreError> {
        let known = read_all(&*store, &prefix, &*inspect).await?;
        let following = Following::new(store.watch(&prefix, known.revision));
        let following = tokio::sync::Mutex::new(following);
        let expected = AtomicU64::new(known.revision.0);
        Ok(Self { store, prefix, inspect, following, known: Mutex::new(known), expected })
    }

    /// Notes a commit of this process: who looks from now on wants to see it.
    pub(crate) fn expect(&self, revision: Revision) {
        self.expected.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Makes known what was committed, this process's own commits included.
    ///
    /// # Errors
    /// The store cannot be read, or is silent about what this process has committed.
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
        let mut expected = Revision(self.expected.load(Ordering::Acquire));
        let mut following = self.following.lock().await;
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
                // What is known stands, and reads go on for as long as the store answers them.
                WatchEvent::Lost(Lost::Closed) => return Ok(()),
                WatchEvent::Lost(
                    Lost::Compacted { .. } | Lost::Rewound { .. } | Lost::Unavailable { .. },
                ) => {
                    let committed = self.expected.load(Ordering::Acquire);
                    let known = read_all(&*self.store, &self.prefix, &*self.inspect).await?;
                    // A listing has every commit that was confirmed before it was asked for. Where its revision is
                    // lower all the same, the store was restored from a copy, and those commits are no more: whoever
                    // waited for them would wait for as many new ones.
                    if known.revision.0 < committed {
                        let (lower, order) = (known.revision.0, Ordering::Relaxed);
                        // It fails where somebody has committed meanwhile, which is waited for.
                        let _ = self.expected.compare_exchange(committed, lower, order, order);
                    }
                    expected = expected.min(known.revision);
                    *following = Following::new(self.store.watch(&self.prefix, known.revision));
                    *self.lock() = known;
                }
            }
        }
    }

    /// Reads the rows about writes, where that was not done yet. Commits that these pages show already are taken in after
    /// them, so that what they took away does not come back. A store that is away keeps nobody from what is known.
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
            let mut known = self.lock();
            for row in &page {
                known.put(row, &self.prefix, &*self.inspect);
            }
        }
    }

    /// What was known when it last caught up. Not to be held while waiting.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything but the rows about writes, as of the revision of the first page at least: whoever follows the commits from
/// there meets what later pages show once more, and ends at the same.
async fn read_all(store: &dyn Store, prefix: &str, inspect: &Inspect) -> Result<Known, StoreError> {
    let mut known = Known::default();
    let mut after = String::new();
    let rows = format!("{prefix}{}", change_row::FOLDER);
    loop {
        let Listing { revision, entries } =
            store.list_page(prefix, &after, OBJECTS_PER_TURN).await?;
        if after.is_empty() {
            (known.revision, known.objects_revision) = (revision, revision);
        }
        let Some(last) = entries.last() else { return Ok(known) };
        // Behind the last of them: no key is greater and begins so.
        after = match last.key.starts_with(&rows) {
            true => format!("{rows}{}", char::MAX),
            false => last.key.to_string(),
        };
        for entry in entries.iter().filter(|entry| !entry.key.starts_with(&rows)) {
            known.put(entry, prefix, inspect);
        }
        tokio::task::yield_now().await;
    }
}

/// Whether an entry is an object: APISIX marks its folders with keys of their own, and gateways that
/// share a store take what has no value for deleted.
pub(crate) fn holds_object(key: &str, value: &[u8]) -> bool {
    !key.ends_with('/') && !value.is_empty()
}

impl Known {
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
        let versions = (entry.create_revision, entry.mod_revision);
        self.insert(path, inspect(path, &entry.value), versions);
    }

    /// Takes an object in, which was created and changed at these revisions.
    pub(crate) fn insert(
        &mut self,
        path: &str,
        facts: Facts,
        (created, changed): (Revision, Revision),
    ) {
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
        for plugin in &facts.listed.plugins {
            *self.plugin_uses.entry(plugin.clone()).or_default() += 1;
        }
        self.collections.insert(path, created);
        let object = Object { facts, created, changed };
        let collections: Vec<&str> = collections_of(path).collect();
        self.orders.insert(&collections, object.ordered(path));
        self.objects.insert(path.into(), object);
    }

    /// Whether a sign-in has ended.
    pub(crate) fn has_ended(&self, id: &SignInId) -> bool {
        self.ended.contains(id)
    }

    /// The ended sign-in that makes room for another one, where as many are kept.
    pub(crate) fn oldest_ended_beyond(&self, count: usize) -> Option<&SignInId> {
        self.ended.first().filter(|_| self.ended.len() >= count)
    }

    /// Takes out what was deleted at a path, whatever it was.
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
        self.orders.remove(&collections, object.ordered(path));
        let Object { facts, created, .. } = object;
        self.collections.remove(path, created);
        let rank = rank_of(path);
        let path: Box<str> = path.into();
        for (target, place) in &facts.references {
            take(&mut self.users, target, &(rank, *place, path.clone()));
        }
        for identity in &facts.identities {
            take(&mut self.owners, identity, &path);
        }
        for plugin in &facts.listed.plugins {
            if let Some(uses) = self.plugin_uses.get_mut(plugin) {
                *uses = uses.saturating_sub(1);
            }
        }
        for plugin in &facts.rule_plugins {
            take(&mut self.rules, plugin, &path);
        }
    }

    /// Up to where the store's commits are known.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The last commit that put an object or took one away; rows and guards are none.
    pub(crate) fn objects_revision(&self) -> Revision {
        self.objects_revision
    }

    /// The paths of all objects, in no defined order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(|path| &**path)
    }

    /// The rows about writes.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The objects that name the one of this path, each once.
    pub(crate) fn users_of(&self, path: &str) -> impl Iterator<Item = &str> {
        let users = self.users.get(path).into_iter().flatten();
        users.map(|(_, _, user)| &**user)
    }

    /// How many objects have this plugin.
    pub(crate) fn uses_of_plugin(&self, name: &str) -> usize {
        self.plugin_uses.get(name).copied().unwrap_or_default()
    }

    /// Whether there is an object of this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.objects.contains_key(path)
    }

    /// What is known of one object.
    pub(crate) fn facts(&self, path: &str) -> Option<&Facts> {
        self.objects.get(path).map(|object| &object.facts)
    }

    /// How many objects a collection has.
    pub(crate) fn count(&self, collection: &str) -> usize {
        self.collections.count(collection)
    }

    /// The objects of a collection by creation, those after one of them or all.
    pub(crate) fn created_after<'k>(
        &'k self,
        collection: &str,
        last: Option<&'k Creation>,
    ) -> impl Iterator<Item = &'k Creation> {
        self.collections.after(collection, last)
    }

    /// Makes a part of an order, of so many objects; whether it is whole.
    pub(crate) fn make_order(&mut self, collection: &str, by: SortBy, objects_max: usize) -> bool {
        let Err(made_to) = self.orders.progress(collection, by) else { return true };
        let part = self.collections.after(collection, made_to.as_ref()).take(objects_max);
        let part: Vec<&Creation> = part.collect();
        let last = part.last().filter(|_| part.len() == objects_max).map(|it| (*it).clone());
        let is_whole = last.is_none();
        let objects = part
            .into_iter()
            .filter_map(|(_, path)| self.objects.get(path).map(|object| object.ordered(path)));
        self.orders.extend((collection, by), objects, last);
        is_whole
    }

    /// The paths of a collection in an order that was made, those behind a place or all; each with its place.
    pub(crate) fn in_order<'k>(
        &'k self,
        (collection, by): (&str, SortBy),
        last: Option<&'k str>,
        is_descending: bool,
    ) -> impl Iterator<Item = (&'k str, &'k str)> {
        self.orders.after((collection, by), last, is_descending)
    }

    /// The first object of these collections that names the one of this path.
    pub(crate) fn user_of(&self, path: &str, collections: &[&str]) -> Option<(Place, &str)> {
        let users = self.users.get(path)?;
        let mut found = users.iter().filter(|(_, _, user)| {
            collections.iter().any(|collection| user.split('/').next() == Some(collection))
        });
        found.next().map(|(_, place, user)| (*place, &**user))
    }

    /// An object other than `path` that has this identity.
    pub(crate) fn other_owner(&self, identity: &Identity, path: &str) -> Option<&str> {
        let owners = self.owners.get(identity)?;
        owners.iter().map(|owner| &**owner).find(|owner| *owner != path)
    }

    /// A global rule other than `path` that has this plugin.
    pub(crate) fn other_rule(&self, plugin: &str, path: &str) -> Option<&str> {
        let rules = self.rules.get(plugin)?;
        let other = rules.iter().find(|rule| ***rule != *path)?;
        other.strip_prefix(GLOBAL_RULES)
    }
}

/// Takes a value out of the set of a key; a set that is empty then goes too.
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

/// Where the collection of a path stands among those that are asked.
fn rank_of(path: &str) -> u8 {
    let collection = path.split('/').next().unwrap_or_default();
    let rank = RANKS.iter().position(|name| *name == collection);
    rank.and_then(|rank| u8::try_from(rank).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use tollhouse_model::change_row::{ChangeRow, Deed, Way};
    use tollhouse_store::{Location, Transaction};

    use super::*;

    fn row(number: usize) -> (String, String) {
        let row = ChangeRow {
            at_ms: number as u64,
            actor: None,
            way: Way::Api,
            deed: Deed::Create,
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
    async fn a_start_reads_all_objects_and_no_row_about_a_write() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let (objects, rows) = (OBJECTS_PER_TURN + 3, ROWS_PER_PAGE + 7);
        let put = |all: Transaction, (key, value): (String, String)| all.put(key, value);
        let routes = (0..objects).map(|number| (format!("/apisix/routes/{number}"), "{}".into()));
        let upstream = [("/apisix/upstreams/1".to_owned(), "{}".to_owned())];
        for pair in routes.chain((0..rows).map(row)).chain(upstream) {
            store.commit(put(Transaction::new(), pair)).await.expect("memory");
        }
        let inspect = Box::new(|_: &str, _: &[u8]| Facts::default());
        let index =
            Index::open(Arc::clone(&store), "/apisix/".into(), inspect).await.expect("it reads");
        let counts = |index: &Index| {
            let known = index.known();
            (known.count("routes"), known.exists("upstreams/1"), known.changes().len())
        };
        assert_eq!(counts(&index), (objects, true, 0));
        // One goes before anybody has asked, one comes, and neither is told twice.
        let (gone, _) = row(1);
        let change = put(Transaction::new().delete(gone), row(rows));
        index.expect(store.commit(change).await.expect("memory").revision);
        index.catch_up().await.expect("memory");
        assert_eq!(counts(&index), (objects, true, rows));
        assert_eq!(index.known().changes().find(&change_row::key_of(1, "a")), None);
    }
}
