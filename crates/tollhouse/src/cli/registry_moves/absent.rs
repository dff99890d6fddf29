//! Objects that the registry has and the source of an import does not: those of earlier imports that the source has
//! deleted since, and those that were registered here.

use std::collections::HashSet;

use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::StoredEntries;
use tollhouse_registry::Object;

use super::tally::Named;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// They are of no interest: a file may hold a part of a registry.
    Ignored,
    /// They are named.
    Named,
    /// They are removed.
    Removed,
}

/// All that is registered and could come from a Polaris, what stands under names before the names.
pub struct Registered(Vec<(String, Object)>);

impl Registered {
    /// Reads the store of the configuration, which another process may have open.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let mut stored = StoredEntries::open(bootstrap)?;
        let mut objects = Vec::new();
        loop {
            let page = stored.next_page()?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                // What this version cannot read is not its to remove.
                let Ok(object) = Object::from_entry(&entry.key, &entry.value) else { continue };
                if place(&object).is_some() {
                    objects.push((entry.key.to_string(), object));
                }
            }
        }
        objects.sort_by_key(|(_, object)| place(object));
        Ok(Self(objects))
    }

    /// Those whose keys are not among `keys`.
    pub fn without(self, keys: &HashSet<String>) -> Vec<Object> {
        let absent = self.0.into_iter().filter(|(key, _)| !keys.contains(key));
        absent.map(|(_, object)| object).collect()
    }
}

/// The place of a kind in the order of removal; `None` for those that an import of a Polaris never brings, and for
/// namespaces, in which something else may have been registered.
fn place(object: &Object) -> Option<u8> {
    match object {
        Object::Instance(_) => Some(0),
        Object::Rule(_) => Some(1),
        Object::Alias(_) => Some(2),
        Object::Service(_) => Some(3),
        Object::Namespace(_) | Object::Contract(_) => None,
    }
}

/// The first of them in lines; empty without any.
pub fn text(absent: &[Object], head: &str) -> String {
    let mut named = Named::default();
    for object in absent {
        named.add(format!("{} {}", object.kind(), object.name()));
    }
    let mut text = String::new();
    named.write(head, &mut text);
    text
}
