//! The control side of a running gateway: the store or the watched file, the Admin API, the
//! registry, signals, introspection, hand-over.
//!
//! One runtime on the main thread; nothing here is on the path of a request.

#![forbid(unsafe_code)]

pub mod admin;
pub mod backoff;
pub mod banner;
pub mod batches;
pub mod configuration;
pub mod descriptors;
pub mod duty;
pub mod echo;
pub mod endpoints;
pub mod feed;
pub mod handover;
pub mod identity;
pub mod introspection;
mod machine_memory;
pub mod metrics;
pub mod mirror;
pub mod plugins;
pub mod registry;
pub mod registry_dialect;
pub mod registry_metrics;
pub mod registry_secrets;
pub mod registry_source;
pub mod resources;
pub mod sealed_store;
pub mod secrets;
pub mod server;
pub mod signals;
pub mod stored;
pub mod vitals;
pub mod watch;
pub mod wire;
