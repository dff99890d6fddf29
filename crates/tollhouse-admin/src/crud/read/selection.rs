//! Selection of the objects that a list returns. The index evaluates filters and order; only the
//! returned objects are read from the store.

use std::collections::{HashMap, HashSet};

use tollhouse_store::{Entry, StoreError};

use crate::context::Admin;
use crate::index::{self, collections::Creation};
use crate::limits::OBJECTS_PER_TURN;
use crate::object_rights::ObjectRights;
use crate::paging::{Filters, Slice};

/// Maximum number of objects that are read one by one; for more, reading the whole collection is
/// cheaper.
const READ_ALONE_MAX: usize = 512;

/// Returns the number of objects that match the filters, and the selected ones.
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
                let contents = admin.index.contents();
                let page = contents.created_after(collection, None).skip(skip).take(take);
                (contents.count(collection), page.map(|(_, path)| path.clone()).collect())
            };
            Ok((total, read(admin, collection, page).await?))
        }
        (slice, true) => {
            let mut admitted = admitted(admin, collection, filters).await;
            let total = admitted.len();
            let shown = match slice {
                Slice::Page { skip, take } => admitted.into_iter().skip(skip).take(take).collect(),
                // A complete list is sorted by key.
                Slice::All => {
                    admitted.sort_unstable();
                    admitted
                }
            };
            Ok((total, read(admin, collection, shown).await?))
        }
    }
}

/// Parts of a list that a caller asks for.
pub(super) struct Wanted<'a> {
    pub(super) slice: Slice,
    pub(super) filters: &'a Filters,
    pub(super) rights: &'a ObjectRights<'a>,
}

/// Returns the number of matching objects that the caller may read, and the selected ones. All of the
/// collection is read, because rights depend on the labels.
pub(super) async fn select_visible(
    admin: &Admin,
    collection: &str,
    wanted: &Wanted<'_>,
) -> Result<(usize, Vec<Entry>), StoreError> {
    let Wanted { slice, filters, rights } = wanted;
    let order = admitted(admin, collection, filters).await;
    let place: HashMap<String, usize> =
        order.iter().enumerate().map(|(place, path)| (admin.key_of(path), place)).collect();
    let mut entries = read_all(admin, collection, |key| place.contains_key(key)).await?;
    let root = admin.key_of("");
    entries.retain(|entry| {
        let path = entry.key.strip_prefix(&root);
        path.is_some_and(|path| rights.sees(path, &entry.value))
    });
    let total = entries.len();
    if let Slice::Page { skip, take } = slice {
        entries.sort_by_key(|entry| place.get(&*entry.key).copied());
        entries = entries.into_iter().skip(*skip).take(*take).collect();
    }
    Ok((total, entries))
}

/// Returns the paths of all matching objects, in order of creation. Yields regularly to other
/// tasks.
async fn admitted(admin: &Admin, collection: &str, filters: &Filters) -> Vec<Box<str>> {
    let mut admitted = Vec::new();
    let mut last: Option<Creation> = None;
    loop {
        let seen: Option<Creation> = {
            let contents = admin.index.contents();
            let mut seen = None;
            for creation in contents.created_after(collection, last.as_ref()).take(OBJECTS_PER_TURN)
            {
                if contents.facts(&creation.1).is_some_and(|facts| filters.admit(facts)) {
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

/// Reads the objects at these paths, in this order. Objects deleted meanwhile are left out.
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

/// Reads all objects of a collection with a wanted key, sorted by key.
async fn read_all(
    admin: &Admin,
    collection: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Entry>, StoreError> {
    let prefix = format!("{}/", admin.key_of(collection));
    let mut entries = admin.parts.store.list(&prefix).await?.entries;
    // Keys of child objects follow those of their parent, but belong to another collection and are
    // skipped. The collection `secrets` is the exception: its keys contain a further segment, but
    // the secret managers in it are not parent objects.
    let has_children = collection != "secrets";
    entries.retain(|entry| {
        let is_child = has_children && entry.key[prefix.len()..].contains('/');
        !is_child && index::holds_object(&entry.key, &entry.value) && is_wanted(&entry.key)
    });
    Ok(entries)
}
