//! The registry core: namespaces, services, aliases, instances with their health, governance rules,
//! files of the configuration centre, users and policies.
//!
//! [`State`] is one version of everything registered, a plain value: `apply` takes a [`Command`]
//! and returns its outcome, without IO, clock or wire protocol. The [`Keeper`] owns the newest
//! version. It applies commands in groups, commits them to the store, publishes the new version,
//! answers the callers, and lets the timer wheel decide about health. [`Registry`] is the handle
//! for all other code: it submits commands, records heartbeats, and reads published versions
//! without a lock.

#![forbid(unsafe_code)]

mod alias;
mod base64_bytes;
mod check;
mod chunked;
mod clients;
mod clock;
mod cluster;
mod command;
pub mod config;
mod contract;
mod encoded;
mod event;
mod health;
mod held_bytes;
pub mod identity;
mod instance;
mod journal;
mod keeper;
mod key;
pub mod limits;
mod listing;
mod membership;
mod namespace;
mod pulse;
mod refusal;
mod registry;
mod revision;
mod rule;
mod service;
mod state;
mod texts;
mod timeline;
mod transfer;
mod view;

pub use alias::Alias;
pub use check::{is_host, is_instance_id};
pub use chunked::{CHUNK_OBJECTS, Chunk, Chunked};
pub use clients::Client;
pub use clock::{Clock, ManualClock};
pub use cluster::{BeatChannel, ClusterOptions, Member, NodeId};
pub use command::{
    AliasChange, Command, DetailsChange, InstanceChange, NamespaceChange, NewContract, NewInstance,
    NewRule, Outcome, ServiceChange,
};
pub use contract::Contract;
pub use encoded::Encoded;
pub use instance::{Instance, Location, Metadata, StoredInstance};
pub use keeper::{CleanUp, Keeper, Options};
pub use key::{ServiceKey, ServiceRef};
pub use listing::InstancePage;
pub use namespace::{DEFAULT as DEFAULT_NAMESPACE, Namespace, SYSTEM as SYSTEM_NAMESPACE};
pub use pulse::{LastHeartbeat, Pulse};
pub use refusal::{Detail, Noun, Refusal};
pub use registry::{
    ConfigWatch, ConfigWatcher, HeartbeatOutcome, Registry, Statistics, WatchedVersion,
};
pub use revision::Revision;
pub use rule::{NameScope, Rule, RuleKind};
pub use service::{PROTECT_THRESHOLD_KEY, Service, ServiceDetails};
pub use state::{Rehearsal, State, Totals};
pub use texts::{is_namespace_name, is_service_name};
pub use timeline::{EventKind, Timeline, TimelineEntry};
pub use transfer::{Effect, ForeignEntry, KEY_PREFIXES, Object};
pub use view::{Counts, MassExpiry, NamespaceView, Resolved, RuleSet, ServiceView};
