//! What commands did to instances: told to the owner of their health when it is durable. Until then
//! neither the pulse of an instance, which all of its versions share, nor the wheel may know of it.

use std::sync::Arc;

use crate::instance::Instance;

#[derive(Debug, Clone)]
pub(crate) enum InstanceEvent {
    /// It was registered, in place of what was there before.
    Registered(Arc<Instance>, Option<Arc<Instance>>),
    /// It was changed, from what it was before.
    Changed(Arc<Instance>, Arc<Instance>),
    /// It is gone.
    Deregistered(Arc<Instance>),
}

impl InstanceEvent {
    /// The instance, if it is there.
    pub(crate) fn present(&self) -> Option<&Arc<Instance>> {
        match self {
            Self::Registered(instance, _) | Self::Changed(instance, _) => Some(instance),
            Self::Deregistered(_) => None,
        }
    }
}
