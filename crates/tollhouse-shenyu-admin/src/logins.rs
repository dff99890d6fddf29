//! Queue for password hashing, which is expensive: a few logins run at a time, some more wait, and
//! the rest are refused.

use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::answer::Refusal;
use crate::limits::{LOGINS_AT_ONCE, LOGINS_WAITING_MAX};

/// Queue of logins, because hashing a password costs CPU time.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Permits of running and waiting logins together.
    queue: Semaphore,
    /// Permits of running logins.
    running: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            queue: Semaphore::new(LOGINS_AT_ONCE + LOGINS_WAITING_MAX),
            running: Semaphore::new(LOGINS_AT_ONCE),
        }
    }
}

/// Permit to hash a password, released when dropped.
#[derive(Debug)]
pub(crate) struct HashingPermit<'a> {
    _queued: SemaphorePermit<'a>,
    _running: SemaphorePermit<'a>,
}

impl Logins {
    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// If the queue is full.
    pub(crate) async fn wait(&self) -> Result<HashingPermit<'_>, Refusal> {
        let full = || Refusal::error("too many logins wait for their turn, please try again later");
        let queued = self.queue.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits | TryAcquireError::Closed => full(),
        })?;
        let running = self.running.acquire().await.map_err(|_| full())?;
        Ok(HashingPermit { _queued: queued, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn logins_that_wait_are_bounded_and_a_turn_that_ends_is_anothers() {
        let logins = Logins::default();
        let first = logins.wait().await.expect("it is free");
        let second = logins.wait().await.expect("there are two");
        let mut waiting: Vec<_> =
            (0..LOGINS_WAITING_MAX).map(|_| Box::pin(logins.wait())).collect();
        for wait in &mut waiting {
            assert!(futures_util::poll!(wait.as_mut()).is_pending());
        }
        assert!(logins.wait().await.is_err(), "nobody waits behind the last");
        drop(first);
        assert!(futures_util::poll!(waiting[0].as_mut()).is_ready());
        drop((second, waiting));
        assert!(logins.wait().await.is_ok());
    }
}
