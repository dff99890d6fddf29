//! A plugin's row: whether it runs, where in the chain, with which configuration.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// `PluginData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    /// Its id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Its name, by which selectors and rules name it.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// A JSON document, written as text.
    pub config: Option<String>,
    /// The heading under which consoles show it.
    pub role: Option<String>,
    /// Whether it runs.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Its place in the chain, rising; the one built in where absent.
    #[serde(deserialize_with = "lenient::integer")]
    pub sort: Option<i64>,
    /// An uploaded archive of Java classes, which no gateway but Java's can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_jar: Option<String>,
    /// Its namespace (2.7).
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
