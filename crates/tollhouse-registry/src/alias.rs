//! Aliases: further names of a service.

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// A further name of a service; one level only, and nothing registers under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// Its id, 32 hex digits.
    pub id: String,
    /// The further name.
    pub key: ServiceKey,
    /// The service.
    pub target: ServiceKey,
    /// For people.
    pub comment: String,
    /// Its owners.
    pub owners: String,
    /// Pairs that its owner gave.
    pub metadata: Metadata,
    /// Created at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Changes with every change.
    pub revision: Revision,
}
