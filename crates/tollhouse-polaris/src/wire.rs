//! Hand-written codecs of the frequent messages: no allocation beyond stored data, and unknown
//! fields are kept.
//!
//! [`Fields`] splits a message, [`InstanceRequest`] and [`DiscoverRequest`] interpret it, [`write`]
//! encodes answers.

pub mod answer;
mod discover_request;
mod instance;
mod instance_request;
mod scan;
mod service;
mod wrapper;
pub mod write;

pub use discover_request::{Direction, DiscoverRequest, ServiceRequest};
pub use instance::{Reader, put_discovered_instance, put_identity, put_instance};
pub(crate) use instance::{is_nowhere, put_location};
pub use instance_request::{
    HealthCheckRequest, InstanceRequest, LocationRequest, METADATA_KEPT_MAX,
};
pub use scan::{Field, Fields, Value, WireError};
pub(crate) use service::{put_alias, put_console_namespace, put_console_service};
pub use service::{put_discovered_service, put_listed_alias, put_listed_service, put_namespace};

#[cfg(test)]
mod naming_tests;
#[cfg(test)]
mod tests;
