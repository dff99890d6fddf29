//! Conversion between JSON and gRPC: definitions of services as stored in `protos` objects,
//! encoding of request fields as a message, and decoding of messages to JSON.
//!
//! Independent of I/O, plugins and HTTP. Requests are encoded directly from their text without an
//! intermediate tree; only responses are decoded to messages in memory.

#![forbid(unsafe_code)]

mod arguments;
mod decode;
mod definition;
mod encode;
mod protos;
mod status;

pub use arguments::document_of_arguments;
pub use decode::{Defaults, EnumForm, Int64Form, JsonForm, WriteError};
pub use definition::{Definition, DefinitionError, Method};
pub use encode::{EncodeError, encode_message};
pub use protos::Protos;
pub use status::{Status, StatusDetail, StatusError};

#[cfg(test)]
mod tests;
