//! The two objects that are nothing but plugins: global rules and plugin configs.

use crate::{Id, PluginSet};

/// Plugins that run for every request, before those of the route.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalRule {
    /// Its id.
    pub id: Id,
    /// What runs.
    pub plugins: PluginSet,
}

/// Plugins that routes share by naming `plugin_config_id`.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConfig {
    /// Its id.
    pub id: Id,
    /// What a route gets where it names no plugin of that name itself.
    pub plugins: PluginSet,
}
