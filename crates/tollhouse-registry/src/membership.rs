//! Who keeps the registry, and so who decides about the health of a service.
//!
//! This process keeps it alone and owns the health of every service. Several would share the services out
//! by their keys and never by instances: mass expiry and the counts of a service are decided in one place.

use crate::key::ServiceRef;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Membership {
    /// Nobody else keeps this registry.
    Alone,
}

impl Membership {
    /// Whether this process decides about the health of a service's instances.
    pub(crate) fn owns(self, _service: ServiceRef<'_>) -> bool {
        match self {
            Self::Alone => true,
        }
    }
}
