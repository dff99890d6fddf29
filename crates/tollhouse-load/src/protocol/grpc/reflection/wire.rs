//! Messages of the reflection protocol, as far as used.

/// Protobuf message `ServerReflectionRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServerQuestion {
    /// Field that servers ignore.
    #[prost(string, tag = "1")]
    pub(super) host: String,
    #[prost(oneof = "Question", tags = "3, 4")]
    pub(super) question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Question {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
}

/// `ServerReflectionResponse`; only one of the two fields is set.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServerAnswer {
    #[prost(message, optional, tag = "4")]
    pub(super) files: Option<FilesAnswer>,
    #[prost(message, optional, tag = "7")]
    pub(super) error: Option<ErrorAnswer>,
}

/// Protobuf message `FileDescriptorResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FilesAnswer {
    /// Files, each an encoded `FileDescriptorProto`.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) files: Vec<Vec<u8>>,
}

/// Protobuf message `ErrorResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ErrorAnswer {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}
