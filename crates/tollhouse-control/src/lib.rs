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
pub mod feed;
pub mod identity;
pub mod introspection;
pub mod metrics;
pub mod plugins;
pub mod process;
pub mod registry;
pub mod resources;
pub mod secrets;
pub mod settings;
pub mod signals;
pub mod vitals;
