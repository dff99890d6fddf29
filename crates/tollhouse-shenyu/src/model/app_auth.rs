//! An application that signs its requests: its secret, and what it may ask for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lenient;

/// `AppAuthData`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppAuth {
    /// The name of the application, and of the object.
    #[serde(deserialize_with = "lenient::or_default")]
    pub app_key: String,
    /// The secret of its signatures.
    #[serde(deserialize_with = "lenient::or_default")]
    pub app_secret: String,
    /// Whether its signatures count.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether paths are looked at. Absent is true, which refuses where no paths are given.
    #[serde(deserialize_with = "lenient::or_true")]
    pub open: bool,
    /// Texts for nodes, one a module.
    #[serde(deserialize_with = "lenient::or_default")]
    pub param_data_list: Vec<AuthParameter>,
    /// The paths it may ask for.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path_data_list: Vec<AuthPath>,
    /// Its namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

/// What nodes of a module are told of an application: the header `appParam`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthParameter {
    /// The module: a context path.
    pub app_name: Option<String>,
    /// The text.
    pub app_param: Option<String>,
}

/// A path that an application may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthPath {
    /// The application as consoles show it.
    pub app_name: Option<String>,
    /// An Ant pattern.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: String,
    /// Whether it counts. It grants, so an absent one is false.
    #[serde(deserialize_with = "lenient::or_false")]
    pub enabled: bool,
}

impl Default for AppAuth {
    fn default() -> Self {
        Self {
            app_key: String::new(),
            app_secret: String::new(),
            enabled: true,
            open: true,
            param_data_list: Vec::new(),
            path_data_list: Vec::new(),
            namespace_id: None,
        }
    }
}

/// Without the secret.
impl fmt::Debug for AppAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AppAuth")
            .field("app_key", &self.app_key)
            .field("enabled", &self.enabled)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
