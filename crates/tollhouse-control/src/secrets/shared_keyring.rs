//! Check that all gateways of a shared store use the same keyring. The store records the ids of its
//! gateways' keys. A gateway with none of these keys could not open existing secrets, and the
//! others could not open those that it writes.
//!
//! Unlike a private store, a shared one is not re-encrypted at the start, because other nodes,
//! possibly APISIX's, read it. Operators re-encrypt it with a command (`shared_reseal.rs`).

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Entry, LeaseId, Store, StoreError, Transaction};

use crate::secrets;

/// Maximum number of attempts to update the record when other gateways write it concurrently.
const ATTEMPTS_MAX: usize = 16;

/// Returns the configured keyring after checking that the store's record contains one of its keys.
/// The first gateway writes the record. The first gateway with a newer key adds that key.
///
/// # Errors
/// If the keyring is missing, the store is sealed with another one, or the store cannot be read or
/// written.
pub async fn check(bootstrap: &Bootstrap, store: &dyn Store) -> anyhow::Result<Keyring> {
    let (keyring, record) = (own(bootstrap)?, record_key(bootstrap));
    let lost_keys = match bootstrap.encryption.allow_lost_keys {
        true => LostKeys::Allowed,
        false => LostKeys::Refused,
    };
    for _ in 0..ATTEMPTS_MAX {
        match update_record(store, &record, &keyring, lost_keys).await? {
            RecordUpdate::Done => return Ok(keyring),
            RecordUpdate::Changed => {}
        }
    }
    bail!("{record} keeps changing: do other gateways start with other keyrings?")
}

/// Checks the configured keyring without updating the record. The inner result is the verdict on
/// the keyring.
///
/// # Errors
/// If the store cannot be read.
pub async fn look(
    bootstrap: &Bootstrap,
    store: &dyn Store,
) -> Result<anyhow::Result<()>, StoreError> {
    let record = record_key(bootstrap);
    let entry = store.get(&record).await?;
    let look = || {
        let keyring = own(bootstrap)?;
        let ids = entry.as_ref().map(|entry| known_keys(&entry.value, &record)).transpose()?;
        check_known(&keyring, &ids.unwrap_or_default(), &record)
    };
    Ok(look())
}

/// Refuses a keyring whose first key is not recorded as used by any gateway of the store.
///
/// # Errors
/// If the first key is not recorded, the keyring is missing, or the store cannot be read.
pub async fn check_in_use(bootstrap: &Bootstrap, store: &dyn Store) -> anyhow::Result<()> {
    let (keyring, record) = (own(bootstrap)?, record_key(bootstrap));
    let entry = store.get(&record).await.context("failed to read the shared store")?;
    let ids = entry.map(|entry| known_keys(&entry.value, &record)).transpose()?;
    let newest = keyring.ids().next().unwrap_or_default();
    if ids.is_some_and(|ids| ids.iter().any(|id| id == newest)) {
        return Ok(());
    }
    bail!(
        "no gateway of this store seals with the first key of encryption.keyring, which is called {newest}: put it \
         behind the old one on all gateways, then in front of it, and only then seal anew"
    );
}

/// Reduces the record to the first key, because all values of the store are sealed with it. From
/// then on, gateways with older keys only are refused.
///
/// # Errors
/// If the store cannot be written.
pub(super) async fn forget_others(
    store: &dyn Store,
    record: &Entry,
    keyring: &Keyring,
    lease: LeaseId,
) -> Result<(), StoreError> {
    let newest: Vec<&str> = keyring.ids().take(1).collect();
    let forget = Transaction::new()
        .put(&*record.key, json!({"keys": newest}).to_string())
        .when_modified_at(&*record.key, record.mod_revision)
        .while_held(lease);
    store.commit(forget).await.map(|_| ())
}

pub(super) fn record_key(bootstrap: &Bootstrap) -> String {
    format!("{}/tollhouse/keyring", bootstrap.admin.prefix.trim_end_matches('/'))
}

fn own(bootstrap: &Bootstrap) -> anyhow::Result<Keyring> {
    secrets::keyring_if_any(bootstrap)?
        .context("a shared store needs the keyring of all its gateways: set encryption.keyring")
}

fn known_keys(value: &[u8], record: &str) -> anyhow::Result<Vec<String>> {
    key_ids(value)
        .with_context(|| format!("the shared store's record of its keys, {record}, is damaged"))
}

/// Refuses a keyring that contains none of the recorded keys.
fn check_known(keyring: &Keyring, known: &[String], record: &str) -> anyhow::Result<()> {
    let is_known = keyring.ids().any(|id| known.iter().any(|known| known == id));
    if !known.is_empty() && !is_known {
        bail!(
            "encryption.keyring has none of the keys that the gateways of this store seal with, which \
             are called {} in {record}: give this gateway the keyring of the others, or an \
             admin.prefix of its own",
            known.join(", ")
        );
    }
    Ok(())
}

/// Treatment of a store whose record contains no key of the keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostKeys {
    Refused,
    Allowed,
}

/// Result of an attempt to update the record.
enum RecordUpdate {
    /// The record contains this gateway's key.
    Done,
    /// Another gateway has changed the record meanwhile.
    Changed,
}

async fn update_record(
    store: &dyn Store,
    record: &str,
    keyring: &Keyring,
    lost_keys: LostKeys,
) -> anyhow::Result<RecordUpdate> {
    let entry = store.get(record).await.context("failed to read the shared store")?;
    let mut ids = match &entry {
        Some(entry) => known_keys(&entry.value, record)?,
        None => Vec::new(),
    };
    if lost_keys == LostKeys::Refused {
        check_known(keyring, &ids, record)?;
    }
    let Some(newest) = keyring.ids().next() else { return Ok(RecordUpdate::Done) };
    if ids.iter().any(|id| id == newest) {
        return Ok(RecordUpdate::Done);
    }
    // The newest key goes first, as in a keyring. Older keys stay, because values sealed with them
    // remain.
    ids.insert(0, newest.to_owned());
    let put = Transaction::new().put(record, json!({"keys": ids}).to_string());
    // The commit is conditional, because two gateways with new keys may start at once and would
    // overwrite each other's key.
    let transaction = match entry {
        Some(entry) => put.when_unchanged_since(record, entry.mod_revision),
        None => put.when_absent(record),
    };
    match store.commit(transaction).await {
        Ok(_) => Ok(RecordUpdate::Done),
        Err(StoreError::Conflict { .. }) => Ok(RecordUpdate::Changed),
        Err(error) => Err(error).context("failed to record the ids of the shared store's keys"),
    }
}

fn key_ids(record: &[u8]) -> Option<Vec<String>> {
    let record: Value = serde_json::from_slice(record).ok()?;
    let ids = record.get("keys")?.as_array()?;
    ids.iter().map(|id| id.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use tollhouse_config::bootstrap::Secret;
    use tollhouse_store::Location;

    use super::*;

    fn gateway(keys: &[&str]) -> Bootstrap {
        let mut bootstrap = Bootstrap::default();
        bootstrap.encryption.keyring = keys.iter().map(|key| Secret::new(*key)).collect();
        bootstrap
    }

    #[tokio::test]
    async fn a_gateway_with_none_of_the_others_keys_is_refused() {
        const OLD: &str = "0123456789abcdef";
        const NEW: &str = "fedcba9876543210";
        const FOREIGN: &str = "aaaaaaaaaaaaaaaa";
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let table: [(&[&str], bool); 6] = [
            (&[OLD], true),
            (&[OLD], true),
            (&[FOREIGN], false),
            (&[NEW], false),
            // A gateway has both keys during a key change; afterwards the new key alone is
            // accepted.
            (&[NEW, OLD], true),
            (&[NEW], true),
        ];
        for (keys, is_taken) in table {
            let checked = check(&gateway(keys), store.as_ref()).await;
            assert_eq!(checked.is_ok(), is_taken, "{keys:?}");
        }
    }

    #[tokio::test]
    async fn a_damaged_record_keeps_a_gateway_from_writing() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let damaged = Transaction::new().put("/apisix/tollhouse/keyring", "{");
        store.commit(damaged).await.expect("written");
        let checked = check(&gateway(&["0123456789abcdef"]), store.as_ref()).await;
        assert!(
            checked.is_err_and(|error| error.to_string().contains("/apisix/tollhouse/keyring"))
        );
    }
}
