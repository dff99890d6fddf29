//! What is wrong with the plugins of an object, in the words of an operator.

use serde_json::Value;
use tollhouse_model::{PluginSet, Problem, Problems, encryption};

use crate::absent;
use crate::catalogue::Catalogue;
use crate::scope::{Scope, Services};
use std::sync::Arc;

/// What confs of auth plugins say in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// How requests are verified.
    Verifier,
    /// Who somebody is: in consumers and credentials.
    Identity,
}

/// Judges every plugin of an object that is not switched off.
pub fn judge(
    plugins: &PluginSet,
    role: Role,
    (owner, path): (&str, &str),
    catalogue: &Catalogue,
    services: &Arc<Services>,
) -> Problems {
    let mut problems = Problems::new();
    for (name, conf) in plugins.iter().filter(|(_, conf)| !conf.meta.disable) {
        let path = format!("{path}.plugins.{name}");
        let scope = Scope { owner, conf: &conf.conf, metadata: None, catalogue, services };
        let Some(plugin) = catalogue.get(name) else {
            problems.push(absent::problem(name, path, role, &scope));
            continue;
        };
        if let Some(field) = encryption::sealed_field(&conf.conf) {
            problems.push(unopened(format!("{path}.{field}")));
            continue;
        }
        let checked = if role == Role::Identity && plugin.is_auth() {
            plugin.identify(&conf.conf).and_then(|identified| identified.check())
        } else {
            plugin.compile(&conf.conf, &scope).map(drop)
        };
        if let Err(error) = checked {
            problems.push(refused(name, path, &error));
        }
    }
    problems
}

/// A conf that its plugin refuses.
pub fn refused(name: &str, path: String, error: &str) -> Problem {
    Problem::error(path, format!("failed to check the configuration of plugin {name} err: {error}"))
}

/// A value that was encrypted and that no key opens: it must never be taken for what it hides.
pub fn unopened(path: String) -> Problem {
    let hint = "put the keyring back that it was sealed with, or write the value anew";
    Problem::error(path, "the value is sealed, and no key of the keyring opens it").with_hint(hint)
}

/// The first value of an object, outside of its plugins, that is sealed and was not opened.
pub fn unopened_beside_plugins(object: &Value, path: &str) -> Option<Problem> {
    let fields = object.as_object()?.iter().filter(|(name, _)| *name != "plugins");
    let mut sealed =
        fields.filter_map(|(name, value)| Some((name, encryption::sealed_field(value)?)));
    let (name, below) = sealed.next()?;
    let dot = if below.is_empty() { "" } else { "." };
    Some(unopened(format!("{path}.{name}{dot}{below}")))
}
