//! Keepers of secrets: what `$secret://…` refers to, fetched ahead of requests, kept for a while and fetched anew.
//!
//! Confs are compiled with what is kept. A reference that nobody has asked for yet has no value, so that what protects
//! refuses; it is fetched at once, and the objects that name it are compiled once more. No request waits for a keeper.
//! While a keeper does not answer, what it said last goes on, for [`LAST_GOOD_TIME`] at most; what it says is no more
//! there is gone at once, with the version of the object that was made of it.

mod vault;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollhouse_model::secret::{
    Keeper, Manager, Secret, SecretRef, SecretSource, Vault, has_references,
};
use tollhouse_model::{Id, Kind, Problem};
use tollhouse_proxy::Change;

use self::vault::{Fields, NoFields};

/// How old a value may be before it is fetched anew. APISIX looks every five minutes.
const REFRESH_TIME: Duration = Duration::from_secs(60);

/// How long a keeper that does not answer is left alone.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// How long the last good values of a keeper go on that does not answer.
const LAST_GOOD_TIME: Duration = Duration::from_secs(24 * 3600);

/// Paths of keepers that are kept, at most; and bytes of what stands there.
const PATHS_MAX: usize = 4096;
const BYTES_MAX: usize = 16 << 20;

/// Paths that are asked for at one time.
const ASKED_MAX: usize = 8;

/// A path of a keeper.
type Place = (Manager, String, String);

/// See the module. What does not come of a keeper is answered by `others`.
pub struct Keepers {
    others: Box<dyn SecretSource + Send + Sync>,
    state: Mutex<State>,
    /// Something is to be fetched.
    wanted: Notify,
    /// Something was fetched that differs.
    changed: Notify,
}

#[derive(Default)]
struct State {
    keepers: BTreeMap<(Manager, String), Vault>,
    kept: BTreeMap<Place, Kept>,
    bytes: usize,
    /// Objects that refer to keepers, to be compiled once more.
    referring: BTreeMap<(Kind, Id), Referring>,
    changed: BTreeSet<Place>,
    gone: BTreeSet<Place>,
    version: u64,
}

struct Kept {
    fields: Option<Fields>,
    /// When the keeper has last said something of it.
    known_at: Option<Instant>,
    due_at: Instant,
    is_asked: bool,
    /// Why nothing newer is known.
    failure: Option<String>,
}

struct Referring {
    value: Value,
    path: String,
    places: BTreeSet<Place>,
}

impl std::fmt::Debug for Keepers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Keepers({} paths)", self.state().kept.len())
    }
}

impl SecretSource for Keepers {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        let SecretRef::Keeper { manager, id, key } = reference else {
            return self.others.fetch(reference);
        };
        let (path, field) = split(key)?;
        let place = (*manager, id.clone(), path.to_owned());
        let mut state = self.state();
        if let Some(kept) = state.kept.get(&place) {
            let fields = kept.fields.as_ref()?;
            return fields.get(field).map(|value| value.expose().to_owned());
        }
        if *manager == Manager::Vault && state.kept.len() < PATHS_MAX {
            state.kept.insert(place, Kept::new());
            drop(state);
            self.wanted.notify_one();
        }
        None
    }

    fn may_read(&self, reference: &SecretRef) -> bool {
        self.others.may_read(reference)
    }
}

/// The path and the field that a reference names.
fn split(key: &str) -> Option<(&str, &str)> {
    key.rsplit_once('/').filter(|(path, field)| !path.is_empty() && !field.is_empty())
}

impl Kept {
    fn new() -> Self {
        let due_at = Instant::now();
        Self { fields: None, known_at: None, due_at, is_asked: false, failure: None }
    }

    /// Whether nothing has been said of it yet, not even that nobody answers.
    fn is_unknown(&self) -> bool {
        self.known_at.is_none() && self.failure.is_none()
    }

    fn bytes(&self) -> usize {
        let fields = self.fields.iter().flatten();
        fields.map(|(name, value)| name.len() + value.expose().len()).sum()
    }
}

impl Keepers {
    /// Knows no keeper yet.
    pub fn new(others: Box<dyn SecretSource + Send + Sync>) -> Self {
        let (wanted, changed) = (Notify::new(), Notify::new());
        Self { others, state: Mutex::default(), wanted, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a change before it is compiled: keepers, and who refers to them.
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
                let mut state = self.state();
                if places.is_empty() {
                    state.referring.remove(&key);
                } else {
                    let (value, path) = (value.clone(), path.clone());
                    state.referring.insert(key, Referring { value, path, places });
                }
            }
            Change::Delete { kind, id } => {
                self.state().referring.remove(&(*kind, id.clone()));
            }
            _ => {}
        }
    }

    fn set_keeper(&self, key: &Id, keeper: Option<Keeper>) {
        let Some((manager, id)) = Secret::split_key(key.as_str()) else { return };
        let key = (manager, id.to_owned());
        let mut state = self.state();
        let State { keepers, kept, .. } = &mut *state;
        match keeper {
            Some(Keeper::Vault(vault)) => drop(keepers.insert(key.clone(), vault)),
            Some(_) | None => drop(keepers.remove(&key)),
        }
        // Another keeper may know otherwise; what is kept goes on until it has said so.
        for (_, kept) in kept.iter_mut().filter(|(place, _)| (place.0, &place.1) == (key.0, &key.1))
        {
            kept.due_at = Instant::now();
        }
        drop(state);
        self.wanted.notify_one();
    }

    /// Waits until something was fetched that differs.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until everything that is wanted has been asked for once, but no longer than this; whether anything was.
    pub async fn are_asked(&self, longest: Duration) -> bool {
        let is_waiting = || self.state().kept.values().any(|kept| kept.is_unknown());
        if !is_waiting() {
            return false;
        }
        let asked = async {
            while is_waiting() {
                self.changed().await;
            }
        };
        let _ = tokio::time::timeout(longest, asked).await;
        true
    }

    /// The objects to be compiled once more. Those that name what is gone begin anew, without the version that was good.
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

    /// What is wrong with keepers, one problem a path.
    pub fn problems(&self) -> Vec<Problem> {
        let state = self.state();
        let problems = state.kept.iter().filter_map(|((manager, id, path), kept)| {
            let failure = kept.failure.as_ref()?;
            let place = format!("secrets/{}/{id}", manager.name());
            let reason = format!("{path} cannot be fetched: {failure}");
            let problem = Problem::warning(place, reason);
            Some(match (&kept.fields, kept.known_at) {
                (Some(_), Some(known_at)) => problem.with_hint(format!(
                    "what was fetched {} s before serves on, for {} h at most",
                    (Instant::now() - known_at).as_secs(),
                    LAST_GOOD_TIME.as_secs() / 3600
                )),
                _ => problem.with_hint("references to it have no value: what protects refuses"),
            })
        });
        problems.collect()
    }

    /// Rises when the problems change.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Fetches what is wanted and what is old, for as long as the process runs.
    pub async fn run(self: Arc<Self>) {
        let mut asked: JoinSet<(Place, Result<Fields, NoFields>)> = JoinSet::new();
        loop {
            let wait = loop {
                let next = if asked.len() < ASKED_MAX { self.next_due() } else { Err(RETRY_TIME) };
                match next {
                    Ok((place, vault)) => {
                        let token = self.token(&vault);
                        asked.spawn(async move {
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
                Some(Ok((place, answer))) = asked.join_next() => self.take(place, answer),
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// A keeper's token, or what it refers to; what has no value is none.
    fn token(&self, vault: &Option<Vault>) -> String {
        let text = vault.as_ref().map_or("", |vault| vault.token.expose());
        match SecretRef::parse(text) {
            Some(reference @ SecretRef::Environment { .. }) => {
                self.others.fetch(&reference).unwrap_or_default()
            }
            _ => text.to_owned(),
        }
    }

    /// A path to be asked for, with its keeper if there is one; else how long that takes.
    fn next_due(&self) -> Result<(Place, Option<Vault>), Duration> {
        let mut state = self.state();
        let State { keepers, kept, referring, bytes, .. } = &mut *state;
        let now = Instant::now();
        let mut wait = REFRESH_TIME;
        let mut unused = Vec::new();
        for (place, kept) in kept.iter_mut().filter(|(_, kept)| !kept.is_asked) {
            if kept.due_at > now {
                wait = wait.min(kept.due_at - now);
                continue;
            }
            // What nobody refers to any more is let go of when its time has come.
            let is_used = referring.values().any(|object| object.places.contains(place));
            if !is_used && !kept.is_unknown() {
                unused.push(place.clone());
                continue;
            }
            kept.is_asked = true;
            return Ok((place.clone(), keepers.get(&(place.0, place.1.clone())).cloned()));
        }
        for place in unused {
            *bytes -= kept.remove(&place).map_or(0, |kept| kept.bytes());
        }
        Err(wait)
    }

    fn take(&self, place: Place, answer: Result<Fields, NoFields>) {
        let mut state = self.state();
        let State { kept, bytes, changed, gone, version, .. } = &mut *state;
        let Some(kept) = kept.get_mut(&place) else { return };
        let now = Instant::now();
        kept.is_asked = false;
        let before = kept.bytes();
        let had = kept.fields.is_some();
        let failure = match answer {
            Ok(fields) => {
                kept.known_at = Some(now);
                kept.due_at = now + REFRESH_TIME;
                let is_changed = kept.fields.as_ref() != Some(&fields);
                if is_changed {
                    changed.insert(place.clone());
                }
                kept.fields = Some(fields);
                None
            }
            Err(NoFields::Gone) => {
                kept.known_at = Some(now);
                kept.due_at = now + REFRESH_TIME;
                kept.fields = None;
                Some("there is nothing at this path, or no such keeper".to_owned())
            }
            Err(NoFields::Unknown(reason)) => {
                kept.due_at = now + RETRY_TIME;
                let is_old = kept.known_at.is_none_or(|known_at| now - known_at > LAST_GOOD_TIME);
                if is_old {
                    kept.fields = None;
                }
                Some(reason)
            }
        };
        *bytes = *bytes - before + kept.bytes();
        let failure = if *bytes > BYTES_MAX {
            *bytes -= kept.bytes();
            kept.fields = None;
            Some(format!("all secrets together are longer than {BYTES_MAX} bytes"))
        } else {
            failure
        };
        if had && kept.fields.is_none() {
            gone.insert(place);
        }
        let is_news = kept.failure != failure;
        kept.failure = failure;
        *version += u64::from(is_news);
        let tells = is_news || !changed.is_empty() || !gone.is_empty();
        drop(state);
        if tells {
            self.changed.notify_one();
        }
    }
}

/// The paths of keepers that a value refers to.
fn places_in(value: &Value) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    if !has_references(value) {
        return places;
    }
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                if let Some(SecretRef::Keeper { manager, id, key }) = SecretRef::parse(text)
                    && let Some((path, _)) = split(&key)
                {
                    places.insert((manager, id, path.to_owned()));
                }
            }
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests;
