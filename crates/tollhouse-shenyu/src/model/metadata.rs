//! Metadata of a service's method: its path and how it is called.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// ShenYu's `MetaData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Id of the metadata.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Application that registered the method.
    pub app_name: Option<String>,
    /// Context path of the application.
    pub context_path: Option<String>,
    /// Path of the method, an Ant pattern.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: String,
    /// RPC type: `http`, `dubbo`, `grpc` and others.
    #[serde(deserialize_with = "lenient::or_default")]
    pub rpc_type: String,
    /// Service or Java interface.
    pub service_name: Option<String>,
    /// Name of the method.
    pub method_name: Option<String>,
    /// Parameter types, comma-separated.
    pub parameter_types: Option<String>,
    /// JSON text with protocol-specific settings.
    pub rpc_ext: Option<String>,
    /// Whether the metadata is in use.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            id: String::new(),
            app_name: None,
            context_path: None,
            path: String::new(),
            rpc_type: String::new(),
            service_name: None,
            method_name: None,
            parameter_types: None,
            rpc_ext: None,
            enabled: true,
            namespace_id: None,
        }
    }
}
