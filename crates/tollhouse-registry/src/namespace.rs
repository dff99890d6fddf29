//! Namespaces, which group services.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::revision::Revision;
use crate::service::NO_OWNER;

/// Namespace of services without an explicit one.
pub const DEFAULT: &str = "default";

/// Namespace of the registry's own services.
pub const SYSTEM: &str = "Polaris";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Name, which is also the id.
    pub name: Arc<str>,
    pub comment: String,
    pub owners: String,
    /// Secret of the owners, 32 hex digits.
    pub token: String,
    pub metadata: Metadata,
    /// Namespaces that see the services of this one.
    pub export_to: Vec<String>,
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision of the namespace, which differs after every change.
    pub revision: Revision,
}

impl Namespace {
    /// Whether the namespace was created by a service and no field was written by a caller since.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.comment.is_empty()
            && self.owners == NO_OWNER
            && self.metadata.is_empty()
            && self.export_to.is_empty()
    }

    /// Whether the namespace always exists and cannot be deleted.
    pub fn is_built_in(&self) -> bool {
        [DEFAULT, SYSTEM].contains(&&*self.name)
    }
}
