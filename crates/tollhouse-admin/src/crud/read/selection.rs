//! Which objects of a collection a list shows. Filters and order are asked of the index; the store is
//! asked for what is shown and no more.

use std::collections::HashSet;

use tollhouse_store::{Entry, StoreError};

use crate::context::Admin;
use crate::index::{self, collections::Creation};
use crate::limits::OBJECTS_PER_TURN;
use crate::paging::{Filters, Slice};

/// Objects that are read one by one, at most; beyond that reading all of the collection is cheaper.
const READ_ALONE_MAX: usize = 512;

/// How many objects of a collection pass the filters, and those of them that are shown.
pub(super) async fn select(
    admin: &Admin,
    collection: &str,
    slice: Slice,
    filters: &Filters,
) -> Result<(usize, Vec<Entry>), StoreError> {
    match (slice, filters.are_any()) {
        (Slice::All, false) => {
            let entries = read_all(admin, collection, |_| true).await?;
            Ok((entries.len(), entries))
        }
        (Slice::Page { skip, take }, false) => {
            let (total, page) = {
                let known = admin.index.known();
                let page = known.created_after(collection, None).skip(skip).take(take);
                (known.count(collection), page.map(|(_, path)| path.clone()).collect())
            };
            Ok((total, read(admin, collection, page).await?))
        }
        (slice, true) => {
            let mut admitted = admitted(admin, collection, filters).await;
            let total = admitted.len();
            let shown = match slice {
                Slice::Page { skip, take } => admitted.into_iter().skip(skip).take(take).collect(),
                // All go by their keys.
                Slice::All => {
                    admitted.sort_unstable();
                    admitted
                }
            };
            Ok((total, read(admin, collection, shown).await?))
        }
    }
}

/// The paths of those that pass, by creation; others get their turn between.
async fn admitted(admin: &Admin, collection: &str, filters: &Filters) -> Vec<Box<str>> {
    let mut admitted = Vec::new();
    let mut last: Option<Creation> = None;
    loop {
        let seen: Option<Creation> = {
            let known = admin.index.known();
            let mut seen = None;
            for creation in known.created_after(collection, last.as_ref()).take(OBJECTS_PER_TURN) {
                if known.facts(&creation.1).is_some_and(|facts| filters.admit(facts)) {
                    admitted.push(creation.1.clone());
                }
                seen = Some(creation);
            }
            seen.cloned()
        };
        if seen.is_none() {
            return admitted;
        }
        last = seen;
        tokio::task::yield_now().await;
    }
}

/// The objects of these paths, in their order; those that went meanwhile are left out.
async fn read(
    admin: &Admin,
    collection: &str,
    paths: Vec<Box<str>>,
) -> Result<Vec<Entry>, StoreError> {
    if paths.len() > READ_ALONE_MAX {
        let wanted: HashSet<String> = paths.iter().map(|path| admin.key_of(path)).collect();
        return read_all(admin, collection, |key| wanted.contains(key)).await;
    }
    let mut entries = Vec::with_capacity(paths.len());
    for path in paths {
        entries.extend(admin.parts.store.get(&admin.key_of(&path)).await?);
    }
    Ok(entries)
}

/// The objects of a collection whose keys are wanted, by key.
async fn read_all(
    admin: &Admin,
    collection: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Entry>, StoreError> {
    let prefix = format!("{}/", admin.key_of(collection));
    let mut entries = admin.parts.store.list(&prefix).await?.entries;
    // Children lie below the objects they belong to, but are none of them; secrets lie below their
    // managers, which are no objects.
    let has_children = collection != "secrets";
    entries.retain(|entry| {
        let is_child = has_children && entry.key[prefix.len()..].contains('/');
        !is_child && index::holds_object(&entry.key, &entry.value) && is_wanted(&entry.key)
    });
    Ok(entries)
}
