//! Effects of commands on instances, passed to the owner of health once they are durable. Before
//! that neither the instance's pulse, which all its versions share, nor the timer wheel may see
//! them.

use std::sync::Arc;

use crate::instance::Instance;

#[derive(Debug, Clone)]
pub(crate) enum InstanceEvent {
    /// New instance, and the instance that it replaces.
    Registered(Arc<Instance>, Option<Arc<Instance>>),
    /// Instance after and before the change.
    Changed(Arc<Instance>, Arc<Instance>),
    Deregistered(Arc<Instance>),
}

impl InstanceEvent {
    /// Returns the instance unless it was removed.
    pub(crate) fn present(&self) -> Option<&Arc<Instance>> {
        match self {
            Self::Registered(instance, _) | Self::Changed(instance, _) => Some(instance),
            Self::Deregistered(_) => None,
        }
    }
}
