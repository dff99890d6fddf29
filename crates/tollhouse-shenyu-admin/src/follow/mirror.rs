//! Mirror of an admin's objects, and the writes that bring the store up to date.
//!
//! Objects are stored as the text in which they arrived.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tollhouse_shenyu::Kind;
use tollhouse_store::{Limits, Listing, Operation};

use crate::row::{self, Row};

/// Text of objects by kind and id.
type Objects = BTreeMap<(Kind, String), Bytes>;

#[derive(Debug)]
pub(super) struct Mirror {
    stored: Objects,
    wanted: Objects,
    limits: Limits,
}

/// Event of a message, which determines how its objects are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Event {
    /// The objects replace their whole group.
    Myself,
    /// The objects replace all those of their plugins.
    Refresh,
    Create,
    Update,
    Delete,
}

/// Returns the kind of objects with that group name.
pub(super) fn kind(group: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.group() == group)
}

/// Returns the key of an object, or `None` if the object has no id.
fn id(kind: Kind, object: &Row) -> Option<String> {
    let names: &[&str] = match kind {
        Kind::Plugin | Kind::ProxySelector => &["id", "name"],
        Kind::Metadata => &["id", "path"],
        Kind::AppAuth => &["appKey"],
        Kind::DiscoveryUpstream => &["selectorId"],
        Kind::Selector | Kind::Rule => &["id"],
    };
    names.iter().find_map(|name| row::filled(object, name))
}

impl Mirror {
    /// Creates an empty mirror for a store with these limits.
    pub(super) fn new(limits: Limits) -> Self {
        Self { stored: Objects::new(), wanted: Objects::new(), limits }
    }

    /// Replaces the mirror's content with that of the store.
    pub(super) fn read(&mut self, listing: &Listing) {
        self.stored.clear();
        for entry in &listing.entries {
            if let Some((kind, id)) = tollhouse_shenyu::parse_key(&entry.key) {
                self.stored.insert((kind, id.to_owned()), entry.value.clone());
            }
        }
        self.wanted = self.stored.clone();
    }

    /// Applies a message to a group. An object without an id, or larger than the store permits, is
    /// skipped with a warning. Its stored version stays, and the other objects are applied.
    pub(super) fn take(&mut self, kind: Kind, event: Event, objects: &[&RawValue]) {
        let mut read = Vec::with_capacity(objects.len());
        for text in objects {
            let object = serde_json::from_str::<Row>(text.get()).unwrap_or_default();
            match id(kind, &object) {
                Some(id) => read.push((id, object, Bytes::copy_from_slice(text.get().as_bytes()))),
                None => tracing::warn!(group = kind.group(), "an object without an id is left out"),
            }
        }
        match event {
            Event::Myself => self.wanted.retain(|(known, _), _| *known != kind),
            Event::Refresh => self.forget_plugins(kind, &read),
            Event::Create | Event::Update | Event::Delete => {}
        }
        for (id, _, text) in read {
            match event {
                Event::Delete => drop(self.wanted.remove(&(kind, id))),
                _ if self.is_too_large(kind, &id, &text) => {
                    let bytes = id.len().saturating_add(text.len());
                    tracing::warn!(
                        group = kind.group(),
                        bytes,
                        "an object is larger than the store takes, and left out"
                    );
                    let key = (kind, id);
                    if let Some(before) = self.stored.get(&key) {
                        self.wanted.insert(key, before.clone());
                    }
                }
                _ => drop(self.wanted.insert((kind, id), text)),
            }
        }
    }

    fn is_too_large(&self, kind: Kind, id: &str, text: &Bytes) -> bool {
        let Limits { key_bytes_max, value_bytes_max, .. } = self.limits;
        text.len() > value_bytes_max || tollhouse_shenyu::key(kind, id).len() > key_bytes_max
    }

    /// Removes the objects of the plugins that `read` mentions, before `read` replaces them. Admins
    /// send one kind of message to refresh a single plugin and to refresh all, so objects of other
    /// plugins stay. Plugins themselves stay too.
    fn forget_plugins(&mut self, kind: Kind, read: &[(String, Row, Bytes)]) {
        let plugin = |object: &Row| row::filled(object, "pluginName");
        match kind {
            Kind::Plugin => {}
            // Admins always refresh these kinds as a whole.
            Kind::Metadata | Kind::AppAuth => {
                if !read.is_empty() {
                    self.wanted.retain(|(known, _), _| *known != kind);
                }
            }
            Kind::Selector | Kind::Rule | Kind::ProxySelector | Kind::DiscoveryUpstream => {
                let meant: BTreeSet<String> =
                    read.iter().filter_map(|(_, object, _)| plugin(object)).collect();
                self.wanted.retain(|(known, _), text| {
                    let of_plugin = || {
                        let object = serde_json::from_slice::<Row>(text).unwrap_or_default();
                        plugin(&object).is_some_and(|name| meant.contains(&name))
                    };
                    *known != kind || !of_plugin()
                });
            }
        }
    }

    /// Returns the writes that bring the store up to date, and assumes from then on that they are
    /// applied.
    pub(super) fn take_operations(&mut self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for ((kind, id), text) in &self.wanted {
            if self.stored.get(&(*kind, id.clone())) != Some(text) {
                operations.push(Operation::put(tollhouse_shenyu::key(*kind, id), text.clone()));
            }
        }
        for (kind, id) in self.stored.keys() {
            if !self.wanted.contains_key(&(*kind, id.clone())) {
                operations.push(Operation::delete(tollhouse_shenyu::key(*kind, id)));
            }
        }
        self.stored = self.wanted.clone();
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(mirror: &mut Mirror, kind: Kind, event: Event, text: &str) {
        let objects: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        mirror.take(kind, event, &objects);
    }

    /// Returns the pending writes, one per line.
    fn written(mirror: &mut Mirror) -> Vec<String> {
        let line = |operation: &Operation| match operation {
            Operation::Put { key, value, .. } => {
                format!("{key} {}", String::from_utf8_lossy(value))
            }
            Operation::Delete { key } => format!("-{key}"),
            Operation::DeletePrefix { prefix } => format!("--{prefix}"),
        };
        mirror.take_operations().iter().map(line).collect()
    }

    const SELECTORS: &str = r#"[{"id":"1","pluginName":"divide"},{"id":"2","pluginName":"divide"},{"id":"3","pluginName":"waf"}]"#;

    #[test]
    fn a_state_replaces_its_group_and_writes_only_what_differs() {
        let mut mirror = Mirror::new(Limits::EMBEDDED);
        take(&mut mirror, Kind::Selector, Event::Myself, SELECTORS);
        take(&mut mirror, Kind::AppAuth, Event::Myself, r#"[{"appKey":"K","open": true}]"#);
        assert_eq!(
            written(&mut mirror),
            [
                r#"/shenyu/selector/1 {"id":"1","pluginName":"divide"}"#,
                r#"/shenyu/selector/2 {"id":"2","pluginName":"divide"}"#,
                r#"/shenyu/selector/3 {"id":"3","pluginName":"waf"}"#,
                // The text is stored byte for byte.
                r#"/shenyu/appAuth/K {"appKey":"K","open": true}"#,
            ]
        );
        take(
            &mut mirror,
            Kind::Selector,
            Event::Myself,
            r#"[{"id":"1","pluginName":"divide"},{"id":"2","pluginName":"grpc"}]"#,
        );
        assert_eq!(
            written(&mut mirror),
            [r#"/shenyu/selector/2 {"id":"2","pluginName":"grpc"}"#, "-/shenyu/selector/3"]
        );
        assert_eq!(written(&mut mirror), [""; 0]);
    }

    #[test]
    fn an_object_that_no_store_takes_stays_out_and_what_was_there_of_it_stays() {
        let mut mirror = Mirror::new(Limits { value_bytes_max: 40, ..Limits::EMBEDDED });
        let small = r#"[{"id":"1","name":"a"},{"id":"2"}]"#;
        take(&mut mirror, Kind::Selector, Event::Myself, small);
        written(&mut mirror);
        let (long, key) = ("x".repeat(40), "k".repeat(Limits::EMBEDDED.key_bytes_max));
        let large = format!(
            r#"[{{"id":"1","name":"{long}"}},{{"id":"3","name":"{long}"}},{{"id":"{key}"}},{{"id":"4"}}]"#
        );
        take(&mut mirror, Kind::Selector, Event::Myself, &large);
        assert_eq!(
            written(&mut mirror),
            [r#"/shenyu/selector/4 {"id":"4"}"#, "-/shenyu/selector/2"]
        );
        take(&mut mirror, Kind::Selector, Event::Update, r#"[{"id":"1","name":"b"}]"#);
        assert_eq!(written(&mut mirror), [r#"/shenyu/selector/1 {"id":"1","name":"b"}"#]);
    }

    #[test]
    fn events_change_what_they_name() {
        let mut mirror = Mirror::new(Limits::EMBEDDED);
        take(&mut mirror, Kind::Selector, Event::Create, SELECTORS);
        written(&mut mirror);
        take(&mut mirror, Kind::Selector, Event::Update, r#"[{"id":"1","pluginName":"x"}]"#);
        take(
            &mut mirror,
            Kind::Selector,
            Event::Delete,
            r#"[{"id":"2"},{"id":"9"},{"name":"?"},7]"#,
        );
        assert_eq!(
            written(&mut mirror),
            [r#"/shenyu/selector/1 {"id":"1","pluginName":"x"}"#, "-/shenyu/selector/2"]
        );
    }

    #[test]
    fn a_refresh_is_all_of_the_plugins_in_it_and_says_nothing_of_others() {
        let mut mirror = Mirror::new(Limits::EMBEDDED);
        take(&mut mirror, Kind::Selector, Event::Myself, SELECTORS);
        take(&mut mirror, Kind::Metadata, Event::Myself, r#"[{"id":"m"},{"path":"/p"}]"#);
        written(&mut mirror);
        take(&mut mirror, Kind::Selector, Event::Refresh, r#"[{"id":"1","pluginName":"divide"}]"#);
        assert_eq!(written(&mut mirror), ["-/shenyu/selector/2"]);
        take(&mut mirror, Kind::Selector, Event::Refresh, "[]");
        take(&mut mirror, Kind::Metadata, Event::Refresh, "[]");
        assert_eq!(written(&mut mirror), [""; 0]);
        take(&mut mirror, Kind::Metadata, Event::Refresh, r#"[{"id":"m"}]"#);
        assert_eq!(written(&mut mirror), ["-/shenyu/metadata//p"]);
    }
}
