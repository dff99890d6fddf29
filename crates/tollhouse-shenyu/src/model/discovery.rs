//! Upstreams of a selector from discovery (2.6.0: for `tcp`; since 2.6.1 also for `divide`, `grpc`
//! and `websocket`).

use serde::{Deserialize, Serialize};

use crate::lenient;

/// ShenYu's `DiscoverySyncData`: all upstreams of a selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryUpstreams {
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// Id of the selector, which also identifies the object.
    #[serde(deserialize_with = "lenient::or_default")]
    pub selector_id: String,
    pub selector_name: Option<String>,
    /// Id of the discovery handler that finds the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery_handler_id: Option<String>,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
    /// Nodes of the selector.
    #[serde(deserialize_with = "lenient::or_default")]
    pub upstream_data_list: Vec<DiscoveryUpstream>,
}

/// Node that discovery found (ShenYu's `DiscoveryUpstreamData`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryUpstream {
    /// Id of the row in ShenYu's admin.
    pub id: Option<String>,
    /// Id of the discovery handler that found the node.
    pub discovery_handler_id: Option<String>,
    /// Protocol prefix: `http://`, `https://`, `ws://` and others.
    pub protocol: Option<String>,
    /// Host and port of the node.
    #[serde(deserialize_with = "lenient::or_default")]
    pub url: String,
    /// Status: 0 is healthy, 1 is offline.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub status: i64,
    /// Share of requests, relative to other nodes.
    #[serde(deserialize_with = "lenient::hint")]
    pub weight: Option<i64>,
    /// JSON text with `warmup` (in ms), `gray`, `healthCheckEnabled` and `upstreamHost`.
    pub props: Option<String>,
    /// Creation time, when warm-up begins: `yyyy-MM-dd HH:mm:ss`, or milliseconds since 1970.
    #[serde(deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub date_created: Option<String>,
    /// Start of service in milliseconds since 1970, if known, because the dates lack a time zone.
    /// Stored, but not sent to gateways.
    #[serde(deserialize_with = "lenient::integer", skip_serializing)]
    pub started_ms: Option<i64>,
    /// Time of the last change, in the format of `date_created`.
    #[serde(deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub date_updated: Option<String>,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl DiscoveryUpstream {
    /// Whether the upstream may receive requests.
    pub const fn is_healthy(&self) -> bool {
        self.status == 0
    }
}
