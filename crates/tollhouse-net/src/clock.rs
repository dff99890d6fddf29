//! Clock of the load generator: nanoseconds since an instant that all workers share, and a timer of
//! the same precision. The runtime's timers round up to a millisecond, ten times the latency of a
//! good response on a fast network. Therefore intended start times use the kernel's high-resolution
//! timer.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND_NS: u64 = 1_000_000_000;

/// Monotonic clock; all copies count from one start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// Starts a clock at the current time.
    pub fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Returns the number of nanoseconds since the start of the clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let elapsed = self.epoch.elapsed();
        elapsed.as_secs() * SECOND_NS + u64::from(elapsed.subsec_nanos())
    }
}

/// A timer on a [`Clock`]; at most one task may await it.
#[derive(Debug)]
pub struct PreciseTimer {
    clock: Clock,
    fd: AsyncFd<OwnedFd>,
}

impl PreciseTimer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "its successor asks for an unsafe promise that the type OwnedFd already keeps"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { clock, fd })
    }

    /// Sets the time at which [`elapsed`](Self::elapsed) returns; a time in the past means at once.
    ///
    /// # Errors
    /// If the kernel refuses the timer.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        // A value of zero would disarm the timer.
        let wait_ns = at_ns.saturating_sub(self.clock.now_ns()).max(1);
        let value = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(wait_ns / SECOND_NS).unwrap_or(i64::MAX),
                tv_nsec: (wait_ns % SECOND_NS) as _,
            },
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }

    /// Waits until the time that was set last.
    ///
    /// # Errors
    /// If the reactor has shut down.
    pub async fn elapsed(&self) -> io::Result<()> {
        // Setting the timer clears an unread expiry, and the next one is reported even if this one
        // is never read.
        self.fd.readable().await?.clear_ready();
        Ok(())
    }

    /// Waits until a time of the clock.
    ///
    /// # Errors
    /// If the timer cannot be set or awaited.
    pub async fn until(&self, at_ns: u64) -> io::Result<()> {
        if self.clock.now_ns() >= at_ns {
            return Ok(());
        }
        self.set(at_ns)?;
        while self.clock.now_ns() < at_ns {
            self.elapsed().await?;
        }
        Ok(())
    }
}
