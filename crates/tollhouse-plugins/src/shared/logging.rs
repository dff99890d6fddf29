//! What plugins that log exchanges have in common: the entry and what a conf says about it
//! (`entry.rs`, `format.rs`), bodies in entries (`bodies.rs`), and delivery in batches
//! (`batch.rs`, within the bounds of `pending.rs`). Where entries go is each plugin's own.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::shared::confs::defaults::defaults;

pub(crate) mod batch;
mod bodies;
mod entry;
pub(crate) mod file;
pub(crate) mod folder;
mod format;
pub(crate) mod kafka;
mod pending;
pub(crate) mod queue;

pub(crate) use entry::Entries;

/// What a conf says about bodies in entries.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BodyFields {
    /// Whether entries have the request's body.
    #[serde(default)]
    pub include_req_body: bool,
    /// The same, only where this expression holds.
    #[schemars(length(min = 1))]
    pub include_req_body_expr: Option<Vec<Vec<Value>>>,
    /// Whether entries have the answer's body.
    #[serde(default)]
    pub include_resp_body: bool,
    /// The same, only where this expression holds.
    #[schemars(length(min = 1))]
    pub include_resp_body_expr: Option<Vec<Vec<Value>>>,
    /// Most bytes of the request's body in an entry; what follows is cut off.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_bytes: u64,
    /// Most bytes of the answer's body in an entry; what follows is cut off.
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

/// What a conf says about the shape of entries.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FormatFields {
    /// The entry, instead of the default one: values are texts, variables such as `$host`, or
    /// objects of the same kind.
    pub log_format: Option<Map<String, Value>>,
    /// Fields besides those of the entry.
    pub log_format_extra: Option<Map<String, Value>>,
}

/// What a conf says about batches.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct BatchFields {
    /// A name for messages about the batches.
    #[serde(default)]
    pub name: String,
    /// How often a batch is tried again before it is dropped.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_retry_count: u64,
    /// Seconds between tries.
    #[serde(default = "default_retry_delay")]
    #[schemars(range(min = 0))]
    pub retry_delay: u64,
    /// Seconds after which a batch goes out, however small it is.
    #[serde(default = "default_buffer_duration")]
    #[schemars(range(min = 1))]
    pub buffer_duration: u64,
    /// Seconds without a new entry after which a batch goes out.
    #[serde(default = "default_inactive_timeout")]
    #[schemars(range(min = 1))]
    pub inactive_timeout: u64,
    /// Entries that make a batch go out at once.
    #[serde(default = "default_batch_max_size")]
    #[schemars(range(min = 1))]
    pub batch_max_size: u64,
}

/// What plugin metadata says for every conf of a logger that delivers in batches.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is read by name; its schema is what counts")]
pub struct BatchMetadata {
    /// The entry, where a conf does not say.
    pub log_format: Option<Map<String, Value>>,
    /// Fields besides those of the entry, where a conf does not say.
    pub log_format_extra: Option<Map<String, Value>>,
    /// Most entries that wait for delivery; more are dropped.
    #[schemars(range(min = 1), extend("default" = pending::ENTRIES_MAX))]
    pub max_pending_entries: Option<u64>,
}

/// The machine's name.
fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let name = read.ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| "localhost".into())
    })
}
