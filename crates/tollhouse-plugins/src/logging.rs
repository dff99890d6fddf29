//! Shared code of logging plugins: log entries and their configuration (`entry.rs`, `format.rs`),
//! bodies in entries (`bodies.rs`), and delivery in batches (`batch.rs`, bounded by `pending.rs`),
//! also over sockets (`socket.rs`) and HTTP (`http.rs`). Each plugin implements the delivery to its destination.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

pub(crate) mod batch;
mod bodies;
mod entry;
pub(crate) mod file;
pub(crate) mod folder;
mod format;
pub(crate) mod http;
pub(crate) mod kafka;
pub(crate) mod pending;
pub(crate) mod queue;
pub(crate) mod rfc5424;
pub(crate) mod socket;
#[cfg(test)]
pub(crate) mod test_logger;

pub(crate) use entry::{Entries, EntryParts, Layout};

/// Configuration of bodies in entries; by default, entries have none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct BodyFields {
    /// Whether entries contain the request's body; off by default.
    #[serde(default)]
    pub include_req_body: bool,
    /// Expression that must hold for the request's body to be included. Unset: it is always
    /// included if `include_req_body` is on.
    #[schemars(length(min = 1))]
    pub include_req_body_expr: Option<Vec<Vec<Value>>>,
    /// Whether entries contain the answer's body; off by default.
    #[serde(default)]
    pub include_resp_body: bool,
    /// Expression that must hold for the answer's body to be included. Unset: it is always included
    /// if `include_resp_body` is on.
    #[schemars(length(min = 1))]
    pub include_resp_body_expr: Option<Vec<Vec<Value>>>,
    /// Longest part of the request's body in an entry, in bytes; 512 KiB by default. The rest is
    /// cut off.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_bytes: u64,
    /// Longest part of the answer's body in an entry, in bytes; 512 KiB by default. The rest is cut
    /// off.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_resp_body_bytes: u64,
}

defaults! {
    default_body_bytes_max: u64 = 512 << 10;
    default_retry_delay: u64 = 1;
    default_buffer_duration: u64 = 60;
    default_inactive_timeout: u64 = 5;
    default_batch_max_size: u64 = 1_000;
}

/// Configuration of the format of entries.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FormatFields {
    /// Format of entries instead of the default one. Values are texts, variables such as `$host`,
    /// or nested objects of the same kind.
    pub log_format: Option<Map<String, Value>>,
    /// Additional fields of entries.
    pub log_format_extra: Option<Map<String, Value>>,
}

/// Configuration of batches.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct BatchFields {
    /// Name of the queue in log messages.
    #[serde(default)]
    pub name: String,
    /// Number of times a failed batch is sent again before it is dropped; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_retry_count: u64,
    /// Seconds between retries; 1 by default.
    #[serde(default = "default_retry_delay")]
    #[schemars(range(min = 0))]
    pub retry_delay: u64,
    /// Longest time for which a batch is collected, in seconds; 60 by default.
    #[serde(default = "default_buffer_duration")]
    #[schemars(range(min = 1))]
    pub buffer_duration: u64,
    /// Seconds without a new entry after which a batch is sent; 5 by default.
    #[serde(default = "default_inactive_timeout")]
    #[schemars(range(min = 1))]
    pub inactive_timeout: u64,
    /// Number of entries at which a batch is sent at once; 1000 by default.
    #[serde(default = "default_batch_max_size")]
    #[schemars(range(min = 1))]
    pub batch_max_size: u64,
}

/// Plugin metadata of loggers that deliver in batches: defaults for every conf.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is read by name; its schema is what counts")]
pub struct BatchMetadata {
    /// Log format for confs that have none.
    pub log_format: Option<Map<String, Value>>,
    /// Additional fields for confs that have none.
    pub log_format_extra: Option<Map<String, Value>>,
    /// Largest number of entries that wait for delivery. Further entries are dropped.
    #[schemars(range(min = 1), extend("default" = pending::ENTRIES_MAX))]
    pub max_pending_entries: Option<u64>,
}

/// Returns the header line of Basic authentication (RFC 7617).
pub(crate) fn basic_auth(user: &str, password: &SecretText) -> (String, Vec<u8>) {
    let pair = STANDARD.encode(format!("{user}:{}", password.as_str()));
    http::header("Authorization", format!("Basic {pair}"))
}

/// Returns the host name of the machine; `localhost` if it is unknown.
pub(crate) fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let name = read.ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| "localhost".into())
    })
}
