//! What all clients over HTTP together may make the process hold, and have it do at once.
//!
//! Bodies that arrive and answers that are not read yet are counted, whoever they are for: a client that
//! asks and does not read costs nobody else the memory. What takes its time is done on threads of its
//! own, a few at a time, so that short calls do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::code::Code;

/// Bytes that are held for all clients together: an answer with the instances of the largest services
/// some times over.
const HELD_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes are counted in units of so many.
const UNIT_BYTES: usize = 1024;

/// What is shorter is neither counted nor done elsewhere: all connections together cannot hold much of
/// it, and it takes less than a millisecond.
pub(super) const SHORT_BYTES_MAX: usize = 32 * 1024;

/// Pieces of work under way at once.
const TURNS_MAX: usize = 4;

/// How long a call waits for room and for its turn.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// See the module. One for a process; clones share it.
#[derive(Debug, Clone)]
pub struct Capacity {
    room: Arc<Semaphore>,
    room_units: usize,
    turns: Arc<Semaphore>,
}

/// Bytes that are held, until this is dropped.
#[derive(Debug)]
pub(super) struct Held(OwnedSemaphorePermit);

impl Default for Capacity {
    fn default() -> Self {
        Self::from_bytes(HELD_BYTES_MAX)
    }
}

impl Capacity {
    /// A capacity of so many bytes.
    pub(super) fn from_bytes(bytes: usize) -> Self {
        let room_units = bytes / UNIT_BYTES;
        Self {
            room: Arc::new(Semaphore::new(room_units)),
            room_units,
            turns: Arc::new(Semaphore::new(TURNS_MAX)),
        }
    }

    /// Room for `bytes`; waits for it for some time.
    pub(super) async fn hold(&self, bytes: usize) -> Result<Held, Failure> {
        let units = self.units(bytes)?;
        let room = Arc::clone(&self.room).acquire_many_owned(units);
        match tokio::time::timeout(WAIT_MAX, room).await {
            Ok(Ok(permit)) => Ok(Held(permit)),
            _ => Err(busy()),
        }
    }

    /// Makes the room in `held` as large as `bytes`, if there is so much; does not wait.
    pub(super) fn try_resize(&self, held: &mut Option<Held>, bytes: usize) -> Result<(), Failure> {
        let wanted = self.units(bytes)?;
        let before = held.as_ref().map_or(0, |held| held.0.num_permits());
        let Some(more) = (wanted as usize).checked_sub(before).filter(|more| *more > 0) else {
            if let Some(held) = held {
                drop(held.0.split(before - wanted as usize));
            }
            return Ok(());
        };
        let more = u32::try_from(more).map_err(|_| busy())?;
        let permit = Arc::clone(&self.room).try_acquire_many_owned(more).map_err(|_| busy())?;
        match held {
            Some(held) => held.0.merge(permit),
            None => *held = Some(Held(permit)),
        }
        Ok(())
    }

    /// Does a piece of work on a thread that may take its time, when it is its turn.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = Arc::clone(&self.turns).acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(WAIT_MAX, turn).await else {
            return Err(busy());
        };
        // The turn goes along: work that nobody waits for any more is under way all the same.
        let done = tokio::task::spawn_blocking(move || {
            let done = job();
            drop(turn);
            done
        });
        done.await.map_err(|_| Code::ExecuteException.into())
    }

    fn units(&self, bytes: usize) -> Result<u32, Failure> {
        let units = bytes.div_ceil(UNIT_BYTES);
        let fitting = u32::try_from(units).ok().filter(|_| units <= self.room_units);
        fitting.ok_or_else(|| {
            Failure::with(Code::ExecuteException, "this is too long for HTTP; ask over gRPC")
        })
    }
}

fn busy() -> Failure {
    let reason = "the server holds too much for clients that do not read; try again later";
    Failure::with(Code::ExecuteException, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_bounded_and_comes_back() {
        let capacity = Capacity::from_bytes(10 * UNIT_BYTES);
        let first = capacity.hold(6 * UNIT_BYTES).await.expect("room");
        let mut second = None;
        capacity.try_resize(&mut second, 4 * UNIT_BYTES).expect("room");
        assert!(capacity.try_resize(&mut second, 5 * UNIT_BYTES).is_err());
        assert!(capacity.hold(1).await.is_err(), "waits in vain");
        capacity.try_resize(&mut second, UNIT_BYTES + 1).expect("less is always possible");
        let third = capacity.hold(2 * UNIT_BYTES).await.expect("room again");
        drop((first, second, third));
        assert_eq!(capacity.room.available_permits(), 10);
        let too_long = capacity.hold(10 * UNIT_BYTES + 1).await.expect_err("never fits");
        assert!(too_long.info().contains("gRPC"), "{}", too_long.info());
    }

    #[tokio::test]
    async fn work_is_done_a_few_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let capacity = Capacity::default();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let jobs: Vec<_> = (0..32)
            .map(|_| {
                let (capacity, running) = (capacity.clone(), Arc::clone(&running));
                let most = Arc::clone(&most);
                tokio::spawn(async move {
                    let job = move || {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    capacity.work(job).await.expect("its turn comes");
                })
            })
            .collect();
        for job in jobs {
            job.await.expect("no panic");
        }
        assert!((1..=TURNS_MAX).contains(&most.load(Ordering::SeqCst)));
    }
}
