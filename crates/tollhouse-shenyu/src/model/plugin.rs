//! Plugin's row: whether it is enabled, its order in the chain, and its configuration.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// Plugin with its global configuration (ShenYu's `PluginData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Name by which selectors and rules refer to the plugin.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Configuration of the plugin as JSON text.
    pub config: Option<String>,
    /// Category under which consoles list the plugin.
    pub role: Option<String>,
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Order in the chain, ascending; the built-in order if absent.
    #[serde(deserialize_with = "lenient::integer")]
    pub sort: Option<i64>,
    /// Uploaded archive of Java classes. Only Java gateways can run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_jar: Option<String>,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl Default for Plugin {
    fn default() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            config: None,
            role: None,
            enabled: true,
            sort: None,
            plugin_jar: None,
            namespace_id: None,
        }
    }
}
