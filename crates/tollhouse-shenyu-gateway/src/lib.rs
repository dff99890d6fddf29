//! ShenYu's gateway as a plugin of Tollhouse: its plugins (`plugins`, one file each), the compiled
//! objects of a namespace ([`Sources`]), and the chain that runs on requests ([`Chain`]). A
//! [`Target`] describes the nodes that a proxy sends requests to; the data plane manages their
//! connections.
//!
//! Sees requests only through the plugin contract, and performs no IO.

#![forbid(unsafe_code)]

mod absent;
mod actuator;
mod by_path;
mod carryover;
mod chain;
mod compile;
mod counts;
mod course;
mod engines;
mod entrance;
mod error;
mod explain;
pub mod forms;
mod handle;
mod links;
mod local;
mod parts;
mod place;
mod plugin;
mod plugins;
mod query;
mod reply;
mod resources;
mod response_edit;
mod row;
mod shared;
mod sources;
mod target;
mod tcp;
mod terms;
mod turn;
mod view;

pub use chain::Chain;
pub use course::{Course, CourseEnd, CourseStep, Effect};
pub use engines::{CallError, CallResult, EngineError, Engines, Logins, RecordSink, Scripts};
pub use local::{LocalAnswer, LocalCall, LocalInterface};
pub use plugins::oauth2::client::{OAuth2Client, OAuth2Provider};
pub use plugins::rate_limiter::limiter::LimiterRule;
pub use plugins::rate_limiter::limiter::redis::{RedisMode, RedisServers, ScriptCall};
pub use plugins::{check_handle, rows};
pub use reply::{Failure, describe_failure};
pub use row::{Row, Seed};
pub use shared::record_store::{
    CLICKHOUSE_TABLE, ELASTICSEARCH_INDEX, KafkaLogin, KafkaTopic, RecordPlace, RecordStore,
    StoreKind,
};
pub use sources::{SourceError, Sources};
pub use target::{Again, Target};
pub use tcp::TcpTarget;
pub use terms::Terms;

#[cfg(test)]
mod tests;
