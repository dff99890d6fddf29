//! The upstreams of a selector that come from discovery (2.6.0: `tcp`; 2.6.1 and later: `divide`, `grpc`,
//! `websocket` too).

use serde::{Deserialize, Serialize};

use crate::lenient;

/// `DiscoverySyncData`: all upstreams of one selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryUpstreams {
    /// The plugin.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// The selector's id, and the object's.
    #[serde(deserialize_with = "lenient::or_default")]
    pub selector_id: String,
    /// The selector's name.
    pub selector_name: Option<String>,
    /// What found them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery_handler_id: Option<String>,
    /// Their namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
    /// The upstreams.
    #[serde(deserialize_with = "lenient::or_default")]
    pub upstream_data_list: Vec<DiscoveryUpstream>,
}

/// `DiscoveryUpstreamData`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryUpstream {
    /// Its id.
    pub id: Option<String>,
    /// What found it.
    pub discovery_handler_id: Option<String>,
    /// `http://`, `https://`, `ws://` and others.
    pub protocol: Option<String>,
    /// Host and port.
    #[serde(deserialize_with = "lenient::or_default")]
    pub url: String,
    /// 0 is healthy, 1 is off.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub status: i64,
    /// Its share of the requests.
    #[serde(deserialize_with = "lenient::hint")]
    pub weight: Option<i64>,
    /// `warmup` (ms), `gray`, `healthCheckEnabled`, `upstreamHost`: a JSON document, written as text.
    pub props: Option<String>,
    /// `yyyy-MM-dd HH:mm:ss`, or milliseconds since 1970; it begins to warm up then.
    #[serde(deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub date_created: Option<String>,
    /// When it began to serve, in milliseconds since 1970, where that is known: the dates are of no zone. It is
    /// kept in the store and not handed on.
    #[serde(deserialize_with = "lenient::integer", skip_serializing)]
    pub started_ms: Option<i64>,
    /// As `date_created`.
    #[serde(deserialize_with = "lenient::text", skip_serializing_if = "Option::is_none")]
    pub date_updated: Option<String>,
    /// Its namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl DiscoveryUpstream {
    /// Whether it may be asked.
    pub const fn is_healthy(&self) -> bool {
        self.status == 0
    }
}
