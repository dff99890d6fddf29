//! Port whose connections are proxied without interpretation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient;

/// ShenYu's `ProxySelectorData`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxySelector {
    /// Id, which is also the selector id of its upstreams.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Name of the object.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Name of the plugin: `tcp`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// Kind of traffic: `tcp`.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Port to listen on.
    #[serde(deserialize_with = "lenient::integer")]
    pub forward_port: Option<i64>,
    /// Socket settings.
    #[serde(deserialize_with = "lenient::or_default")]
    pub props: Map<String, Value>,
    /// Namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}
