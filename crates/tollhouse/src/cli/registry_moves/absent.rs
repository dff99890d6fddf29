//! Objects that the registry has and the source of an import does not: imported earlier and deleted
//! from the source since, or registered here.

use std::collections::HashSet;

use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::StoredEntries;
use tollhouse_registry::Object;

use super::tally::LineList;

/// Handling of registered objects that the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Objects that the source lacks are ignored, because a file may contain only a part of a
    /// registry.
    Ignored,
    /// The objects are listed in the output.
    Named,
    /// The objects are removed.
    Removed,
}

/// Registered objects of the kinds that a Polaris has. Objects come before those that they refer
/// to, which is the order of removal.
pub struct RegisteredObjects(Vec<(String, Object)>);

impl RegisteredObjects {
    /// Reads the configured store, which another process may use meanwhile.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let mut stored = StoredEntries::open(bootstrap)?;
        let mut objects = Vec::new();
        loop {
            let page = stored.next_page()?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                // Entries that this version cannot decode are not removed.
                let Ok(object) = Object::from_entry(&entry.key, &entry.value) else { continue };
                if place(&object).is_some() {
                    objects.push((entry.key.to_string(), object));
                }
            }
        }
        objects.sort_by_key(|(_, object)| place(object));
        Ok(Self(objects))
    }

    /// Returns the objects whose keys are not in `keys`.
    pub fn without(self, keys: &HashSet<String>) -> Vec<Object> {
        let absent = self.0.into_iter().filter(|(key, _)| !keys.contains(key));
        absent.map(|(_, object)| object).collect()
    }
}

/// Returns the position of a kind of object in the order of removal. Returns `None` for kinds that
/// are never removed: contracts and configuration files, which an import from a Polaris does not
/// include, and namespaces, which may contain other objects.
fn place(object: &Object) -> Option<u8> {
    match object {
        Object::Instance(_) => Some(0),
        Object::Rule(_) => Some(1),
        Object::Alias(_) => Some(2),
        Object::Service(_) => Some(3),
        Object::Namespace(_) | Object::Contract(_) | Object::Config(_) | Object::Identity(_) => {
            None
        }
    }
}

/// Formats the first objects as lines below `head`; the text is empty without objects.
pub fn text(absent: &[Object], head: &str) -> String {
    let mut named = LineList::default();
    for object in absent {
        named.add(format!("{} {}", object.kind(), object.name()));
    }
    let mut text = String::new();
    named.write(head, &mut text);
    text
}
