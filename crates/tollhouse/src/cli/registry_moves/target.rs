//! Where objects go: into the registry that the configuration names, opened for it, or into one that runs, through
//! its Admin API.

use std::collections::HashSet;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::{OfflineRegistry, StoredEntries};
use tollhouse_registry::{Command, Effect, Object, Outcome, Refusal, Rehearsal};
use tollhouse_store::StoreError;

use super::file;
use super::source::{Item, LeftOut, Source};
use super::tally::Tally;
use crate::cli::admin_client::{AdminClient, refusal};
use crate::cli::gateway::way_through;

/// What was written when something ended it, for whoever has to go on.
const REPEAT: &str =
    "repeat the import once the reason is gone: what is there already is passed over";

/// Bytes of objects in one call to an Admin API: less than it takes.
const CALL_BYTES_MAX: usize = 1_200_000;

/// Outcome of a rehearsal.
#[derive(Default)]
pub struct Rehearsed {
    /// What would become of the objects.
    pub tally: Tally,
    /// The keys of all of them.
    pub keys: HashSet<String>,
}

/// What would become of all objects, put into a copy of a registry in memory.
///
/// # Errors
/// The source cannot be read.
pub fn rehearse(source: &mut dyn Source, mut rehearsal: Rehearsal) -> anyhow::Result<Rehearsed> {
    let Rehearsed { mut tally, mut keys } = Rehearsed::default();
    source.rewind()?;
    loop {
        let page = source.next_page()?;
        if page.is_empty() {
            return Ok(Rehearsed { tally, keys });
        }
        for item in page {
            match item {
                Item::LeftOut(left_out) => tally.leave_out(&left_out),
                Item::Object(object) => {
                    keys.extend(object.to_entry().ok().map(|(key, _)| key));
                    let (kind, name) = (object.kind(), object.name());
                    count(&mut tally, kind, name, rehearsal.put(object));
                }
            }
        }
    }
}

/// What the configured registry holds, without opening it: for a rehearsal beside one that runs.
///
/// # Errors
/// It cannot be read.
pub fn look(bootstrap: &Bootstrap) -> anyhow::Result<Rehearsal> {
    let mut stored = StoredEntries::open(bootstrap)?;
    let mut entries = Vec::new();
    loop {
        let page = stored.next_page()?;
        if page.is_empty() {
            return Ok(Rehearsal::from_entries(&entries, bootstrap.registry.memory_max));
        }
        entries.extend(page);
    }
}

fn count(tally: &mut Tally, kind: &'static str, name: String, outcome: Result<Effect, Refusal>) {
    match outcome {
        Ok(effect) => tally.add(kind, effect),
        Err(refusal) => tally.leave_out(&LeftOut {
            what: format!("{kind} {name}"),
            reason: refusal.to_string(),
            is_expected: false,
        }),
    }
}

/// A registry that was opened for this.
pub struct Opened {
    pub registry: OfflineRegistry,
    runtime: Runtime,
}

impl Opened {
    /// Opens the registry of the configuration.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let registry = OfflineRegistry::open(bootstrap).map_err(|error| {
            let is_in_use =
                error.chain().any(|it| matches!(it.downcast_ref(), Some(StoreError::InUse { .. })));
            if !is_in_use {
                return error;
            }
            anyhow!("a gateway runs with this data directory; {}", way_through(bootstrap))
        })?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { registry, runtime })
    }

    /// Puts all objects.
    pub fn write(&self, source: &mut dyn Source) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        source.rewind()?;
        loop {
            let page = source.next_page()?;
            if page.is_empty() {
                return Ok(tally);
            }
            self.write_page(page, &mut tally)
                .with_context(|| format!("{} objects were written; {REPEAT}", tally.writes()))?;
        }
    }

    /// Removes objects, each after those before it; returns how many were still there.
    ///
    /// # Errors
    /// If the registry refuses one.
    pub fn remove(&self, objects: &[Object]) -> anyhow::Result<u64> {
        let mut removed = 0;
        for object in objects {
            let submitted = self.registry.handle.submit(object.removal());
            match self.runtime.block_on(submitted) {
                Ok(_) => removed += 1,
                Err(Refusal::NotFound(_)) => {}
                Err(refusal) => {
                    let (kind, name) = (object.kind(), object.name());
                    return Err(refusal).with_context(|| format!("failed to remove {kind} {name}"));
                }
            }
        }
        Ok(removed)
    }

    /// Puts the objects of a page together, so that they share commits.
    fn write_page(&self, page: Vec<Item>, tally: &mut Tally) -> anyhow::Result<()> {
        let mut waiting = Vec::with_capacity(page.len());
        for item in page {
            match item {
                Item::LeftOut(left_out) => tally.leave_out(&left_out),
                Item::Object(object) => {
                    let (kind, name) = (object.kind(), object.name());
                    let handle = self.registry.handle.clone();
                    let put = async move { handle.submit(Command::Put(object)).await };
                    waiting.push((kind, name, self.runtime.spawn(put)));
                }
            }
        }
        for (kind, name, put) in waiting {
            let outcome = match self.runtime.block_on(put)? {
                Ok(Outcome::Put(effect)) => Ok(effect),
                Ok(_) | Err(Refusal::NoChange) => Ok(Effect::Unchanged),
                // Nothing that follows can be written either.
                Err(refusal @ (Refusal::Store(_) | Refusal::Closed | Refusal::Busy)) => {
                    return Err(refusal.into());
                }
                Err(refusal) => Err(refusal),
            };
            count(tally, kind, name, outcome);
        }
        Ok(())
    }
}

/// What an Admin API answers to objects that were put.
#[derive(Debug, Deserialize)]
struct PutAnswer {
    effects: Vec<EffectAnswer>,
}

#[derive(Debug, Deserialize)]
struct EffectAnswer {
    effect: Option<String>,
    reason: Option<String>,
}

/// Puts all objects through an Admin API.
///
/// # Errors
/// The source cannot be read, or the API does not answer or refuses.
pub fn write_through(client: &mut AdminClient, source: &mut dyn Source) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    source.rewind()?;
    loop {
        let page = source.next_page()?;
        if page.is_empty() {
            return Ok(tally);
        }
        let mut objects = Vec::new();
        for item in page {
            match item {
                Item::LeftOut(left_out) => tally.leave_out(&left_out),
                Item::Object(object) => objects.push(object),
            }
        }
        send(client, objects, &mut tally)
            .with_context(|| format!("{} objects were written; {REPEAT}", tally.writes()))?;
    }
}

fn send(client: &mut AdminClient, objects: Vec<Object>, tally: &mut Tally) -> anyhow::Result<()> {
    let (mut body, mut sent) = (String::new(), Vec::new());
    for object in objects {
        let (kind, name) = (object.kind(), object.name());
        let (key, value) = match object.to_entry() {
            Ok(entry) => entry,
            Err(refusal) => {
                count(tally, kind, name, Err(refusal));
                continue;
            }
        };
        let line = file::line(&key, &value)?;
        if !body.is_empty() && body.len() + line.len() > CALL_BYTES_MAX {
            ask(client, std::mem::take(&mut body), std::mem::take(&mut sent), tally)?;
        }
        body.push_str(&line);
        sent.push((kind, name));
    }
    if body.is_empty() { Ok(()) } else { ask(client, body, sent, tally) }
}

fn ask(
    client: &mut AdminClient,
    body: String,
    sent: Vec<(&'static str, String)>,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let (status, answer) = client.ask("POST", "/registry/v1/objects", Bytes::from(body))?;
    if status == StatusCode::NOT_FOUND {
        bail!(
            "{}; is that a Tollhouse of this version, with its registry on?",
            refusal(status, &answer)
        );
    }
    if !status.is_success() {
        bail!("{}", refusal(status, &answer));
    }
    let outcome: PutAnswer = serde_json::from_slice(&answer)
        .context("the answer to /registry/v1/objects cannot be read")?;
    // Effects are told apart by their place alone, so that one too few would be counted for the wrong objects.
    if outcome.effects.len() != sent.len() {
        bail!(
            "{} objects were sent, and the answer is about {}",
            sent.len(),
            outcome.effects.len()
        );
    }
    for ((kind, name), outcome) in sent.into_iter().zip(outcome.effects) {
        match outcome.effect.as_deref() {
            Some("created") => tally.add(kind, Effect::Created),
            Some("changed") => tally.add(kind, Effect::Changed),
            Some("unchanged") => tally.add(kind, Effect::Unchanged),
            _ => tally.leave_out(&LeftOut {
                what: format!("{kind} {name}"),
                reason: outcome.reason.unwrap_or_default(),
                is_expected: false,
            }),
        }
    }
    Ok(())
}
