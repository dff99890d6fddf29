//! Application that signs its requests: its secret and its permitted paths.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lenient;

/// Application that may sign requests (ShenYu's `AppAuthData`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppAuth {
    /// Key of the application, which also identifies the object.
    #[serde(deserialize_with = "lenient::or_default")]
    pub app_key: String,
    /// Secret that requests are signed with.
    #[serde(deserialize_with = "lenient::or_default")]
    pub app_secret: String,
    /// Whether signatures of the application are accepted.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether the paths of requests are checked; true if absent, so that an application without
    /// paths is refused.
    #[serde(deserialize_with = "lenient::or_true")]
    pub open: bool,
    /// Values of the header `appParam`, one for each module.
    #[serde(deserialize_with = "lenient::or_default")]
    pub param_data_list: Vec<AuthParameter>,
    /// Paths that the application may request.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path_data_list: Vec<AuthPath>,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

/// Value of the header `appParam` for nodes of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthParameter {
    /// Module, named by its context path.
    pub app_name: Option<String>,
    /// Value of the header `appParam`.
    pub app_param: Option<String>,
}

/// Path that an application may request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthPath {
    /// Name of the application as consoles show it.
    pub app_name: Option<String>,
    /// Ant pattern of paths that the application may request.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: String,
    /// Whether the entry applies; false if absent, because an entry grants access.
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

/// Shows the application without its secret.
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
