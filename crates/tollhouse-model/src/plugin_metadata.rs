//! Plugin metadata: settings that apply to all configurations of a plugin, such as a log format.

use std::fmt;

use serde_json::Value;

use crate::reader::{REVISION_FIELDS, Reader, TIME_FIELDS};
use crate::{Id, Problems};

/// Metadata of one plugin. The plugin itself checks its content.
#[derive(Clone, PartialEq)]
pub struct PluginMetadata {
    /// The plugin's name, which is also the object's id.
    pub name: String,
    /// The metadata without fields of the object itself, such as `id`.
    pub conf: Value,
}

/// Whether a field belongs to the object rather than to the plugin.
fn is_own_key(name: &str) -> bool {
    name == "id" || TIME_FIELDS.contains(&name) || REVISION_FIELDS.contains(&name)
}

impl PluginMetadata {
    /// Parses a document; returns `None` if any problem is an error. `id` is the plugin's name.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let metadata = reader.map(value).map(|fields| {
            reader.own_keys(fields, Some(&id));
            let mut conf = fields.clone();
            conf.retain(|name, _| !is_own_key(name));
            Self { name: id.as_str().to_owned(), conf: Value::Object(conf) }
        });
        (metadata.filter(|_| !problems.has_errors()), problems)
    }
}

/// Hides the content, because metadata may contain passwords.
impl fmt::Debug for PluginMetadata {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PluginMetadata")
            .field("name", &self.name)
            .field("conf", &format_args!("***"))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_conf_comes_without_the_keys_of_the_object() {
        let value = json!({
            "id": "http-logger", "log_format": {"host": "$host"}, "create_time": 1,
            "update_time": 2, "modifiedIndex": 3, "createdIndex": 3, "password": "hidden",
        });
        let (metadata, problems) = PluginMetadata::parse(Id::new("http-logger"), &value, "m");
        assert_eq!(problems.to_string(), "");
        let metadata = metadata.expect("no problem was found");
        assert_eq!(metadata.name, "http-logger");
        assert_eq!(metadata.conf, json!({"log_format": {"host": "$host"}, "password": "hidden"}));
        assert_eq!(format!("{metadata:?}"), "PluginMetadata { name: \"http-logger\", conf: *** }");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = [
            (json!([1]), "wrong type: expected object, got array"),
            (json!({"id": "other"}), "wrong id"),
            (json!({"create_time": -1}), "expected -1 to be at least 0"),
        ];
        for (value, expected) in table {
            let (metadata, problems) = PluginMetadata::parse(Id::new("cors"), &value, "m");
            assert!(metadata.is_none(), "{value}");
            assert!(problems.to_string().contains(expected), "{problems}");
        }
    }
}
