//! The configuration objects and their validation: routes, services, upstreams, plugins and others.
//!
//! Everything here is plain data, built from JSON values by the `parse` functions, which report
//! *all* problems at once as [`Problems`]. The crate does no IO and knows no runtime. Compiling an
//! object into its serving form happens in the crates above.

#![forbid(unsafe_code)]

pub mod body;
pub mod certificate;
pub mod change_row;
pub mod consumer;
pub mod consumer_group;
pub mod credential;
pub mod encryption;
pub mod expr;
pub mod id;
pub mod json;
pub mod kind;
pub mod limits;
pub mod network;
pub mod plugin_metadata;
pub mod plugins;
pub mod problem;
pub mod proto;
mod reader;
pub mod route;
pub mod rule;
pub mod schema;
pub mod secret;
pub mod service;
pub mod ssl;
pub mod stream_route;
pub mod template;
pub mod timeouts;
pub mod upstream;
pub mod variable;

pub use consumer::Consumer;
pub use consumer_group::ConsumerGroup;
pub use credential::Credential;
pub use id::Id;
pub use kind::Kind;
pub use plugin_metadata::PluginMetadata;
pub use plugins::{PluginConf, PluginMeta, PluginSet};
pub use problem::{Problem, Problems};
pub use proto::Proto;
pub use reader::{REVISION_FIELDS, TIME_FIELDS};
pub use route::{MethodSet, Route};
pub use rule::{GlobalRule, PluginConfig};
pub use secret::Secret;
pub use service::Service;
pub use ssl::Ssl;
pub use stream_route::StreamRoute;
pub use timeouts::Timeouts;
pub use upstream::Upstream;
