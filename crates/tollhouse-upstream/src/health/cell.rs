//! [`Health`] of one node in one atomic word, shared by all cores and the checker.
//!
//! A signal without effect writes nothing: a success of a healthy node costs one load.

use std::sync::atomic::{AtomicU64, Ordering};

use super::state::{Counters, Health, Signal, Status};

#[derive(Debug, Default)]
pub(crate) struct HealthCell(AtomicU64);

/// Effect of a signal on whether the node serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shift {
    None,
    /// The node started or stopped serving.
    Flipped,
}

impl HealthCell {
    pub(crate) fn load(&self) -> Health {
        unpack(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn reset(&self) {
        self.0.store(pack(Health::default()), Ordering::Release);
    }

    pub(crate) fn observe(&self, signal: Signal, limit: u8) -> Shift {
        let change = |word| {
            let before = unpack(word);
            let after = before.after(signal, limit);
            (after != before).then(|| pack(after))
        };
        let Ok(before) = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change) else {
            return Shift::None;
        };
        let before = unpack(before);
        if before.status.serves() == before.after(signal, limit).status.serves() {
            Shift::None
        } else {
            Shift::Flipped
        }
    }
}

fn pack(health: Health) -> u64 {
    let Counters { success, http_failure, tcp_failure, timeout_failure } = health.counters;
    let status = match health.status {
        Status::Healthy => 0,
        Status::MostlyHealthy => 1,
        Status::MostlyUnhealthy => 2,
        Status::Unhealthy => 3,
    };
    u64::from_le_bytes([status, success, http_failure, tcp_failure, timeout_failure, 0, 0, 0])
}

fn unpack(word: u64) -> Health {
    let [status, success, http_failure, tcp_failure, timeout_failure, ..] = word.to_le_bytes();
    let status = match status {
        0 => Status::Healthy,
        1 => Status::MostlyHealthy,
        2 => Status::MostlyUnhealthy,
        _ => Status::Unhealthy,
    };
    Health { status, counters: Counters { success, http_failure, tcp_failure, timeout_failure } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_sides_is_a_flip() {
        let cell = HealthCell::default();
        for (signal, limit, expected, status) in [
            (Signal::Success, 1, Shift::None, Status::Healthy),
            (Signal::TcpFailure, 2, Shift::None, Status::MostlyHealthy),
            (Signal::TcpFailure, 2, Shift::Flipped, Status::Unhealthy),
            (Signal::TcpFailure, 2, Shift::None, Status::Unhealthy),
            (Signal::Success, 2, Shift::None, Status::MostlyUnhealthy),
            (Signal::Success, 2, Shift::Flipped, Status::Healthy),
        ] {
            assert_eq!(cell.observe(signal, limit), expected);
            assert_eq!(cell.load().status, status);
        }
        cell.reset();
        assert_eq!(cell.load(), Health::default());
    }

    #[test]
    fn every_health_survives_packing() {
        let counters =
            Counters { success: 1, http_failure: 2, tcp_failure: 254, timeout_failure: 255 };
        for status in
            [Status::Healthy, Status::MostlyHealthy, Status::MostlyUnhealthy, Status::Unhealthy]
        {
            let health = Health { status, counters };
            assert_eq!(unpack(pack(health)), health);
        }
    }
}
