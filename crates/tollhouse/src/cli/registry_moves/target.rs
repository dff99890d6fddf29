//! Targets of an import: the configured registry, opened for writing, or a running one through its
//! Admin API.

use std::collections::HashSet;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::{OfflineRegistry, StoredEntries};
use tollhouse_registry::{Command, Effect, Object, Outcome, Refusal, Rehearsal};
use tollhouse_stdx::plural::counted_as;
use tollhouse_store::StoreError;

use super::file;
use super::source::{Item, LeftOut, Source};
use super::tally::Tally;
use crate::cli::admin_client::{AdminClient, refusal};
use crate::cli::gateway::way_through;

/// Hint printed after an interrupted import.
const REPEAT: &str =
    "repeat the import once the reason is gone: what is there already is passed over";

/// Maximum size of a call to an Admin API in bytes, below the API's own limit.
const CALL_BYTES_MAX: usize = 1_200_000;

/// Effects that an import would have, and the keys of its objects.
#[derive(Default)]
pub struct RehearsalResult {
    /// Number of effects by kind of object.
    pub tally: Tally,
    /// Keys of all objects of the source.
    pub keys: HashSet<String>,
}

/// Writes all objects of the source to a copy of the registry in memory, to count the effects.
///
/// # Errors
/// If the source cannot be read.
pub fn rehearse(
    source: &mut dyn Source,
    mut rehearsal: Rehearsal,
) -> anyhow::Result<RehearsalResult> {
    let RehearsalResult { mut tally, mut keys } = RehearsalResult::default();
    source.rewind()?;
    loop {
        let page = source.next_page()?;
        if page.is_empty() {
            return Ok(RehearsalResult { tally, keys });
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

/// Copies the configured registry into memory for a rehearsal. The registry is not opened for
/// writing, so that a gateway may use it meanwhile.
///
/// # Errors
/// If the store cannot be read.
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

/// A registry opened for the import.
pub struct OpenRegistry {
    pub registry: OfflineRegistry,
    runtime: Runtime,
}

impl OpenRegistry {
    /// Opens the configured registry for writing.
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

    pub fn write(&self, source: &mut dyn Source) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        source.rewind()?;
        loop {
            let page = source.next_page()?;
            if page.is_empty() {
                return Ok(tally);
            }
            self.write_page(page, &mut tally).with_context(|| written_before(&tally))?;
        }
    }

    /// Removes objects in this order. Returns the number of objects that still existed.
    ///
    /// # Errors
    /// If the registry refuses a removal.
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

    /// Writes the objects of a page concurrently, so that they share commits.
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
                // After these errors of the whole registry, no other object can be written either.
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

/// Answer of the Admin API to written objects.
#[derive(Debug, Deserialize)]
struct PutAnswer {
    effects: Vec<EffectAnswer>,
}

#[derive(Debug, Deserialize)]
struct EffectAnswer {
    effect: Option<String>,
    reason: Option<String>,
}

/// Writes all objects through an Admin API.
///
/// # Errors
/// If the source cannot be read, or the API does not answer or refuses.
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
        send(client, objects, &mut tally).with_context(|| written_before(&tally))?;
    }
}

/// Context of an error during a write.
fn written_before(tally: &Tally) -> String {
    let objects = counted_as(tally.writes(), "object was", "objects were");
    format!("{objects} written; {REPEAT}")
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
    // The answer has one effect per object, in the same order, so that the numbers must be equal.
    if outcome.effects.len() != sent.len() {
        bail!(
            "{} sent, and the answer is about {}",
            counted_as(sent.len() as u64, "object was", "objects were"),
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
