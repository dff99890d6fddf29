//! The gRPC call of a case, in the terms of ghz.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A call. With neither `proto` nor `protoset` the server is asked for its descriptors (reflection).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcCall {
    /// `package.Service.Method` or `package.Service/Method`.
    pub call: String,
    /// A `.proto` file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proto: Option<PathBuf>,
    /// A compiled descriptor set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protoset: Option<PathBuf>,
    /// Where imports of the `.proto` file are looked for; by default its folder and `.`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_paths: Vec<PathBuf>,
    /// The messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<GrpcData>,
    /// Metadata; values may hold `{{…}}`. A JSON object, or a list of objects to take turns over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// Metadata sent with reflection requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reflect_metadata: Vec<(String, String)>,
    /// The `:authority` to send instead of the target's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// How long to wait between messages of a client stream.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub stream_interval: Option<Duration>,
    /// Cancel a streaming call after this long.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub stream_call_duration: Option<Duration>,
    /// End a streaming call after this many messages sent (client streams) or received (server streams).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_call_count: Option<u64>,
    /// Fill in `{{…}}` anew for every message of a stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stream_dynamic_messages: bool,
    /// Send `{{…}}` in data as written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_template_data: bool,
    /// Refuse template functions; variables stay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_template_functions: bool,
    /// Send and accept gzip.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compression: bool,
    /// The largest answer taken, in bytes; by default [`GrpcCall::ANSWER_BYTES_MAX`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_bytes_max: Option<usize>,
}

impl GrpcCall {
    /// What gRPC clients take by default.
    pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
}

/// Messages of a gRPC call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrpcData {
    /// A JSON object, or a list of them; the text may hold `{{…}}`.
    Json(String),
    /// A file of such JSON.
    JsonFile(PathBuf),
    /// A file of one encoded message.
    BinaryFile(PathBuf),
}
