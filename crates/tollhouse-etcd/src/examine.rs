//! Status of the members of an etcd, for diagnosis. The caller evaluates it; nothing is written.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::member::STATUS;
use crate::messages::{StatusRequest, StatusResponse};
use crate::options::EtcdOptions;
use tollhouse_store::StoreError;

/// Member of an etcd, with its status or the error of the request for the status.
#[derive(Debug)]
pub struct ExaminedMember {
    pub endpoint: String,
    /// Status, or why it is unknown.
    pub outcome: Result<MemberStatus, StoreError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub version: String,
    pub cluster_id: u64,
    /// Whether the member knows no leader, so that it accepts no changes.
    pub is_without_leader: bool,
    /// Size of the member's database, in bytes.
    pub database_bytes: u64,
    pub alarms: Vec<String>,
}

/// Requests the status of each member separately.
///
/// # Errors
///
/// If an address, a certificate or a key is invalid.
pub async fn examine(options: &EtcdOptions) -> Result<Vec<ExaminedMember>, StoreError> {
    let mut examined = Vec::new();
    for endpoint in &options.endpoints {
        let one = EtcdOptions { endpoints: vec![endpoint.clone()], ..options.clone() };
        let endpoints = Endpoints::new(&one)?;
        let outcome = match endpoints.read(&STATUS, &StatusRequest {}).await {
            Ok(answer) => Ok(to_status(answer)),
            Err(failure) => Err(Failure::into_read_error(failure, endpoints.place())),
        };
        examined.push(ExaminedMember { endpoint: endpoint.clone(), outcome });
    }
    Ok(examined)
}

fn to_status(answer: StatusResponse) -> MemberStatus {
    MemberStatus {
        version: answer.version,
        cluster_id: answer.header.map(|header| header.cluster_id).unwrap_or_default(),
        is_without_leader: answer.leader == 0,
        database_bytes: u64::try_from(answer.database_bytes).unwrap_or_default(),
        alarms: answer.errors,
    }
}
