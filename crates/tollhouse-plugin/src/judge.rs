//! What is wrong with the plugins of an object, in the words of an operator.

use tollhouse_model::{PluginSet, Problem, Problems};

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
        let Some(plugin) = catalogue.get(name) else {
            problems.push(unknown(name, path));
            continue;
        };
        let scope = Scope { owner, conf: &conf.conf, metadata: None, catalogue, services };
        let checked = if role == Role::Identity && plugin.is_auth() {
            plugin.identify(&conf.conf).map(drop)
        } else {
            plugin.compile(&conf.conf, &scope).map(drop)
        };
        if let Err(error) = checked {
            problems.push(refused(name, path, &error));
        }
    }
    problems
}

/// A plugin that this build does not have: an operator must not believe that it protects anything.
pub fn unknown(name: &str, path: String) -> Problem {
    let reason = format!("plugin \"{name}\" is not part of this build");
    let hint = "it has no effect: requests pass as if it were not there";
    Problem::warning(path, reason).with_hint(hint)
}

/// A conf that its plugin refuses.
pub fn refused(name: &str, path: String, error: &str) -> Problem {
    Problem::error(path, format!("failed to check the configuration of plugin {name} err: {error}"))
}
