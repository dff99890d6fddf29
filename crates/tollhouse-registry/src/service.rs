//! Services: names under which instances register, with descriptive fields.

use serde::{Deserialize, Serialize};

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// Metadata key of a service's mass expiry threshold, from 0 to 1, as in Polaris. No instance
/// expires if that would reduce the service's share of healthy instances to the threshold or less.
pub const PROTECT_THRESHOLD_KEY: &str = "internal-service-protectthreshold";

/// Default owner of services and namespaces.
pub(crate) const NO_OWNER: &str = "Polaris";

/// A service without its instances, at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Id of the service, 32 hex digits.
    pub id: String,
    pub key: ServiceKey,
    pub metadata: Metadata,
    pub details: ServiceDetails,
    /// Secret of the owners, 32 hex digits.
    pub token: String,
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision that differs after every change of the service; changes of its instances do not
    /// affect it.
    pub revision: Revision,
}

/// Descriptive fields of a service; the registry does not use them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceDetails {
    /// Ports of the service, any text.
    pub ports: String,
    /// Business unit that the service belongs to.
    pub business: String,
    pub department: String,
    /// Place of the service in the operator's inventory (CMDB), on three levels: Polaris' fields
    /// `cmdb_mod1` to `cmdb_mod3`.
    pub cmdb_mod: [String; 3],
    pub comment: String,
    pub owners: String,
    /// Id of the platform that created the service.
    pub platform_id: String,
    /// Namespaces whose clients may see the service.
    pub export_to: Vec<String>,
}

impl Service {
    /// Whether the service was created by an instance and no field was written by a caller since.
    pub(crate) fn is_unwritten(&self) -> bool {
        let untouched = ServiceDetails { owners: NO_OWNER.to_owned(), ..ServiceDetails::default() };
        self.metadata.is_empty() && self.details == untouched
    }

    /// Returns the service's mass expiry threshold, from 0 to 1; `None` if it sets no valid one.
    pub fn protect_threshold(&self) -> Option<f64> {
        let threshold = self.metadata.get(PROTECT_THRESHOLD_KEY)?.parse().ok()?;
        (0.0..=1.0).contains(&threshold).then_some(threshold)
    }
}
