//! The registry in the dialect of Polaris, so that its clients work unchanged: messages of the
//! protocol, its codes, JSON, gRPC and HTTP.
//!
//! What a registration or a heartbeat does is decided in the registry core; this crate keeps no
//! state of its own. [`v1`] holds every message as generated types, [`wire`] reads and writes the
//! few that are hot by hand.

#![forbid(unsafe_code)]

mod access;
pub mod answer;
mod code;
pub mod database;
mod date;
pub mod dialect;
pub mod grpc;
pub mod http;
pub mod json;
mod refusal;
pub mod registration;
pub mod rules;
mod schema;
mod slots;
pub mod v1;
pub mod wire;

pub use access::{Access, Account, Gate};
pub use code::Code;
pub use refusal::detail_of;
pub use schema::{DESCRIPTOR_SET, descriptors};
pub use slots::{Slot, Slots};
