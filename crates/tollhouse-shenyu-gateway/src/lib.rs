//! ShenYu's gateway as a plugin of Tollhouse: its compiled objects ([`Sources`]), and the chain
//! that runs on requests ([`Chain`]). A [`Target`] describes the nodes that a proxy sends requests
//! to; the data plane manages their connections.
//!
//! Sees requests only through the plugin contract, and performs no IO.

#![forbid(unsafe_code)]

mod action;
mod actions;
mod actuator;
mod build;
mod by_path;
mod cached;
mod casdoor;
mod chain;
mod counts;
mod dubbo;
mod engines;
mod error;
mod explain;
mod fallback;
mod filter;
mod grpc;
mod guard;
mod kept;
mod local;
mod record;
mod reply;
mod shape;
mod sources;
mod target;
mod tcp;
mod turn;
mod view;

pub use chain::Chain;
pub use engines::{CallError, CallResult, EngineError, Engines, Logins, RecordSink, Scripts};
pub use explain::{Course, CourseEnd, CourseStep, Effect};
pub use local::{LocalCall, LocalInterface};
pub use reply::{Failure, describe_failure};
pub use sources::{SourceError, Sources, Terms};
pub use target::{Again, Target};
pub use tcp::TcpTarget;

#[cfg(test)]
mod tests;
