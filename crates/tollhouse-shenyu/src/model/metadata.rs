//! What is known of one method of a service: its path and how it is called.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// `MetaData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// The application that registered it.
    pub app_name: Option<String>,
    /// The path under which the application stands.
    pub context_path: Option<String>,
    /// The path of the method, an Ant pattern.
    #[serde(deserialize_with = "lenient::or_default")]
    pub path: String,
    /// How it is called: `http`, `dubbo`, `grpc` and others.
    #[serde(deserialize_with = "lenient::or_default")]
    pub rpc_type: String,
    /// The service or Java interface.
    pub service_name: Option<String>,
    /// The method.
    pub method_name: Option<String>,
    /// The types of its parameters, comma-separated.
    pub parameter_types: Option<String>,
    /// What the protocol needs beyond: a JSON document, written as text.
    pub rpc_ext: Option<String>,
    /// Whether it takes part.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Its namespace (2.7).
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
