//! Where the paths of each part begin: `auth.rs` and `refused.rs` tell calls apart by it before anybody answers them.

/// APISIX's Admin API.
pub(crate) const APISIX: [&str; 2] = ["apisix", "admin"];

/// What the console reads and asks.
pub(crate) const CONSOLE: [&str; 2] = ["console", "v1"];

/// What is ours alone.
pub(crate) const OWN: [&str; 2] = ["tollhouse", "v1"];

/// The registry's objects.
pub(crate) const REGISTRY: [&str; 2] = ["registry", "v1"];

/// The console's page.
pub(crate) const UI: [&str; 1] = ["ui"];
