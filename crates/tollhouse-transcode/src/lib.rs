//! Between JSON and gRPC: definitions of services as `protos` objects hold them, the fields of a request
//! written as a message, and a message written as JSON.
//!
//! No IO, no plugin, no HTTP. A request is written onto the wire straight from its text, without a tree
//! in between; only answers become messages in memory.

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
