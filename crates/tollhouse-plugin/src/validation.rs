//! Validation of the plugins in an object. Problems have texts for operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tollhouse_model::expr::Expr;
use tollhouse_model::problem::Severity;
use tollhouse_model::{PluginSet, Problem, Problems, encryption};
use tollhouse_transcode::Protos;

use crate::absent;
use crate::catalogue::{Catalogue, PluginType};
use crate::conf_error::ConfError;
use crate::plugin::Remark;
use crate::scope::{Scope, Services};

/// Role of auth plugin confs in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The conf configures how the plugin checks requests.
    Verifier,
    /// The conf is the credential of a consumer, in consumers and credentials.
    Identity,
    /// The conf applies to connections below HTTP, in stream routes.
    Connection,
}

/// Plugins of an object, and the object's identity.
#[derive(Debug, Clone, Copy)]
pub struct ObjectPlugins<'a> {
    /// Plugin confs of the object, by plugin name.
    pub plugins: &'a PluginSet,
    /// Role of auth plugin confs in the object.
    pub role: Role,
    /// Path of the object: `routes/1`, `consumers/jack`.
    pub owner: &'a str,
    /// Location in the object's document: `routes[0]`.
    pub path: &'a str,
}

/// Parts of the configuration and the process that validation of an object needs.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Catalogue of all plugins of this build.
    pub catalogue: &'a Catalogue,
    /// Services that all plugins of the process share.
    pub services: &'a Arc<Services>,
    /// Metadata objects, by plugin name.
    pub metadata: &'a BTreeMap<String, Value>,
    /// gRPC service definitions (`protos`) of the same configuration.
    pub protos: &'a Protos,
}

/// Validates the enabled plugins of an object and returns all problems.
pub fn validate(object: ObjectPlugins<'_>, surroundings: Surroundings<'_>) -> Problems {
    let ObjectPlugins { plugins, role, owner, path } = object;
    let Surroundings { catalogue, services, metadata, protos } = surroundings;
    let mut problems = Problems::new();
    for (name, conf) in plugins.iter().filter(|(_, conf)| !conf.meta.disable) {
        let path = format!("{path}.plugins.{name}");
        let metadata = metadata.get(name);
        let protos = Some(protos);
        let scope = Scope { owner, conf: &conf.conf, metadata, protos, catalogue, services };
        let Some(plugin) = catalogue.get(name) else {
            problems.push(absent::problem(name, path, role, &scope));
            continue;
        };
        if role == Role::Connection && !plugin.serves_connections {
            problems.push(not_for_connections(name, path));
            continue;
        }
        // Sealed values are reported before compilation, which would use the ciphertext as the
        // secret.
        if let Some(field) = encryption::sealed_field(&conf.conf) {
            problems.push(unopened(format!("{path}.{field}")));
            continue;
        }
        let checked = if role == Role::Identity && plugin.is_auth() {
            plugin.check_identity(&conf.conf, services)
        } else {
            plugin.check(&conf.conf, &scope)
        };
        if let Err(error) = checked {
            let problem = refused(name, path, &error);
            let hint =
                lacking(plugin.schema(), &conf.conf).filter(|_| error.text().contains(NO_BRANCH));
            problems.push(match hint {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            });
        } else {
            warn(plugin, &conf.conf, &path, &mut problems);
        }
    }
    problems
}

/// Adds the warnings of a valid conf and of its expressions.
fn warn(plugin: &PluginType, conf: &Value, path: &str, problems: &mut Problems) {
    for Remark { field, reason, hint } in (plugin.remarks)(conf) {
        let path = if field.is_empty() { path.to_owned() } else { format!("{path}.{field}") };
        problems.push(Problem::warning(path, reason).with_hint(hint));
    }
    for pattern in plugin.expressions {
        let mut visit = |value: &Value, field: String| {
            let mut found = Problems::new();
            Expr::parse(value, &format!("{path}{field}"), &mut found);
            let warnings = found.iter().filter(|one| one.severity == Severity::Warning);
            warnings.for_each(|one| problems.push(one.clone()));
        };
        each_at(conf, pattern, String::new(), &mut visit);
    }
}

/// Calls `visit` with each value at a dotted path; `*` stands for every item of a list.
fn each_at(value: &Value, pattern: &str, found: String, visit: &mut dyn FnMut(&Value, String)) {
    if pattern.is_empty() {
        return visit(value, found);
    }
    let (first, rest) = pattern.split_once('.').unwrap_or((pattern, ""));
    if first == "*" {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            each_at(item, rest, format!("{found}[{index}]"), visit);
        }
    } else if let Some(field) = value.get(first) {
        each_at(field, rest, format!("{found}.{first}"), visit);
    }
}

/// Start of the schema error for a value that matches no alternative of `oneOf` or `anyOf`.
const NO_BRANCH: &str = "matches none";

/// Returns a hint if a conf has only some of the fields that an alternative of the schema requires
/// together.
fn lacking(schema: &Value, conf: &Value) -> Option<String> {
    let branches = ["oneOf", "anyOf"].into_iter().filter_map(|kind| schema.get(kind)?.as_array());
    let parted = branches.flatten().filter_map(|branch| {
        let required = branch.get("required")?.as_array()?.iter().filter_map(Value::as_str);
        let (given, lacked): (Vec<&str>, Vec<&str>) =
            required.partition(|name| conf.get(name).is_some());
        (!given.is_empty() && !lacked.is_empty()).then_some((given, lacked))
    });
    let (given, lacked) = parted.max_by_key(|(given, _)| given.len())?;
    let quoted = |names: Vec<&str>| format!("\"{}\"", names.join("\", \""));
    Some(format!("{} is required beside {}", quoted(lacked), quoted(given)))
}

/// Returns the problem of a conf that its plugin refuses.
pub fn refused(name: &str, path: String, error: &ConfError) -> Problem {
    let path = match error.field() {
        Some(field) => format!("{path}.{field}"),
        None => path,
    };
    Problem::error(path, format!("failed to check the configuration of plugin {name} err: {error}"))
}

/// Returns the problem of an HTTP plugin in a stream route.
pub fn not_for_connections(name: &str, path: String) -> Problem {
    let reason = format!("the plugin {name} is for requests, and a stream route has connections");
    Problem::error(path, reason).with_hint("use it in a route, or remove it")
}

/// Returns the problem of a sealed value that no key opens. Such a value must never be used as the
/// secret.
pub fn unopened(path: String) -> Problem {
    let hint = "put the keyring back that it was sealed with, or write the value anew";
    Problem::error(path, "the value is sealed, and no key of the keyring opens it").with_hint(hint)
}

/// Returns the problem of the first sealed value of an object outside of its plugins.
pub fn unopened_beside_plugins(object: &Value, path: &str) -> Option<Problem> {
    let fields = object.as_object()?.iter().filter(|(name, _)| *name != "plugins");
    let mut sealed =
        fields.filter_map(|(name, value)| Some((name, encryption::sealed_field(value)?)));
    let (name, below) = sealed.next()?;
    let dot = if below.is_empty() { "" } else { "." };
    Some(unopened(format!("{path}.{name}{dot}{below}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_points_at_the_field_where_it_is_known() {
        let path = || "routes[0].plugins.x".to_owned();
        let known = refused("x", path(), &ConfError::in_field("key", "too short"));
        let unknown = refused("x", path(), &ConfError::from("too short"));
        assert_eq!(known.path, "routes[0].plugins.x.key");
        assert_eq!(unknown.path, "routes[0].plugins.x");
        assert_eq!(known.reason, "failed to check the configuration of plugin x err: too short");
        assert_eq!(known.reason, unknown.reason);
    }

    #[test]
    fn every_expression_of_a_conf_is_found() {
        let conf = json!({"vars": 1, "rules": [{"match": [{"vars": 2}, {}]}, {}, {"match": [{"vars": 3}]}]});
        let found = |pattern: &str| {
            let mut found = Vec::new();
            let mut visit = |value: &Value, field: String| found.push(format!("{field}={value}"));
            each_at(&conf, pattern, String::new(), &mut visit);
            found.join(" ")
        };
        assert_eq!(found("vars"), ".vars=1");
        assert_eq!(
            found("rules.*.match.*.vars"),
            ".rules[0].match[0].vars=2 .rules[2].match[0].vars=3"
        );
        assert_eq!(found("abort.vars.*"), "");
    }

    #[test]
    fn what_is_lacking_beside_what_is_there_is_named() {
        let schema = json!({"oneOf": [
            {"required": ["count", "time_window"]},
            {"required": ["rules"]},
        ]});
        let table = [
            (json!({"count": 1}), Some("\"time_window\" is required beside \"count\"")),
            (json!({}), None),
            (json!({"rules": []}), None),
        ];
        for (conf, expected) in table {
            assert_eq!(lacking(&schema, &conf).as_deref(), expected, "{conf}");
        }
        assert_eq!(lacking(&json!({"type": "object"}), &json!({"a": 1})), None);
    }
}
