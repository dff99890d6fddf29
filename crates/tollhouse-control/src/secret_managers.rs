//! Secret managers: fetches the values behind `$secret://…` references ahead of requests, and
//! refreshes them regularly. `$config://…` references are read from the registry of this process.
//!
//! Configurations are compiled with the cached values. A reference that is not cached yet has no
//! value, so that plugins that protect a route refuse requests. The value is fetched at once, and
//! objects that refer to it are compiled again. No request waits for a secret manager. If a manager
//! is unreachable, its last values stay in use for at most [`LAST_GOOD_TIME`]. If a manager reports
//! that a value no longer exists, the value is dropped at once, with the version of the objects
//! compiled with it.

mod files;
mod vault;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollhouse_model::secret::{
    Manager, Secret, SecretManager, SecretRef, SecretSource, Vault, has_references,
};
use tollhouse_model::{Id, Kind, Problem};
use tollhouse_proxy::Change;
use tollhouse_registry::config::ConfigFileKey;

use self::files::{Files, Unfollowed};
use self::vault::{Fields, NoFields};

/// Age at which a value is refreshed. APISIX refreshes every five minutes.
const REFRESH_TIME: Duration = Duration::from_secs(60);

/// Delay before a request to an unreachable manager is repeated.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// Duration for which the last values of an unreachable manager stay in use.
const LAST_GOOD_TIME: Duration = Duration::from_secs(24 * 3600);

/// Limits of cached paths, and of cached bytes in total.
const PATHS_MAX: usize = 4096;
const BYTES_MAX: usize = 16 << 20;

/// Maximum number of concurrent fetches of secrets.
const ASKED_MAX: usize = 8;

/// Manager, its id, and a path in it.
type SecretPath = (Manager, String, String);

/// Place outside of an object that the object refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Secret(SecretPath),
    File(ConfigFileKey),
}

/// Cache of secret managers' values. References to other sources go to `others`.
pub struct SecretManagers {
    others: Box<dyn SecretSource + Send + Sync>,
    files: Files,
    state: Mutex<State>,
    /// Wakes the fetcher when a path is due.
    wanted: Notify,
    /// Wakes the compiler when a fetched value or failure has changed.
    changed: Notify,
}

#[derive(Default)]
struct State {
    managers: BTreeMap<(Manager, String), Vault>,
    cache: BTreeMap<SecretPath, CachedSecret>,
    bytes: usize,
    /// Objects with references, to be compiled again when a value changes.
    referring: BTreeMap<(Kind, Id), Referring>,
    changed: BTreeSet<Place>,
    gone: BTreeSet<Place>,
    /// Files whose releases are not followed.
    unfollowed: Option<Unfollowed>,
    version: u64,
}

struct CachedSecret {
    fields: Option<Fields>,
    /// Time of the manager's last answer about the path.
    known_at: Option<Instant>,
    due_at: Instant,
    is_asked: bool,
    failure: Option<String>,
}

struct Referring {
    value: Value,
    path: String,
    places: BTreeSet<Place>,
}

impl std::fmt::Debug for SecretManagers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SecretManagers({} paths)", self.state().cache.len())
    }
}

impl SecretSource for SecretManagers {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        let (manager, id, key) = match reference {
            SecretRef::Keeper { manager, id, key } => (manager, id, key),
            SecretRef::File { key, .. } => {
                return self.files.value(&files::key_of(reference)?, key.as_deref());
            }
            SecretRef::Environment { .. } => return self.others.fetch(reference),
        };
        let (path, field) = split(key)?;
        let place = (*manager, id.clone(), path.to_owned());
        let mut state = self.state();
        if let Some(entry) = state.cache.get(&place) {
            let fields = entry.fields.as_ref()?;
            return fields.get(field).map(|value| value.expose().to_owned());
        }
        if *manager == Manager::Vault && state.cache.len() < PATHS_MAX {
            state.cache.insert(place, CachedSecret::new());
            drop(state);
            self.wanted.notify_one();
        }
        None
    }

    fn may_read(&self, reference: &SecretRef) -> bool {
        self.others.may_read(reference)
    }
}

/// Splits a reference's key into path and field.
fn split(key: &str) -> Option<(&str, &str)> {
    key.rsplit_once('/').filter(|(path, field)| !path.is_empty() && !field.is_empty())
}

impl CachedSecret {
    fn new() -> Self {
        let due_at = Instant::now();
        Self { fields: None, known_at: None, due_at, is_asked: false, failure: None }
    }

    /// Whether no fetch of the path has ended yet, successfully or not.
    fn is_unknown(&self) -> bool {
        self.known_at.is_none() && self.failure.is_none()
    }

    fn bytes(&self) -> usize {
        let fields = self.fields.iter().flatten();
        fields.map(|(name, value)| name.len() + value.expose().len()).sum()
    }
}

impl SecretManagers {
    /// Starts without any manager; [`SecretManagers::note`] adds them.
    pub fn new(others: Box<dyn SecretSource + Send + Sync>) -> Self {
        let (wanted, changed) = (Notify::new(), Notify::new());
        Self { others, files: Files::default(), state: Mutex::default(), wanted, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change before it is compiled: manager objects, and the references of other
    /// objects.
    pub fn note(&self, change: &Change) {
        match change {
            Change::Upsert { kind: Kind::Secret, id, value: Ok(value), path } => {
                let keeper = Secret::parse(id.clone(), value, path).0;
                self.set_keeper(id, keeper.map(|secret| secret.keeper));
            }
            Change::Delete { kind: Kind::Secret, id } => self.set_keeper(id, None),
            Change::Upsert { kind, id, value: Ok(value), path } => {
                let key = (*kind, id.clone());
                let places = places_in(value);
                let names_files = places.iter().any(|place| matches!(place, Place::File(_)));
                let mut state = self.state();
                if places.is_empty() {
                    state.referring.remove(&key);
                } else {
                    let (value, path) = (value.clone(), path.clone());
                    state.referring.insert(key, Referring { value, path, places });
                }
                drop(state);
                if names_files {
                    self.files.note_named();
                }
            }
            Change::Delete { kind, id } => {
                self.state().referring.remove(&(*kind, id.clone()));
            }
            _ => {}
        }
    }

    fn set_keeper(&self, key: &Id, keeper: Option<SecretManager>) {
        let Some((manager, id)) = Secret::split_key(key.as_str()) else { return };
        let key = (manager, id.to_owned());
        let mut state = self.state();
        let State { managers, cache, .. } = &mut *state;
        match keeper {
            Some(SecretManager::Vault(vault)) => drop(managers.insert(key.clone(), vault)),
            Some(_) | None => drop(managers.remove(&key)),
        }
        // Values are fetched again, because the new manager may have others; cached values stay in
        // use until then.
        for (_, entry) in
            cache.iter_mut().filter(|(place, _)| (place.0, &place.1) == (key.0, &key.1))
        {
            entry.due_at = Instant::now();
        }
        drop(state);
        self.wanted.notify_one();
    }

    /// Waits until a fetched value or a failure has changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until every requested path has been fetched once, or the timeout has passed. Returns
    /// whether any was pending.
    pub async fn are_asked(&self, longest: Duration) -> bool {
        let is_waiting = || self.state().cache.values().any(|entry| entry.is_unknown());
        if !is_waiting() {
            return false;
        }
        let all_known = async {
            while is_waiting() {
                self.changed().await;
            }
        };
        let _ = tokio::time::timeout(longest, all_known).await;
        true
    }

    /// Returns the changes that recompile all objects whose secret values have changed. An object
    /// whose value no longer exists is deleted first, so that its last good version does not stay
    /// in service.
    pub fn take_changes(&self) -> Vec<Change> {
        let mut state = self.state();
        let changed = std::mem::take(&mut state.changed);
        let gone = std::mem::take(&mut state.gone);
        let mut changes = Vec::new();
        for ((kind, id), object) in &state.referring {
            let is_gone = !object.places.is_disjoint(&gone);
            if is_gone {
                changes.push(Change::Delete { kind: *kind, id: id.clone() });
            }
            if is_gone || !object.places.is_disjoint(&changed) {
                let (value, path) = (Ok(object.value.clone()), object.path.clone());
                changes.push(Change::Upsert { kind: *kind, id: id.clone(), value, path });
            }
        }
        changes
    }

    /// Returns the fetch errors, as one problem per path, and one about files that are not followed.
    pub fn problems(&self) -> Vec<Problem> {
        let state = self.state();
        let problems = state.cache.iter().filter_map(|((manager, id, path), entry)| {
            let failure = entry.failure.as_ref()?;
            let place = format!("secrets/{}/{id}", manager.name());
            let reason = format!("{path} cannot be fetched: {failure}");
            let problem = Problem::warning(place, reason);
            Some(match (&entry.fields, entry.known_at) {
                (Some(_), Some(known_at)) => problem.with_hint(format!(
                    "the value fetched {} s ago stays in use, for at most {} h",
                    (Instant::now() - known_at).as_secs(),
                    LAST_GOOD_TIME.as_secs() / 3600
                )),
                _ => problem.with_hint(
                    "references to it have no value: plugins that need it refuse requests",
                ),
            })
        });
        problems.chain(state.unfollowed.as_ref().map(Unfollowed::problem)).collect()
    }

    /// Returns the counter that rises when the problems change.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Fetches requested and expired values; never returns.
    pub async fn run(self: Arc<Self>) {
        let mut fetches: JoinSet<(SecretPath, Result<Fields, NoFields>)> = JoinSet::new();
        loop {
            let wait = loop {
                let next =
                    if fetches.len() < ASKED_MAX { self.next_due() } else { Err(RETRY_TIME) };
                match next {
                    Ok((place, vault)) => {
                        let token = self.token(&vault);
                        fetches.spawn(async move {
                            let answer = match vault {
                                Some(vault) => vault::ask(&vault, &token, &place.2).await,
                                None => Err(NoFields::Gone),
                            };
                            (place, answer)
                        });
                    }
                    Err(wait) => break wait,
                }
            };
            tokio::select! {
                Some(Ok((place, answer))) = fetches.join_next() => self.take(place, answer),
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Returns the manager's token; a reference to an environment variable is resolved. An unset
    /// variable gives an empty token.
    fn token(&self, vault: &Option<Vault>) -> String {
        let text = vault.as_ref().map_or("", |vault| vault.token.expose());
        match SecretRef::parse(text) {
            Some(reference @ SecretRef::Environment { .. }) => {
                self.others.fetch(&reference).unwrap_or_default()
            }
            _ => text.to_owned(),
        }
    }

    /// Returns the next path to fetch, with its manager if that exists; otherwise the time until a
    /// path is due.
    fn next_due(&self) -> Result<(SecretPath, Option<Vault>), Duration> {
        let mut state = self.state();
        let State { managers, cache, referring, bytes, .. } = &mut *state;
        let now = Instant::now();
        let mut wait = REFRESH_TIME;
        let mut unused = Vec::new();
        for (place, entry) in cache.iter_mut().filter(|(_, entry)| !entry.is_asked) {
            if entry.due_at > now {
                wait = wait.min(entry.due_at - now);
                continue;
            }
            // A path without references is dropped when it is due.
            let used = Place::Secret(place.clone());
            let is_used = referring.values().any(|object| object.places.contains(&used));
            if !is_used && !entry.is_unknown() {
                unused.push(place.clone());
                continue;
            }
            entry.is_asked = true;
            return Ok((place.clone(), managers.get(&(place.0, place.1.clone())).cloned()));
        }
        for place in unused {
            *bytes -= cache.remove(&place).map_or(0, |entry| entry.bytes());
        }
        Err(wait)
    }

    fn take(&self, place: SecretPath, answer: Result<Fields, NoFields>) {
        let mut state = self.state();
        let State { cache, bytes, changed, gone, version, .. } = &mut *state;
        let Some(entry) = cache.get_mut(&place) else { return };
        let now = Instant::now();
        entry.is_asked = false;
        let before = entry.bytes();
        let had = entry.fields.is_some();
        let failure = match answer {
            Ok(fields) => {
                entry.known_at = Some(now);
                entry.due_at = now + REFRESH_TIME;
                let is_changed = entry.fields.as_ref() != Some(&fields);
                if is_changed {
                    changed.insert(Place::Secret(place.clone()));
                }
                entry.fields = Some(fields);
                None
            }
            Err(NoFields::Gone) => {
                entry.known_at = Some(now);
                entry.due_at = now + REFRESH_TIME;
                entry.fields = None;
                Some("there is nothing at this path, or no such keeper".to_owned())
            }
            Err(NoFields::Unknown(reason)) => {
                entry.due_at = now + RETRY_TIME;
                let is_old = entry.known_at.is_none_or(|known_at| now - known_at > LAST_GOOD_TIME);
                if is_old {
                    entry.fields = None;
                }
                Some(reason)
            }
        };
        *bytes = *bytes - before + entry.bytes();
        let failure = if *bytes > BYTES_MAX {
            *bytes -= entry.bytes();
            entry.fields = None;
            Some(format!("all secrets together are longer than {BYTES_MAX} bytes"))
        } else {
            failure
        };
        if had && entry.fields.is_none() {
            gone.insert(Place::Secret(place));
        }
        let is_news = entry.failure != failure;
        entry.failure = failure;
        *version += u64::from(is_news);
        let tells = is_news || !changed.is_empty() || !gone.is_empty();
        drop(state);
        if tells {
            self.changed.notify_one();
        }
    }
}

/// Returns the paths in secret managers, and the files, that a value refers to.
fn places_in(value: &Value) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    if !has_references(value) {
        return places;
    }
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => places.extend(place_of(text)),
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            _ => {}
        }
    }
    places
}

fn place_of(text: &str) -> Option<Place> {
    match SecretRef::parse(text)? {
        SecretRef::Keeper { manager, id, key } => {
            let (path, _) = split(&key)?;
            Some(Place::Secret((manager, id, path.to_owned())))
        }
        reference @ SecretRef::File { .. } => files::key_of(&reference).map(Place::File),
        SecretRef::Environment { .. } => None,
    }
}

#[cfg(test)]
mod tests;
