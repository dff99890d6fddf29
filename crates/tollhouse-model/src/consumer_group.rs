//! Consumer groups: plugins that several consumers share.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, PluginSet, Problems, plugins};

/// Consumer group that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerGroup {
    pub id: Id,
    /// Plugins that apply to each consumer of the group, except those that the consumer configures
    /// itself.
    pub plugins: PluginSet,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

const FIELDS: [&str; 5] = ["id", "plugins", "name", "desc", "labels"];

impl ConsumerGroup {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let group = reader
            .record(value, &FIELDS, Unknown::Refused)
            .and_then(|fields| read(&mut reader, id, fields));
        (group.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields) -> Option<ConsumerGroup> {
    reader.own_keys(fields, Some(&id));
    let description = reader.description(fields);
    let plugins =
        reader.required(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))?;
    Some(ConsumerGroup {
        id,
        plugins,
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_is_plugins_and_what_people_call_it() {
        let value = json!({
            "id": 1, "plugins": {"limit-count": {}}, "name": "n", "desc": "d",
            "labels": {"a": "b"}, "update_time": 3,
        });
        let (group, problems) = ConsumerGroup::parse(Id::new("1"), &value, "consumer_groups[0]");
        assert_eq!(problems.to_string(), "");
        let group = group.expect("no problem was found");
        assert_eq!(group.plugins.len(), 1);
        assert_eq!((group.name.as_deref(), group.desc.as_deref()), (Some("n"), Some("d")));
        assert_eq!(group.labels["a"], "b");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = [
            (json!({}), "property \"plugins\" is required"),
            (json!({"plugins": {}, "id": "2"}), "wrong id"),
            (json!({"plugins": {}, "username": "a"}), "unknown field \"username\""),
            (json!({"plugins": {}, "name": "n".repeat(257)}), "string too long"),
            (json!(1), "wrong type: expected object, got number"),
        ];
        for (value, expected) in table {
            let (group, problems) = ConsumerGroup::parse(Id::new("1"), &value, "g");
            assert!(group.is_none(), "{value}");
            assert!(problems.to_string().contains(expected), "{problems}");
        }
    }
}
