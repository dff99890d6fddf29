//! All objects of a source. Stored objects stay bytes until they are compiled, because the parsed
//! values of a large store take several times its memory.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind, Problem};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_proxy::Change;
use tollhouse_store::Entry;

use crate::metrics::ModifyIndexes;

/// Number of objects from which a thread parses ahead; fewer are parsed sooner than it starts.
const AHEAD_FROM: usize = 1000;

/// Number of objects that are handed over at once by the thread that parses ahead.
const CHUNK: usize = 256;

/// Number of chunks that are parsed ahead.
const CHUNKS_AHEAD: usize = 4;

/// Parser of APISIX's objects in a store.
pub struct ObjectReader {
    /// Prefix of the keys, such as `/apisix`.
    pub prefix: String,
    /// Known plugins, which define the encrypted fields.
    pub catalogue: Arc<Catalogue>,
    pub keyring: Arc<Keyring>,
    /// Receives the newest revision per kind.
    pub indexes: Arc<ModifyIndexes>,
}

impl ObjectReader {
    /// Parses an object and opens its secrets; `None` if the key is not that of an object.
    pub fn change(&self, entry: &Entry) -> Option<Change> {
        let (kind, id) = parse_store_key(&self.prefix, &entry.key)?;
        self.indexes.note(kind, entry.mod_revision.0);
        // A key without a value means a deleted object to APISIX gateways that share the store.
        if entry.value.is_empty() {
            return Some(Change::Delete { kind, id });
        }
        let path = format!("{kind}/{id}");
        let mut value = serde_json::from_slice(&entry.value)
            .map_err(|error| Problem::error(path.clone(), format!("invalid JSON: {error}")));
        if let Ok(value) = &mut value {
            let at = ObjectRef::new(kind, id.as_str());
            sealing::unseal_stored(at, value, &self.catalogue, &self.keyring);
        }
        Some(Change::Upsert { kind, id, value, path })
    }
}

/// All objects of a source, and changes that belong to them.
#[derive(Default)]
pub struct Objects {
    stored: Vec<Entry>,
    reader: Option<Arc<ObjectReader>>,
    /// Changes that are applied after the stored objects.
    more: Vec<Change>,
}

impl Objects {
    /// Creates a listing of the stored objects; keys of other things are left out. Stream routes are sorted by creation, because they are
    /// matched in that order; HTTP routes stay in key order, as in APISIX. Secret managers come
    /// first, because other objects refer to them.
    pub fn stored(mut entries: Vec<Entry>, reader: Arc<ObjectReader>) -> Self {
        entries.retain(|entry| parse_store_key(&reader.prefix, &entry.key).is_some());
        let streams = range_of(&entries, &reader.prefix, Kind::StreamRoute);
        entries[streams].sort_by_key(|entry| entry.create_revision);
        let secrets = range_of(&entries, &reader.prefix, Kind::Secret);
        entries[..secrets.end].rotate_left(secrets.start);
        Self { stored: entries, reader: Some(reader), more: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.more.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.stored.len() + self.more.len()
    }

    /// Adds changes that are applied after the stored objects.
    pub fn extend(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.more.extend(changes);
    }

    /// Removes the stored objects that `is_wanted` rejects by kind, id and stored value.
    pub fn retain_stored(&mut self, mut is_wanted: impl FnMut(Kind, Id, &[u8]) -> bool) {
        let Some(reader) = &self.reader else { return };
        self.stored.retain(|entry| {
            let Some((kind, id)) = parse_store_key(&reader.prefix, &entry.key) else {
                return true;
            };
            reader.indexes.note(kind, entry.mod_revision.0);
            is_wanted(kind, id, &entry.value)
        });
    }

    /// Returns the changes that are applied after the stored objects.
    pub fn more(&self) -> &[Change] {
        &self.more
    }

    /// Returns all changes; each object is parsed when it is taken.
    pub fn into_changes(self) -> impl Iterator<Item = Change> {
        let Self { stored, reader, more } = self;
        let parsed = stored.into_iter().filter_map(move |entry| reader.as_ref()?.change(&entry));
        parsed.chain(more)
    }

    /// Like [`Objects::into_changes`], but a thread parses ahead, so that a start uses two cores.
    pub fn into_changes_ahead(self) -> Box<dyn Iterator<Item = Change>> {
        if self.stored.len() < AHEAD_FROM {
            return Box::new(self.into_changes());
        }
        let Self { stored, reader, more } = self;
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let rest = Arc::new(std::sync::Mutex::new(Some((stored, reader))));
        let work = Arc::clone(&rest);
        let parse = move || {
            let taken = work.lock().ok().and_then(|mut work| work.take());
            let Some((stored, reader)) = taken else { return };
            let mut entries = stored.into_iter();
            while entries.len() > 0 {
                let chunk = entries.by_ref().take(CHUNK);
                let chunk = chunk.filter_map(|entry| reader.as_ref()?.change(&entry)).collect();
                if sender.send(chunk).is_err() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name("objects".to_owned()).spawn(parse) {
            Ok(thread) => {
                let thread = Some(thread);
                let ahead = ParsedAhead { chunks, chunk: Vec::new().into_iter(), thread };
                Box::new(ahead.chain(more))
            }
            // Without another thread, this one parses.
            Err(_) => {
                let taken = rest.lock().ok().and_then(|mut rest| rest.take());
                let (stored, reader) = taken.unwrap_or_default();
                Box::new(Self { stored, reader, more }.into_changes())
            }
        }
    }
}

impl From<Vec<Change>> for Objects {
    fn from(more: Vec<Change>) -> Self {
        Self { more, ..Self::default() }
    }
}

/// Hides the values, because they contain credentials.
impl fmt::Debug for Objects {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, more, .. } = self;
        write!(out, "Objects({} stored, {} more)", stored.len(), more.len())
    }
}

/// Objects that a thread parses ahead.
struct ParsedAhead {
    chunks: Receiver<Vec<Change>>,
    chunk: std::vec::IntoIter<Change>,
    thread: Option<JoinHandle<()>>,
}

impl Iterator for ParsedAhead {
    type Item = Change;

    /// # Panics
    /// If the thread has panicked, because the objects would otherwise end early.
    fn next(&mut self) -> Option<Change> {
        loop {
            if let Some(change) = self.chunk.next() {
                return Some(change);
            }
            match self.chunks.recv() {
                Ok(chunk) => self.chunk = chunk.into_iter(),
                Err(_) => {
                    if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                        resume_unwind(panic);
                    }
                    return None;
                }
            }
        }
    }
}

/// Returns the range of a kind's objects in entries that are sorted by key.
fn range_of(entries: &[Entry], prefix: &str, kind: Kind) -> std::ops::Range<usize> {
    let folder = format!("{prefix}/{kind}/");
    let start = entries.partition_point(|entry| *entry.key < *folder);
    let count = entries[start..].partition_point(|entry| entry.key.starts_with(&folder));
    start..start + count
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Revision;

    use super::*;

    fn entry(key: String, create_revision: u64) -> Entry {
        Entry {
            key: key.into(),
            value: "{}".into(),
            create_revision: Revision(create_revision),
            mod_revision: Revision(create_revision),
            expires_at_ms: None,
        }
    }

    fn objects(mut keys: Vec<(String, u64)>) -> Objects {
        keys.sort();
        let reader = ObjectReader {
            prefix: "/apisix".to_owned(),
            catalogue: crate::plugins::catalogue(),
            keyring: Arc::new(Keyring::generate().expect("random numbers")),
            indexes: Arc::default(),
        };
        let entries = keys.into_iter().map(|(key, revision)| entry(key, revision)).collect();
        Objects::stored(entries, Arc::new(reader))
    }

    fn places(changes: impl Iterator<Item = Change>) -> Vec<String> {
        let place = |change| match change {
            Change::Upsert { path, value: Ok(_), .. } => path,
            other => format!("{other:?}"),
        };
        changes.map(place).collect()
    }

    #[test]
    fn secrets_come_first_and_stream_routes_by_creation() {
        let key = |path: &str, revision| (format!("/apisix/{path}"), revision);
        let listed = objects(vec![
            key("consumers/jack", 1),
            key("routes/1", 2),
            key("secrets/vault/a", 5),
            key("stream_routes/1", 4),
            key("stream_routes/2", 3),
            key("upstreams/1", 6),
        ]);
        let expected = [
            "secrets/vault/a",
            "consumers/jack",
            "routes/1",
            "stream_routes/2",
            "stream_routes/1",
            "upstreams/1",
        ];
        assert_eq!(places(listed.into_changes()), expected);
    }

    #[test]
    fn a_thread_that_parses_ahead_keeps_the_order_and_the_changes_after_the_objects() {
        let all = || {
            let key = |number| (format!("/apisix/routes/{number:05}"), number);
            let mut listed = objects((0..AHEAD_FROM as u64 + 300).map(key).collect());
            listed.extend([Change::Delete { kind: Kind::Route, id: Id::new("x") }]);
            listed
        };
        assert_eq!(places(all().into_changes_ahead()), places(all().into_changes()));
    }
}
