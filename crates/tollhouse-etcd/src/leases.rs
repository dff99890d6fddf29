//! Leases: those of etcd, each with a key that transactions can compare.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::keys::{Keys, to_lease_number};
use crate::member::{GRANT, KEEP_ALIVE, PUT, RANGE, REVOKE};
use crate::messages::{LeaseGrantRequest, LeaseRequest, PutRequest, RangeRequest};
use bytes::Bytes;
use std::time::Duration;
use tollhouse_store::{LeaseId, StoreError};

/// Maximum time to live of a lease in seconds (`MaxLeaseTTL` of etcd's lessor).
const SECONDS_MAX: u64 = 9_000_000_000;

/// Access to the leases of an etcd.
pub(crate) struct Leases<'a> {
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) keys: &'a Keys,
}

impl Leases<'_> {
    /// Grants a lease, rounded up to whole seconds. etcd extends leases that are shorter than one
    /// and a half election timeouts.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        let up = u64::from(ttl.subsec_nanos() > 0);
        let seconds = ttl.as_secs().saturating_add(up).clamp(1, SECONDS_MAX);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        // A granted lease whose response is lost expires by itself.
        let request = LeaseGrantRequest { ttl: seconds };
        let granted = self.endpoints.write(&GRANT, &request).await;
        let id = granted.map_err(|failure| self.failed(failure))?.id;
        let lease = LeaseId(id.cast_unsigned());
        let (key, value) = (self.keys.lease(lease), Bytes::from_static(b"{}"));
        let mark = PutRequest { key, value, lease: id, prev_kv: false };
        self.endpoints.read(&PUT, &mark).await.map_err(|failure| self.failed(failure))?;
        if ttl.is_zero() {
            self.revoke(lease).await?;
        }
        Ok(lease)
    }

    pub(crate) async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        let is_renewed = self.renew(lease).await.map_err(|failure| self.failed(failure))?;
        // Versions before 3.4.38 renew revoked leases.
        if is_renewed && self.is_marked(lease).await? {
            return Ok(());
        }
        Err(StoreError::Fenced { lease })
    }

    pub(crate) async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let request = LeaseRequest { id: to_lease_number(lease) };
        match self.endpoints.read(&REVOKE, &request).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is_lease_gone() => Ok(()),
            Err(failure) => Err(failure.into_write_error(self.endpoints.place())),
        }
    }

    async fn is_marked(&self, lease: LeaseId) -> Result<bool, StoreError> {
        let key = self.keys.lease(lease);
        let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        let found = self.endpoints.read(&RANGE, &request).await;
        Ok(found.map_err(|failure| self.failed(failure))?.count > 0)
    }

    /// Renews a lease, which is safe to repeat; returns whether it existed.
    async fn renew(&self, lease: LeaseId) -> Result<bool, Failure> {
        let (number, member) = self.endpoints.current();
        let request = LeaseRequest { id: to_lease_number(lease) };
        let renewed = async {
            let mut conversation = member.converse(&KEEP_ALIVE, request).await?;
            conversation.answers.message().await
        };
        let failure = match tokio::time::timeout(self.endpoints.timeout(), renewed).await {
            Ok(Ok(Some(answer))) => return Ok(answer.ttl > 0),
            Ok(Ok(None)) => Failure::Unanswered("the stream was closed".to_owned()),
            Ok(Err(status)) => Failure::from(status),
            Err(_) => Failure::timed_out(),
        };
        self.endpoints.leave(number);
        Err(failure)
    }

    fn failed(&self, failure: Failure) -> StoreError {
        failure.into_read_error(self.endpoints.place())
    }
}
