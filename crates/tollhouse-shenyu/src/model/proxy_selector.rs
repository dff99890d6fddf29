//! A port at which connections are passed on as they are.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient;

/// `ProxySelectorData`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxySelector {
    /// Its id, which is the selector's of its upstreams.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its plugin's name: `tcp`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// The kind of traffic: `tcp`.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The port at which it listens.
    #[serde(deserialize_with = "lenient::integer")]
    pub forward_port: Option<i64>,
    /// Settings of the sockets.
    #[serde(deserialize_with = "lenient::or_default")]
    pub props: Map<String, Value>,
    /// Its namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}
