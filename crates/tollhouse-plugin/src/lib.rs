//! The plugin contract: what a plugin is, which phases it may take part in, what it sees and may
//! change there.
//!
//! A plugin implements [`Plugin`] in one file of `tollhouse-plugins`; the data plane and the Admin
//! API know it as a [`PluginType`] in a [`Catalogue`], and run it as a [`Handler`]. No plugin lives
//! here, and nothing here knows how a request travels: the data plane lends its side as an
//! [`Exchange`].

#![warn(missing_docs)]

#![forbid(unsafe_code)]

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
pub mod memory;
pub mod plugin;
pub mod queues;
pub mod response;
pub mod schema;
pub mod scope;
pub mod sealing;
pub mod testing;
pub mod validation;

pub use answer::{Answer, AnswerBody};
pub use brand::Brand;
pub use catalogue::{Catalogue, NoSuchPlugin, PluginType, SchemaOf};
pub use codings::Codings;
pub use conf_error::ConfError;
pub use consumer::{Consumer, ConsumerIndex, ConsumerSpec, Credential, NoConsumers};
pub use context::RequestContext;
pub use edits::{HeaderEdits, PreparedName, RequestEdits};
pub use exchange::{BodyError, BodyExaminer, Exchange, LocalFuture, Moment, each_header, path_of};
pub use handler::Handler;
pub use held::HeldBody;
pub use identity::{Carrier, Identities, Identity};
pub use log::{LogContext, Transfer};
pub use memory::Memory;
pub use plugin::{
    Category, Flow, MetadataSpec, Phases, Plugin, Remark, RunPolicy, Step, UpstreamRef,
};
pub use queues::{QueueGauge, Queues};
pub use response::{BodyFilter, Effect, FilterFailure, ResponseContext, ResponseHead};
pub use scope::{Scope, Services};
