//! Commands on identity objects.

use std::sync::Arc;

use super::{IdentityKind, IdentityObject, Principal, ResourcePattern};

/// A requested change of identity objects, all of it or nothing.
#[derive(Debug, Clone)]
pub enum IdentityCommand {
    Write(Vec<IdentityWrite>),
    /// Deletes an object, and the references to it; a missing one is not an error.
    Delete(IdentityKind, Arc<str>),
    /// Adds resources to the default policies of principals. Principals without one are skipped.
    Grant {
        principals: Vec<Principal>,
        resources: Vec<ResourcePattern>,
    },
}

/// A change of one object.
#[derive(Debug, Clone)]
pub enum IdentityWrite {
    /// Creates an object. The registry sets times and revision.
    Create(IdentityObject),
    /// Replaces an object. Refused if the stored one has another revision, because another call has
    /// changed it.
    Replace(IdentityObject),
}

impl IdentityCommand {
    /// Whether the command only deletes.
    pub(crate) fn removes(&self) -> bool {
        match self {
            Self::Delete(..) => true,
            Self::Write(_) | Self::Grant { .. } => false,
        }
    }
}
