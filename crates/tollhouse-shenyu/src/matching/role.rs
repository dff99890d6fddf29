//! Properties of a plugin that matching needs and that follow from its name alone.

/// Position of a plugin in the chain, and its treatment of faulty objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// Position in the plugin chain, unless the plugin's row has a `sort`.
    pub order: i64,
    pub on_fault: OnFault,
}

/// Treatment of requests that a faulty object might match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFault {
    /// The object is skipped, because the plugin only modifies, records or forwards requests.
    Skip,
    /// The request is refused, because the plugin protects nodes.
    Refuse,
}

impl Role {
    /// Role of an unknown plugin. Such a plugin may protect nodes, so its faulty objects refuse
    /// requests.
    pub const UNKNOWN: Self = Self { order: 0, on_fault: OnFault::Refuse };
}

/// Look-up of roles by the names of plugins.
#[derive(Debug, Clone, Copy)]
pub struct Roles(pub fn(&str) -> Role);

impl Default for Roles {
    fn default() -> Self {
        Self(|_| Role::UNKNOWN)
    }
}
