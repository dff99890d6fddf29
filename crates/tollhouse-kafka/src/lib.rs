//! Kafka's protocol as far as a producer needs it: requests and their answers ([`request`], [`answer`]), batches of
//! records ([`batch`]), the partition of a key ([`partition`]), log-ins ([`login`]), and what codes of errors
//! mean ([`code`]).
//!
//! Does no IO: bytes go in and come out. What a broker sends is bounded by whoever reads it, and nothing here grows
//! beyond a small multiple of it. Versions are fixed, and are those that brokers have taken since Kafka 0.11 and
//! still take.

#![forbid(unsafe_code)]

pub mod answer;
pub mod batch;
pub mod code;
pub mod login;
pub mod partition;
pub mod request;
mod wire;

pub use answer::{Malformed, Metadata};
pub use batch::Record;
pub use code::Code;
