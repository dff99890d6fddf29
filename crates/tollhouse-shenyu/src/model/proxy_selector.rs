//! Port whose connections are proxied without interpretation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient;

/// Port whose connections are proxied (ShenYu's `ProxySelectorData`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxySelector {
    /// Id, which is also the selector id of its upstreams.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Name of the plugin, always `tcp`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// Kind of traffic, always `tcp`.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Port on which the gateway listens.
    #[serde(deserialize_with = "lenient::integer")]
    pub forward_port: Option<i64>,
    /// Settings of the listening socket.
    #[serde(deserialize_with = "lenient::or_default")]
    pub props: Map<String, Value>,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}
