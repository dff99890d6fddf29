//! Services: names that instances register under, with what people write about them.

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// The key of a service's metadata that sets its threshold of mass expiry, from 0 to 1: while as
/// few of its instances or fewer would be left, nobody expires. Source: Polaris.
pub const PROTECT_THRESHOLD_KEY: &str = "internal-service-protectthreshold";

/// Who owns what nobody owns.
pub(crate) const NO_OWNER: &str = "Polaris";

/// A service at one version, without its instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its id, 32 hex digits.
    pub id: String,
    /// Its name.
    pub key: ServiceKey,
    /// Pairs that its owner gave.
    pub metadata: Metadata,
    /// What people wrote about it.
    pub details: ServiceDetails,
    /// A secret of its owners, 32 hex digits.
    pub token: String,
    /// Created at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Changes with every change, but not with changes of instances.
    pub revision: Revision,
}

/// What people write about a service; nothing here reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceDetails {
    /// Its ports, in words.
    pub ports: String,
    /// The business it belongs to.
    pub business: String,
    /// The department that runs it.
    pub department: String,
    /// Three levels of an inventory.
    pub cmdb_mod: [String; 3],
    /// For people.
    pub comment: String,
    /// Its owners.
    pub owners: String,
    /// The platform that made it.
    pub platform_id: String,
    /// Namespaces that see it.
    pub export_to: Vec<String>,
}

impl Service {
    /// Whether it came into being with an instance and nobody has written anything about it.
    pub(crate) fn is_unwritten(&self) -> bool {
        let untouched = ServiceDetails { owners: NO_OWNER.to_owned(), ..ServiceDetails::default() };
        self.metadata.is_empty() && self.details == untouched
    }

    /// The part of its instances, from 0 to 1, that must be left for others to expire; `None` where it
    /// sets none.
    pub fn protect_threshold(&self) -> Option<f64> {
        let threshold = self.metadata.get(PROTECT_THRESHOLD_KEY)?.parse().ok()?;
        (0.0..=1.0).contains(&threshold).then_some(threshold)
    }
}
