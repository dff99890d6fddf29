//! Reading of the whole store in pages, so that a million instances are never in memory twice.

use tollhouse_store::{Entry, Revision, Store, StoreError};

use super::committer::PROBE_KEY;
use crate::cluster::PROOFS;
use crate::cluster::digest::DIGESTS;
use crate::cluster::member::{BEATS, MEMBERS};
use crate::journal::LOADED;
use crate::state::State;
use crate::state::load::Unreadable;

/// Number of entries per page: some megabytes.
const PAGE_ENTRIES: usize = 4_096;

/// Loads all entries of a store. In a shared registry, entries newer than `since` are read again as
/// commits, so that they are not reported as damaged here.
pub(super) async fn read_back(
    store: &dyn Store,
    state: &mut State,
    now_ms: u64,
    since: Option<Revision>,
) -> Result<(), StoreError> {
    let mut count = 0;
    // The order matters, because an instance whose service is missing is reported as damaged.
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

/// Whether an entry will not be read again as a commit.
fn is_settled(page: &[Entry], unreadable: &Unreadable, since: Option<Revision>) -> bool {
    let entry = page.iter().find(|entry| entry.key == unreadable.key);
    entry.is_none_or(|entry| since.is_none_or(|since| entry.mod_revision <= since))
}

/// Logs entries under unknown keys. Each query skips to the next unknown entry.
async fn log_unknown(store: &dyn Store) -> Result<(), StoreError> {
    let known = || LOADED.into_iter().chain([MEMBERS, BEATS, DIGESTS, PROOFS]);
    let mut after = String::new();
    while let Some(entry) = store.list_page("", &after, 1).await?.entries.pop() {
        match known().find(|prefix| entry.key.starts_with(*prefix)) {
            // `0` follows `/` in byte order, so that this skips the whole prefix.
            Some(prefix) => after = format!("{}0", prefix.trim_end_matches('/')),
            // A test write that a killed process could not delete.
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
