//! The generator's clock: nanoseconds from one instant that all workers share, and a timer that keeps
//! to it. The runtime's own timers round up to a millisecond, which is ten times the latency of a good
//! answer on a fast network; intended starts therefore hang on the kernel's high-resolution timer.

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

/// A clock; copies tell the same time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Nanoseconds since the clock's start.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let elapsed = self.epoch.elapsed();
        elapsed.as_secs() * SECOND_NS + u64::from(elapsed.subsec_nanos())
    }
}

/// A timer on a [`Clock`], to be awaited by one task at a time.
#[derive(Debug)]
pub struct PreciseTimer {
    clock: Clock,
    fd: AsyncFd<OwnedFd>,
}

impl PreciseTimer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// When the process has no descriptor left.
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

    /// Sets when [`elapsed`](Self::elapsed) returns; an instant in the past means at once.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        // Zero would disarm it.
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

    /// Waits until the instant that was set last.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn elapsed(&self) -> io::Result<()> {
        // The next expiry is reported whether this one is read or not, and setting the timer clears it.
        self.fd.readable().await?.clear_ready();
        Ok(())
    }

    /// Waits until an instant of the clock.
    ///
    /// # Errors
    /// What the kernel says.
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
