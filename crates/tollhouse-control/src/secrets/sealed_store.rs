//! Keyring of a store with one writer: checks that it fits the store, and re-encrypts all secrets
//! with the newest key.
//!
//! The store records the ids of the keys that encrypted it. A keyring without any of these keys
//! belongs to another store. Creating a new keyring in place of a missing one would leave secrets
//! that no key opens. Both prevent the gateway from starting.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tollhouse_config::Bootstrap;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::{Form, Keyring};
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_shenyu::KEY_PREFIX;
use tollhouse_store::{Entry, Operation, Store};

use crate::secrets;
use crate::secrets::shenyu_store;
use tollhouse_store::Batches;

/// Key under which the store records the key ids. It is outside the objects' prefix, which other
/// gateways read.
const RECORD: &str = "tollhouse/keyring";

/// Result of a scan of the store.
#[derive(Debug, Default)]
pub(super) struct ScanReport {
    /// Number of values that are sealed with the newest key and in the right form.
    pub(super) sealed: usize,
    /// Number of values that must be sealed again.
    pub(super) stale: usize,
    /// Number of these values that APISIX nodes can read now but not after sealing.
    pub(super) lost_to_apisix: usize,
    /// Objects with a value that no key opens.
    pub(super) lost: Vec<String>,
    /// Writes of the objects with their newly sealed values.
    pub(super) writes: Vec<Operation>,
}

/// Returns the keyring of a store that no other process writes: the configured one, the stored one,
/// or a new one for a store without secrets. Values that are not sealed with its newest key are
/// sealed again.
///
/// # Errors
/// If the keyring is missing or belongs to another store, or the store cannot be read or written.
pub async fn keyring_for(
    bootstrap: &Bootstrap,
    store: &dyn Store,
    catalogue: &Catalogue,
) -> anyhow::Result<Keyring> {
    let record = read_record(store).await?;
    let configured = secrets::keyring_if_any(bootstrap)?;
    if let Some(keyring) = configured.as_ref().filter(|keyring| record == Some(record_for(keyring)))
    {
        return Ok(keyring.clone());
    }
    let prefix = bootstrap.admin.prefix.trim_end_matches('/');
    let listing = store.list(&format!("{prefix}/")).await.context("failed to read the store")?;
    // Without a keyring, a random one shows which values are sealed, because it opens none.
    let ring = configured.clone().map_or_else(Keyring::generate, Ok)?;
    let of_shenyu = store.list(KEY_PREFIX).await.context("failed to read the store")?;
    let look = |ring: &Keyring| {
        let mut report = look_through(&listing.entries, prefix, catalogue, ring);
        look_through_shenyu(&of_shenyu.entries, ring, &mut report);
        report
    };
    let mut report = look(&ring);
    let recorded_ids = record.as_ref().map(key_ids).unwrap_or_default();
    if !bootstrap.encryption.allow_lost_keys {
        refuse_lost(bootstrap, configured.as_ref(), &recorded_ids, &report)?;
    }
    let keyring = match configured {
        Some(keyring) => keyring,
        None => {
            let made = secrets::new_keyring(bootstrap)?;
            // Scanned again, so that plain-text values are sealed with the new keyring and not with
            // the random one.
            report = look(&made);
            made
        }
    };
    if report.stale > 0 {
        seal_anew(store, &keyring, &recorded_ids, report.writes).await?;
        tracing::info!(
            values = report.stale,
            "secrets in the store are sealed with the newest key"
        );
    }
    for object in &report.lost {
        tracing::warn!(
            object,
            "no key opens its secrets; it is set aside until it is written again"
        );
    }
    let record = if report.lost.is_empty() {
        record_for(&keyring)
    } else {
        record_with_known(&keyring, &recorded_ids)
    };
    write_record(store, &record).await?;
    Ok(keyring)
}

/// Refuses a keyring that opens nothing, with a remedy in the error.
fn refuse_lost(
    bootstrap: &Bootstrap,
    kept: Option<&Keyring>,
    known: &[String],
    found: &ScanReport,
) -> anyhow::Result<()> {
    let folder = bootstrap.data_dir.display();
    let path = secrets::keyring_path(bootstrap);
    let path = path.display();
    let way_out = "if it is lost for good, start once with encryption.allow_lost_keys=true and write \
                   the secrets anew";
    let Some(keyring) = kept else {
        if known.is_empty() && found.lost.is_empty() {
            return Ok(());
        }
        bail!(
            "the store in {folder} holds secrets, and the keyring that opens them is not there: put \
             it back as {path}; {way_out}"
        );
    };
    // If key ids were never recorded, a keyring that opens at least one value counts as the right
    // one.
    let is_known = keyring.ids().any(|id| known.iter().any(|known| known == id));
    let opens_nothing = !found.lost.is_empty() && found.sealed == 0;
    if is_known || (known.is_empty() && !opens_nothing) || (found.lost.is_empty()) {
        return Ok(());
    }
    let place = if bootstrap.encryption.keyring.is_empty() {
        format!("the keyring in {path}")
    } else {
        format!("encryption.keyring (a key of {path} goes behind the new ones)")
    };
    bail!(
        "the store in {folder} was sealed with another keyring than {place}: put the right one \
         back; {way_out}"
    );
}

pub(super) fn look_through(
    entries: &[Entry],
    prefix: &str,
    catalogue: &Catalogue,
    keyring: &Keyring,
) -> ScanReport {
    let mut report = ScanReport::default();
    for entry in entries {
        let Some((kind, id)) = parse_store_key(prefix, &entry.key) else { continue };
        // Unreadable objects are reported when they are put into service.
        let Ok(mut value) = serde_json::from_slice::<Value>(&entry.value) else { continue };
        let sealing =
            sealing::reseal(ObjectRef::new(kind, id.as_str()), &mut value, catalogue, keyring);
        if !sealing.unopened.is_empty() {
            report.lost.push(format!("{kind}/{id}"));
            continue;
        }
        report.sealed += sealing.sealed;
        if sealing.changed > 0 {
            report.stale += sealing.changed;
            if keyring.form() == Form::Marked {
                report.lost_to_apisix += sealing.unmarked;
            }
            let key = entry.key.clone();
            report.writes.push(Operation::Put {
                key,
                value: value.to_string().into(),
                lease: None,
            });
        }
    }
    report
}

/// Adds the scan of ShenYu's objects.
pub(super) fn look_through_shenyu(entries: &[Entry], keyring: &Keyring, found: &mut ScanReport) {
    for entry in entries {
        let resealed = shenyu_store::reseal_entry(entry, keyring);
        if resealed.is_lost {
            found.lost.push(entry.key.trim_start_matches('/').to_owned());
            continue;
        }
        match resealed.value {
            Some(value) => {
                found.stale += 1;
                let key = entry.key.clone();
                found.writes.push(Operation::Put { key, value: value.into(), lease: None });
            }
            None => found.sealed += usize::from(resealed.is_sealed),
        }
    }
}

/// Writes the sealed objects. Both old and new key ids are recorded first, so that a killed gateway
/// finds a consistent record.
async fn seal_anew(
    store: &dyn Store,
    keyring: &Keyring,
    known: &[String],
    writes: Vec<Operation>,
) -> anyhow::Result<()> {
    write_record(store, &record_with_known(keyring, known)).await?;
    let mut batches = Batches::new(store.limits());
    writes.into_iter().for_each(|write| batches.add(write));
    for transaction in batches.finish() {
        store
            .commit(transaction)
            .await
            .context("failed to seal the store's secrets with the newest key")?;
    }
    Ok(())
}

/// Returns the record with the newest key only, because no value needs another.
fn record_for(keyring: &Keyring) -> Value {
    record(keyring.ids().take(1).map(str::to_owned).collect(), keyring.form())
}

fn record_with_known(keyring: &Keyring, known: &[String]) -> Value {
    let mut ids: Vec<String> = keyring.ids().take(1).map(str::to_owned).collect();
    ids.extend(known.iter().filter(|id| !ids.contains(id)).cloned().collect::<Vec<_>>());
    record(ids, keyring.form())
}

fn record(ids: Vec<String>, form: Form) -> Value {
    let form = match form {
        Form::Marked => "marked",
        Form::Apisix => "apisix",
    };
    // Older stores lack the `shenyu` member; their ShenYu objects are in plain text.
    json!({"keys": ids, "form": form, "shenyu": "sealed"})
}

fn key_ids(record: &Value) -> Vec<String> {
    let ids = record.get("keys").and_then(Value::as_array).into_iter().flatten();
    ids.filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn read_record(store: &dyn Store) -> anyhow::Result<Option<Value>> {
    let entry = store.get(RECORD).await.context("failed to read the store")?;
    let Some(entry) = entry else { return Ok(None) };
    serde_json::from_slice(&entry.value)
        .map(Some)
        .with_context(|| format!("the store's record of its keys, {RECORD}, is damaged"))
}

async fn write_record(store: &dyn Store, record: &Value) -> anyhow::Result<()> {
    let put = Operation::put(RECORD, record.to_string());
    let transaction = tollhouse_store::Transaction::new().then(put);
    store.commit(transaction).await.context("failed to record the ids of the store's keys")?;
    Ok(())
}

#[cfg(test)]
mod tests;
