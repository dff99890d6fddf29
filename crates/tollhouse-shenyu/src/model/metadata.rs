//! Metadata of a service's method: its path and how it is called.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// Description of a registered method (ShenYu's `MetaData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Application that registered the method.
    pub app_name: Option<String>,
    pub context_path: Option<String>,
    /// Path of the method, an Ant pattern.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: String,
    /// RPC type: `http`, `dubbo`, `grpc` and others.
    #[serde(deserialize_with = "lenient::or_default")]
    pub rpc_type: String,
    /// Service name or Java interface of the method.
    pub service_name: Option<String>,
    pub method_name: Option<String>,
    /// Types of the parameters, separated by commas.
    pub parameter_types: Option<String>,
    /// Settings of the protocol, as JSON text.
    pub rpc_ext: Option<String>,
    /// Whether requests are matched against the metadata; true if absent.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Id of the namespace, since ShenYu 2.7.
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
