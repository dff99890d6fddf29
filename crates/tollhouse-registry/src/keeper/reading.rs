//! Reading everything back at the start, a page after the other, so that a million instances are never
//! in memory twice.

use tollhouse_store::{Entry, Revision, Store, StoreError};

use super::committer::PROBE_KEY;
use crate::cluster::PROOFS;
use crate::cluster::digest::DIGESTS;
use crate::cluster::member::{BEATS, MEMBERS};
use crate::state::State;
use crate::state::load::{LOADED, Unreadable};

/// Entries of a page: some megabytes.
const PAGE_ENTRIES: usize = 4_096;

/// Takes in all that a store holds. Where other nodes write it meanwhile, what came after `since` is read again as
/// commits, so that what of it cannot be read yet is no damage.
pub(super) async fn read_back(
    store: &dyn Store,
    state: &mut State,
    now_ms: u64,
    since: Option<Revision>,
) -> Result<(), StoreError> {
    let mut count = 0;
    // In this order, since an instance whose service is not there yet is taken for damaged.
    for prefix in LOADED {
        let mut after = String::new();
        loop {
            let page = store.list_page(prefix, &after, PAGE_ENTRIES).await?.entries;
            count += page.len();
            let unreadable = state.load(&page, now_ms);
            unreadable.iter().filter(|it| is_settled(&page, it, since)).for_each(log);
            match page.last() {
                Some(last) if page.len() == PAGE_ENTRIES => after = last.key.to_string(),
                _ => break,
            }
        }
    }
    log_unknown(store).await?;
    if count > 0 {
        let totals = state.totals();
        tracing::info!(
            services = totals.services,
            instances = totals.instances.total,
            "registry restored; healthy instances get a full TTL"
        );
    }
    Ok(())
}

/// Whether an entry is not read again.
fn is_settled(page: &[Entry], unreadable: &Unreadable, since: Option<Revision>) -> bool {
    let entry = page.iter().find(|entry| entry.key == unreadable.key);
    entry.is_none_or(|entry| since.is_none_or(|since| entry.mod_revision <= since))
}

/// Logs what stands under keys that this version knows nothing of, from one to the next.
async fn log_unknown(store: &dyn Store) -> Result<(), StoreError> {
    let known = || LOADED.into_iter().chain([MEMBERS, BEATS, DIGESTS, PROOFS]);
    let mut after = String::new();
    while let Some(entry) = store.list_page("", &after, 1).await?.entries.pop() {
        match known().find(|prefix| entry.key.starts_with(*prefix)) {
            // `0` comes after the slash that ends each prefix.
            Some(prefix) => after = format!("{}0", prefix.trim_end_matches('/')),
            // A probe that a killed process could not take back.
            None if *entry.key == *PROBE_KEY => after = entry.key.into(),
            None => {
                log(&Unreadable {
                    key: entry.key.clone(),
                    reason: "this version knows nothing that is kept under such a key".to_owned(),
                });
                after = entry.key.into();
            }
        }
    }
    Ok(())
}

pub(super) fn log(unreadable: &Unreadable) {
    tracing::error!(key = %unreadable.key, reason = %unreadable.reason,
        "an entry of the registry cannot be read; it was left as it is");
}
