//! Objects that ShenYu's admin and gateways exchange, in the forms of 2.6 and of 2.7, which adds
//! `namespaceId`. Member names are camelCase.
//!
//! Absent and `null` members have defaults. An absent `enabled` is true, because a protection must
//! not be off by omission.

mod app_auth;
mod condition;
mod discovery;
mod metadata;
mod plugin;
mod proxy_selector;
mod rule;
mod selector;

pub use app_auth::{AppAuth, AuthParameter, AuthPath};
pub use condition::{Condition, MatchMode};
pub use discovery::{DiscoveryUpstream, DiscoveryUpstreams};
pub use metadata::Metadata;
pub use plugin::Plugin;
pub use proxy_selector::ProxySelector;
pub use rule::Rule;
pub use selector::{Selector, SelectorType};

/// Default namespace of objects and requests (2.7 and later).
pub const DEFAULT_NAMESPACE: &str = "649330b6-c2d7-4edc-be8e-8a54df9eb385";

#[cfg(test)]
mod tests;
