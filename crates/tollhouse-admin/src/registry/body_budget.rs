//! Memory for the bodies of calls that are passed to the registry's dialect: one budget for all calls
//! of the Admin API, so that many large bodies at once are refused.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::body::{self, RequestBody};
use crate::reply::Reply;

/// Maximum size of a body, which is that of the registry's own listener.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of bytes of all bodies together: eight of the largest.
const BYTES_MAX: usize = 8 * BODY_BYTES_MAX;

/// Unit in which bytes are counted; every body counts at least one.
const UNIT_BYTES: usize = 1024;

/// Bytes that calls may hold; shared by clones.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget(Arc<Semaphore>);

/// Body with its part of the budget, which is released on drop.
pub(super) struct BudgetedBody {
    pub(super) bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BYTES_MAX / UNIT_BYTES)))
    }
}

impl BodyBudget {
    /// Reads a body. Its announced length is reserved before it is read; without one, the maximum.
    ///
    /// # Errors
    /// If the body is too large or incomplete, or too many bytes are held by other calls.
    pub(super) async fn read<B>(&self, body: B) -> Result<BudgetedBody, Reply>
    where
        B: RequestBody,
    {
        let hint = Body::size_hint(&body);
        let length = hint.exact().and_then(|length| usize::try_from(length).ok());
        let reserved = length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        let units = u32::try_from(reserved.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX);
        // Callers repeat a refused call; waiting ones would hold their connections.
        let permit = Arc::clone(&self.0).try_acquire_many_owned(units).map_err(|_| {
            Reply::unavailable("other calls hold too many bytes of bodies; try again later")
        })?;
        let bytes = body::read(body, BODY_BYTES_MAX).await?;
        Ok(BudgetedBody { bytes, _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn many_large_bodies_at_once_are_refused_and_small_ones_pass() {
        let budget = BodyBudget::default();
        let large = || Full::new(Bytes::from(vec![b'x'; BODY_BYTES_MAX - UNIT_BYTES]));
        let mut held = Vec::new();
        for _ in 0..BYTES_MAX / BODY_BYTES_MAX {
            held.push(budget.read(large()).await.ok().expect("room"));
        }
        assert!(budget.read(large()).await.is_err());
        let small = budget.read(Full::new(Bytes::from_static(b"{}"))).await.ok().expect("room");
        assert_eq!(small.bytes, "{}");
        held.pop();
        assert!(budget.read(large()).await.is_ok());
        drop((held, small));
        assert_eq!(budget.0.available_permits(), BYTES_MAX / UNIT_BYTES);
    }
}
