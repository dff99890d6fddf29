//! What came of a call in full: the message `google.rpc.Status`, as `grpc-status-details-bin` carries it.

use bytes::Bytes;
use prost::Message;

use crate::decode::JsonForm;
use crate::definition::Definition;

/// Longest JSON of a status: it came in a header.
const JSON_BYTES_MAX: usize = 1 << 20;

/// A status with its details.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// The code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// What happened, for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Messages with more, of any type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<StatusDetail>,
}

/// A message of a type that it names: `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct StatusDetail {
    /// Where its type is described.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Why a status cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The bytes are no status.
    #[error("failed to call pb.decode to decode grpc-status-details-bin")]
    NoStatus,
    /// A detail is not of the type that it should have.
    #[error("failed to call pb.decode to decode details in grpc-status-details-bin")]
    NoDetail,
}

impl Status {
    /// Appends `{"error": {"code": …, "message": …, "details": […]}}`. Details are written as messages of
    /// the type `detail_type` where one is given, else as type and base64.
    ///
    /// # Errors
    /// A detail is no such message, or there is no such type.
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

    /// The status that `bytes` are.
    ///
    /// # Errors
    /// They are none.
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
