//! Namespaces: what services are grouped by.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::revision::Revision;
use crate::service::NO_OWNER;

/// The namespace of services that give none.
pub const DEFAULT: &str = "default";

/// The namespace of the system itself.
pub const SYSTEM: &str = "Polaris";

/// A namespace at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name, which is its id too.
    pub name: Arc<str>,
    /// For people.
    pub comment: String,
    /// For people.
    pub owners: String,
    /// A secret of its owners, 32 hex digits.
    pub token: String,
    /// Pairs that its owner gave.
    pub metadata: Metadata,
    /// Namespaces that see its services.
    pub export_to: Vec<String>,
    /// Created at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Changes with every change.
    pub revision: Revision,
}

impl Namespace {
    /// Whether it came into being with a service and nobody has written anything about it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.comment.is_empty()
            && self.owners == NO_OWNER
            && self.metadata.is_empty()
            && self.export_to.is_empty()
    }

    /// Whether it belongs to the registry itself and stays.
    pub fn is_built_in(&self) -> bool {
        [DEFAULT, SYSTEM].contains(&&*self.name)
    }
}
