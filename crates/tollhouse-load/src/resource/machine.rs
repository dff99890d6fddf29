//! Units of the kernel's figures.

/// Page size and tick frequency of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) page_bytes: u64,
    pub(super) ticks_per_second: u64,
}

impl Machine {
    /// Returns the units of this machine.
    pub(super) fn own() -> Self {
        Self {
            page_bytes: rustix::param::page_size() as u64,
            ticks_per_second: rustix::param::clock_ticks_per_second().max(1),
        }
    }

    pub(super) fn seconds(self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second as f64
    }

    /// Returns the ticks since boot, the unit of processes' start times.
    pub(super) fn ticks_since_boot(self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let part = u64::try_from(now.tv_nsec).unwrap_or(0) * self.ticks_per_second / 1_000_000_000;
        seconds * self.ticks_per_second + part
    }
}
