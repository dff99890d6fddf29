//! Plugin confs as objects carry them: name → conf object, with `_meta` taken apart.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::expr::Expr;

/// The `plugins` of a route, service, plugin config or global rule.
pub type PluginSet = BTreeMap<String, PluginConf>;

/// One plugin's conf, not yet compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConf {
    /// The conf without `_meta` and the legacy `disable`.
    pub conf: Value,
    /// What applies to any plugin.
    pub meta: PluginMeta,
}

/// `_meta`: what a conf may say whatever the plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginMeta {
    /// Skips the plugin; even an invalid conf is then accepted.
    pub disable: bool,
    /// Replaces the plugin's own priority for the object that carries it.
    pub priority: Option<i64>,
    /// Runs the plugin only where this holds.
    pub filter: Option<Expr>,
    /// Replaces the body of an answer with status 400 or above given by the plugin.
    pub error_response: Option<Value>,
}
