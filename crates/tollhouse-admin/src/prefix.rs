//! Path prefixes of the parts of the API. `auth.rs` and `refused.rs` need the prefixes before a
//! call is routed.

/// Path prefix of APISIX's Admin API.
pub(crate) const APISIX: [&str; 2] = ["apisix", "admin"];

/// Path prefix of the console's calls.
pub(crate) const CONSOLE: [&str; 2] = ["console", "v1"];

/// Path prefix of calls that have no counterpart in APISIX.
pub(crate) const OWN: [&str; 2] = ["tollhouse", "v1"];

/// Path prefix of calls about the service registry.
pub(crate) const REGISTRY: [&str; 2] = ["registry", "v1"];

/// Path prefix of the console's page and files.
pub(crate) const UI: [&str; 1] = ["ui"];
