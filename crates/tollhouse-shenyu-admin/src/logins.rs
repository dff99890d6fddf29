//! Queue for password hashing, which is expensive: a few logins run at a time, some more wait, and
//! the rest are refused.

use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

use crate::answer::Refusal;
use crate::limits::{LOGINS_AT_ONCE, LOGINS_WAITING_MAX};

/// Queue of logins, because hashing a password costs CPU time.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Places for running and waiting logins together.
    places: Semaphore,
    turns: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            places: Semaphore::new(LOGINS_AT_ONCE + LOGINS_WAITING_MAX),
            turns: Semaphore::new(LOGINS_AT_ONCE),
        }
    }
}

/// Permit to hash a password, released when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _place: SemaphorePermit<'a>,
    _turn: SemaphorePermit<'a>,
}

impl Logins {
    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// If the queue is full.
    pub(crate) async fn wait(&self) -> Result<Turn<'_>, Refusal> {
        let full = || Refusal::error("too many logins wait for their turn, please try again later");
        let place = self.places.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits | TryAcquireError::Closed => full(),
        })?;
        let turn = self.turns.acquire().await.map_err(|_| full())?;
        Ok(Turn { _place: place, _turn: turn })
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
