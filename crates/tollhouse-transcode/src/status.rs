//! Detailed status of a call: the message `google.rpc.Status`, carried in
//! `grpc-status-details-bin`.

use bytes::Bytes;
use prost::Message;

use crate::decode::JsonForm;
use crate::definition::Definition;

/// Maximum length of a status as JSON, in bytes. Only a malicious status reaches it, because the
/// encoded status arrives in a header.
const JSON_BYTES_MAX: usize = 1 << 20;

/// gRPC status with its details (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Description of the error for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Further messages about the error, of any type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<StatusDetail>,
}

/// A message with its type: `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct StatusDetail {
    /// URL that names the message type.
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Reason why a status cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The bytes are not a valid status.
    #[error("failed to call pb.decode to decode grpc-status-details-bin")]
    NoStatus,
    /// A detail does not have the expected type.
    #[error("failed to call pb.decode to decode details in grpc-status-details-bin")]
    NoDetail,
}

impl Status {
    /// Appends `{"error": {"code": …, "message": …, "details": […]}}`. `details` is a definition
    /// and the name of a type in it: the status details are decoded as messages of that type. With
    /// `None`, each is written as its type and its bytes in base64.
    ///
    /// # Errors
    /// If a detail is not a valid message of the type, or the type does not exist.
    pub fn write(
        &self,
        form: &JsonForm,
        details: Option<(&Definition, &str)>,
        out: &mut Vec<u8>,
    ) -> Result<(), StatusError> {
        let mut body = Vec::new();
        body.extend_from_slice(b"{\"error\":{\"code\":");
        body.extend_from_slice(self.code.to_string().as_bytes());
        body.extend_from_slice(b",\"message\":");
        body.extend_from_slice(
            serde_json::Value::from(self.message.as_str()).to_string().as_bytes(),
        );
        for (index, detail) in self.details.iter().enumerate() {
            body.extend_from_slice(if index == 0 { &b",\"details\":["[..] } else { b"," });
            match details {
                Some((definition, name)) => {
                    let descriptor = definition.message(name).ok_or(StatusError::NoDetail)?;
                    let mut may_grow = |bytes| bytes <= JSON_BYTES_MAX;
                    let written = form.write(&descriptor, &detail.value, &mut body, &mut may_grow);
                    written.map_err(|_| StatusError::NoDetail)?;
                }
                None => body.extend_from_slice(detail.to_json().to_string().as_bytes()),
            }
        }
        body.extend_from_slice(if self.details.is_empty() { &b"}}"[..] } else { b"]}}" });
        out.extend_from_slice(&body);
        Ok(())
    }

    /// Decodes a status.
    ///
    /// # Errors
    /// If the bytes are not a valid status.
    pub fn parse(bytes: &[u8]) -> Result<Self, StatusError> {
        Self::decode(bytes).map_err(|_| StatusError::NoStatus)
    }
}

impl StatusDetail {
    fn to_json(&self) -> serde_json::Value {
        use base64::Engine;
        let value = base64::engine::general_purpose::STANDARD.encode(&self.value);
        serde_json::json!({"type_url": self.type_url, "value": value})
    }
}
