//! Service contracts: what the interfaces of a version of a service are. Kept as data.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::key::ServiceKey;
use crate::revision::Revision;

/// A contract at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// Its id, which the dialect makes of what follows.
    pub id: Arc<str>,
    /// The service.
    pub service: ServiceKey,
    /// What kind of contract.
    pub kind: Box<str>,
    /// The protocol of the interfaces.
    pub protocol: Box<str>,
    /// The version of the service.
    pub version: Box<str>,
    /// Created at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Changes with every change.
    pub revision: Revision,
    /// The contract as the dialect writes it.
    #[serde(with = "crate::base64_bytes")]
    pub body: Bytes,
}
