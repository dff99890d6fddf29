//! What members of an etcd say about themselves to whoever looks for what is wrong. Judging is done elsewhere;
//! nothing is written.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::member::STATUS;
use crate::messages::{StatusRequest, StatusResponse};
use crate::options::EtcdOptions;
use tollhouse_store::StoreError;

/// A member, and what it said.
#[derive(Debug)]
pub struct ExaminedMember {
    /// Its URL.
    pub endpoint: String,
    /// How it is; why nothing is known of it.
    pub outcome: Result<MemberStatus, StoreError>,
}

/// How a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its version.
    pub version: String,
    /// The cluster that it is of.
    pub cluster_id: u64,
    /// Whether it knows of no leader, and so takes no changes.
    pub is_without_leader: bool,
    /// Bytes of its database.
    pub database_bytes: u64,
    /// What it complains about.
    pub alarms: Vec<String>,
}

/// Asks each member by itself.
///
/// # Errors
///
/// An address, a certificate or a key is of no use.
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
