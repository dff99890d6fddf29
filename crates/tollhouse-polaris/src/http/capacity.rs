//! Limits of all HTTP clients together: number of reserved bytes, and of concurrent jobs.
//!
//! The limit counts request bodies and unread answers of all clients, so that a client that does
//! not read cannot use up the memory. Long jobs run on separate threads, a few at a time, so that
//! short calls do not wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::Failure;
use crate::code::Code;

/// Maximum bytes held for all clients: the largest lists of instances, several times.
const HELD_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Unit in which bytes are counted.
const UNIT_BYTES: usize = 1024;

/// Length in bytes up to which bodies and answers are neither counted nor processed on another
/// thread: all connections together hold little of them, and processing takes less than a
/// millisecond.
pub(super) const SHORT_BYTES_MAX: usize = 32 * 1024;

/// Maximum number of jobs at once.
const TURNS_MAX: usize = 4;

/// Timeout of waiting for memory or for a job slot.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Limits of a process, shared by its clones; see the module.
#[derive(Debug, Clone)]
pub struct Capacity {
    room: Arc<Semaphore>,
    room_units: usize,
    turns: Arc<Semaphore>,
}

/// Reservation of bytes, released on drop.
#[derive(Debug)]
pub(super) struct CapacityPermit(OwnedSemaphorePermit);

impl Default for Capacity {
    fn default() -> Self {
        Self::from_bytes(HELD_BYTES_MAX)
    }
}

impl Capacity {
    /// Creates limits with this number of bytes.
    pub(super) fn from_bytes(bytes: usize) -> Self {
        let room_units = bytes / UNIT_BYTES;
        Self {
            room: Arc::new(Semaphore::new(room_units)),
            room_units,
            turns: Arc::new(Semaphore::new(TURNS_MAX)),
        }
    }

    /// Reserves `bytes`; waits up to the timeout.
    pub(super) async fn hold(&self, bytes: usize) -> Result<CapacityPermit, Failure> {
        let units = self.units(bytes)?;
        let room = Arc::clone(&self.room).acquire_many_owned(units);
        match tokio::time::timeout(WAIT_MAX, room).await {
            Ok(Ok(permit)) => Ok(CapacityPermit(permit)),
            _ => Err(busy()),
        }
    }

    /// Changes a reservation to `bytes` without waiting; fails if memory is short.
    pub(super) fn try_resize(
        &self,
        held: &mut Option<CapacityPermit>,
        bytes: usize,
    ) -> Result<(), Failure> {
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
            None => *held = Some(CapacityPermit(permit)),
        }
        Ok(())
    }

    /// Runs a job on a blocking thread when a slot is free.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = Arc::clone(&self.turns).acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(WAIT_MAX, turn).await else {
            return Err(busy());
        };
        // The job holds its slot, because it runs on even if its caller has gone.
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
