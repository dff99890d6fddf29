//! The gRPC call of a case, with the options of ghz.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A gRPC call. With neither `proto` nor `protoset`, the descriptors are fetched from the server by
/// reflection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcCall {
    /// Called method: `package.Service.Method` or `package.Service/Method`.
    pub call: String,
    /// Path of the `.proto` file that defines the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proto: Option<PathBuf>,
    /// Path of a compiled descriptor set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protoset: Option<PathBuf>,
    /// Folders in which imports of the `.proto` file are searched; by default its own folder and
    /// `.`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_paths: Vec<PathBuf>,
    /// Request messages; one empty message by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<GrpcData>,
    /// Metadata; values may contain `{{…}}`. Either a JSON object, or a list of objects used in
    /// turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// Metadata sent with reflection requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reflect_metadata: Vec<(String, String)>,
    /// `:authority` to send; by default that of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Pause between the messages of a client stream.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub stream_interval: Option<Duration>,
    /// Duration after which a streaming call is cancelled.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub stream_call_duration: Option<Duration>,
    /// Number of messages sent (client streams) or received (server streams) after which a
    /// streaming call ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_call_count: Option<u64>,
    /// Expands `{{…}}` anew for every message of a stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stream_dynamic_messages: bool,
    /// Whether `{{…}}` in data is sent unexpanded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_template_data: bool,
    /// Rejects template functions; variables are still expanded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_template_functions: bool,
    /// Whether messages are sent and accepted with gzip compression.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compression: bool,
    /// Size limit of a response message in bytes; [`GrpcCall::ANSWER_BYTES_MAX`] by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_bytes_max: Option<usize>,
}

impl GrpcCall {
    /// Default limit of gRPC clients for a received message: 4 MiB.
    pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
}

/// Source of the messages of a gRPC call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrpcData {
    /// A JSON object, or a list of objects; the text may contain `{{…}}`.
    Json(String),
    /// File with messages as JSON.
    JsonFile(PathBuf),
    /// File with one message in Protobuf encoding.
    BinaryFile(PathBuf),
}
