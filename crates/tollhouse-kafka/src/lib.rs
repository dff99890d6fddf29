//! Kafka's protocol for producers: requests and responses ([`request`], [`response`]), record
//! batches ([`batch`]), the partition of a key ([`partition`]), logins ([`login`]), and the meaning
//! of error codes ([`code`]).
//!
//! Performs no IO: functions convert bytes. Callers limit the size of responses, and decoded values
//! are at most a small multiple of that. API versions are fixed; brokers support them since Kafka
//! 0.11 and still do.

#![forbid(unsafe_code)]

pub mod batch;
pub mod code;
pub mod login;
pub mod partition;
pub mod request;
pub mod response;
mod wire;

pub use batch::Record;
pub use code::Code;
pub use response::{Malformed, Metadata};
