//! Path prefixes of the parts of the API. `auth.rs` and `refused.rs` use them before a call is
//! routed.

/// APISIX's Admin API.
pub(crate) const APISIX: [&str; 2] = ["apisix", "admin"];

/// Data for the console.
pub(crate) const CONSOLE: [&str; 2] = ["console", "v1"];

/// Paths without counterpart in APISIX.
pub(crate) const OWN: [&str; 2] = ["tollhouse", "v1"];

/// The service registry.
pub(crate) const REGISTRY: [&str; 2] = ["registry", "v1"];

/// The console's page.
pub(crate) const UI: [&str; 1] = ["ui"];
