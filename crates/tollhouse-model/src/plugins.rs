//! Plugin configurations as objects contain them: a map from name to configuration, with `_meta`
//! parsed.

use std::fmt;
use std::ops::Deref;

use serde_json::Value;

mod set;

pub use set::PluginSet;

use crate::Problems;
use crate::expr::Expr;
use crate::problem::excerpt;
use crate::reader::{Reader, Unknown};

/// The configuration of one plugin, not yet compiled.
#[derive(Clone, PartialEq)]
pub struct PluginConf {
    /// The configuration without `_meta` and the legacy `disable`.
    pub conf: Value,
    /// Settings in `_meta`, which all plugins have.
    pub meta: PluginMeta,
}

/// Hides the configuration, because only the plugin knows which fields are passwords or keys.
impl fmt::Debug for PluginConf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PluginConf")
            .field("conf", &format_args!("***"))
            .field("meta", &self.meta)
            .finish()
    }
}

/// `_meta` of a plugin. Most plugins have none, which takes no memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginMeta(Option<Box<MetaSettings>>);

/// Settings of a plugin without `_meta`.
static NO_SETTINGS: MetaSettings = MetaSettings {
    disable: false,
    priority: None,
    filter: None,
    error_response: None,
    pre_function: None,
};

impl Deref for PluginMeta {
    type Target = MetaSettings;

    fn deref(&self) -> &MetaSettings {
        self.0.as_deref().unwrap_or(&NO_SETTINGS)
    }
}

impl From<MetaSettings> for PluginMeta {
    fn from(settings: MetaSettings) -> Self {
        Self((settings != NO_SETTINGS).then(|| Box::new(settings)))
    }
}

/// `_meta`: settings that every plugin has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetaSettings {
    /// Disables the plugin; its configuration is then not validated.
    pub disable: bool,
    /// Priority that replaces the plugin's default in this object.
    pub priority: Option<i64>,
    /// Condition on requests; the plugin runs only if it holds.
    pub filter: Option<Expr>,
    /// Replaces the body of a response with status 400 or above that the plugin produces.
    pub error_response: Option<Value>,
    /// Text of a function in Lua that runs before the plugin.
    pub pre_function: Option<String>,
}

/// Names of the fields in `_meta`.
const META_FIELDS: [&str; 5] = ["disable", "priority", "filter", "error_response", "pre_function"];

/// Parses the `plugins` of an object. The crate that implements the plugins checks names and
/// configurations.
pub fn parse(value: &Value, path: &str, problems: &mut Problems) -> PluginSet {
    read(&mut Reader::new(path, problems), value)
}

pub(crate) fn read(reader: &mut Reader<'_>, value: &Value) -> PluginSet {
    let Some(confs) = reader.map(value) else { return PluginSet::new() };
    let read = confs.iter().filter_map(|(name, conf)| {
        let conf = reader.in_field(name, |reader| read_conf(reader, name, conf))?;
        Some((name.as_str().into(), conf))
    });
    read.collect()
}

fn read_conf(reader: &mut Reader<'_>, name: &str, value: &Value) -> Option<PluginConf> {
    if !value.is_object() && value.as_array().is_none_or(|items| !items.is_empty()) {
        let reason = format!("invalid plugin conf {} for plugin [{name}]", excerpt(value));
        reader.error(value, reason, "write an object; {} for the defaults");
        return None;
    }
    let fields = reader.map(value)?;
    let mut meta = reader.optional(fields, "_meta", read_meta).unwrap_or_default();
    let mut conf = fields.clone();
    conf.shift_remove("_meta");
    // Former place of this switch, which older documents still use.
    if let Some(disable) = reader.optional(fields, "disable", Reader::boolean) {
        meta.disable |= disable;
        conf.shift_remove("disable");
    }
    Some(PluginConf { conf: Value::Object(conf), meta: meta.into() })
}

fn read_meta(reader: &mut Reader<'_>, value: &Value) -> Option<MetaSettings> {
    let fields = reader.object(value, &META_FIELDS, Unknown::Refused)?;
    Some(MetaSettings {
        disable: reader.optional(fields, "disable", Reader::boolean).unwrap_or_default(),
        priority: reader.optional(fields, "priority", |reader, value| {
            reader.integer(value, i64::MIN..=i64::MAX)
        }),
        filter: reader.optional(fields, "filter", Reader::expression),
        error_response: reader.optional(fields, "error_response", |reader, value| {
            if !value.is_string() && !value.is_object() {
                reader.wrong_type(value, "one of string, object");
                return None;
            }
            Some(value.clone())
        }),
        pre_function: reader.optional(fields, "pre_function", |reader, value| {
            reader.text(value).map(str::to_owned)
        }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems_of(value: &Value) -> String {
        let mut problems = Problems::new();
        parse(value, "plugins", &mut problems);
        problems.to_string()
    }

    #[test]
    fn meta_is_taken_apart_from_the_conf() {
        let value = json!({
            "limit-count": {
                "count": 2,
                "_meta": {"disable": true, "priority": -3, "error_response": {"code": 1}},
            },
            "cors": {"disable": false},
            "key-auth": [],
            "mocking": {"_meta": []},
        });
        let mut problems = Problems::new();
        let plugins = parse(&value, "plugins", &mut problems);
        assert!(problems.is_empty(), "{problems}");
        let limit = &plugins["limit-count"];
        assert_eq!(limit.conf, json!({"count": 2}));
        assert!(limit.meta.disable);
        assert_eq!(limit.meta.priority, Some(-3));
        assert_eq!(limit.meta.error_response, Some(json!({"code": 1})));
        assert_eq!(plugins["cors"].conf, json!({}));
        assert!(!plugins["cors"].meta.disable);
        for empty in ["key-auth", "mocking"] {
            assert_eq!(plugins[empty].conf, json!({}), "{empty}");
        }
        assert!(parse(&json!([]), "plugins", &mut problems).is_empty());
        assert!(problems.is_empty(), "{problems}");
    }

    #[test]
    fn what_no_conf_may_say_is_refused() {
        let table = [
            (json!([1]), "plugins: wrong type: expected object, got array (got [1])"),
            (
                json!({"cors": 1}),
                "plugins.cors: invalid plugin conf 1 for plugin [cors] (got 1); \
                 write an object; {} for the defaults",
            ),
            (
                json!({"cors": {"_meta": {"disabled": true}}}),
                "plugins.cors._meta.disabled: unknown field \"disabled\"; \
                 did you mean \"disable\"?",
            ),
            (
                json!({"cors": {"_meta": {"pre_function": 1}}}),
                "plugins.cors._meta.pre_function: wrong type: expected string, got number (got 1)",
            ),
            (
                json!({"cors": {"_meta": {"error_response": 3, "priority": 1.5}}}),
                "plugins.cors._meta.priority: wrong type: expected integer, got number (got 1.5)\n\
                 plugins.cors._meta.error_response: wrong type: expected one of string, object, \
                 got number (got 3)",
            ),
        ];
        for (value, expected) in table {
            assert_eq!(problems_of(&value), expected);
        }
    }
}
