//! Aliases: further names of a service.

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// Alternative name of a service. An alias cannot point to another alias, and no instance registers
/// under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// Id of the alias, 32 hex digits.
    pub id: String,
    pub key: ServiceKey,
    /// Service that the alias resolves to.
    pub target: ServiceKey,
    /// Comment for operators, any text.
    pub comment: String,
    pub owners: String,
    pub metadata: Metadata,
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision of the alias, which differs after every change.
    pub revision: Revision,
}
