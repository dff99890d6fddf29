//! The nouns of the product and their validation: routes, services, upstreams, plugin confs.
//!
//! Everything here is plain data, built from JSON values by the `parse` functions, which report
//! *every* problem at once as [`Problems`]. Nothing here does IO or knows a runtime; compiling a
//! noun into something that serves requests happens in the crates above.

#![forbid(unsafe_code)]

pub mod expr;
pub mod id;
pub mod kind;
pub mod limits;
pub mod plugins;
pub mod problem;
mod reader;
pub mod route;
pub mod rule;
pub mod service;
pub mod template;
pub mod timeouts;
pub mod upstream;
pub mod variable;

pub use id::Id;
pub use kind::Kind;
pub use plugins::{PluginConf, PluginMeta, PluginSet};
pub use problem::{Problem, Problems};
pub use route::{MethodSet, Route};
pub use rule::{GlobalRule, PluginConfig};
pub use service::Service;
pub use timeouts::Timeouts;
pub use upstream::Upstream;
