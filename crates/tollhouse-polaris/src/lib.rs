//! The registry in the dialect of Polaris, so that its clients work unchanged: messages of the
//! protocol, its codes, JSON, gRPC and HTTP.
//!
//! The registry core decides the effect of registrations and heartbeats; this crate keeps no state
//! but the counters of global rate limits.
//! [`v1`] has every message as a generated type; [`wire`] reads and writes the few frequent ones by
//! hand.

#![forbid(unsafe_code)]

mod access;
pub mod answer;
mod code;
pub mod database;
mod date;
pub mod dialect;
mod failure;
pub mod grpc;
pub mod http;
pub mod json;
pub mod limiter;
mod locations;
pub mod reference;
mod refusal;
pub mod registration;
pub mod rules;
mod schema;
pub mod v1;
pub mod wire;

pub use access::{Access, Account, Gate, is_password};
pub use code::Code;
pub use dialect::ConfigDocument;
pub use locations::{Locations, NetworkLocation};
pub use refusal::detail_of;
pub use schema::{DESCRIPTOR_SET, descriptors};
