//! Plugin interface: the phases of a plugin, and the data that it sees and may change in each.
//!
//! A plugin implements [`Plugin`] in one file of `tollhouse-plugins`. The data plane and the Admin
//! API know it as a [`PluginType`] in a [`Catalogue`], and run it as a [`Handler`]. This crate
//! contains no plugin and does not know how requests are transported; the data plane provides an
//! [`Exchange`].
//!
//! # Plugins outside this tree
//!
//! A binary may add plugins of its own to those of the gateway: it depends on this crate and on
//! `tollhouse`, and calls `tollhouse::main_with_plugins`. `docs/guides/write-a-plugin.md` shows the whole
//! crate. [`testing`] is the harness for their tests, without sockets.
//!
//! # Versions
//!
//! [`VERSION`] is the version of this contract and not of the gateway. Until 1.0, a change after
//! which plugins need an edit raises the second number; anything else raises the third. Methods
//! that are added to [`Plugin`] have a default, and structs that plugins fill in keep their fields.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

/// Version of the plugin contract.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod absent;
pub mod answer;
mod brand;
pub mod catalogue;
mod codings;
mod conf_error;
pub mod consumer;
pub mod context;
pub mod edits;
pub mod exchange;
pub mod handler;
pub mod held;
pub mod identity;
pub mod log;
pub mod mask;
pub mod memory;
pub mod own_log;
pub mod plugin;
pub mod queues;
pub mod response;
pub mod schema;
pub mod scope;
pub mod scripting;
pub mod sealing;
pub mod testing;
pub mod user;
pub mod validation;

pub use answer::{Answer, AnswerBody, RefusalKind};
pub use brand::Brand;
pub use catalogue::{BuildHandler, Catalogue, ForeignPlugin, NoSuchPlugin, PluginType, SchemaOf};
pub use codings::Codings;
pub use conf_error::ConfError;
pub use consumer::{Consumer, ConsumerIndex, ConsumerSpec, Credential, NoConsumers};
pub use context::{BadTarget, RequestContext};
pub use edits::{HeaderEdits, PreparedName, RequestEdits, RetriedStatuses, RewrittenTarget};
pub use exchange::{BodyError, BodyExaminer, Exchange, LocalFuture, Moment, each_header, path_of};
pub use handler::Handler;
pub use held::HeldBody;
pub use identity::{Carrier, Identities, Identity};
pub use log::{LogContext, Transfer};
pub use mask::MaskedRequest;
pub use memory::Memory;
pub use own_log::{LogFollower, OwnLog};
pub use plugin::{
    AnswerRequest, BackgroundWork, Category, Flow, MetadataSpec, Phases, Plugin, PluginEndpoint,
    Remark, RunPolicy, Step, UpstreamRef,
};
pub use queues::{QueueGauge, Queues};
pub use response::{BodyFilter, Effect, FilterFailure, Piece, ResponseContext, ResponseHead};
pub use scope::{Scope, Services};
pub use scripting::{FunctionPhase, RouteFilter, SCRIPTS_ARE_OFF, Scripting};
