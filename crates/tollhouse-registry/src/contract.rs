//! Service contracts: descriptions of the interfaces of one version of a service. Tollhouse stores
//! them and does not interpret them.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::key::ServiceKey;
use crate::revision::Revision;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// Id, which the dialect derives from the following fields.
    pub id: Arc<str>,
    pub service: ServiceKey,
    /// Type of contract, as Polaris calls it.
    pub kind: Box<str>,
    /// Protocol of the contract's interfaces.
    pub protocol: Box<str>,
    /// Version of the contract's service.
    pub version: Box<str>,
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision of the contract, which differs after every change.
    pub revision: Revision,
    /// The contract, encoded by the dialect.
    #[serde(with = "crate::base64_bytes")]
    pub body: Bytes,
}
