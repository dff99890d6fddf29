//! Slow start of one node: the share of its weight that is in effect, and the start of its service.
//!
//! The caller provides the time. `warm_up.rs` advances the ramps; `node_set.rs` applies the shares
//! to the tables.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_model::upstream::WarmUp;

/// Share of a node with its full weight.
pub(crate) const WHOLE: u32 = 1 << 16;

/// Minimum time that counts as served, so that the first step of a long window has an effect.
const SERVED_MIN: Duration = Duration::from_secs(1);

/// Minimum difference between two reported start times of a node that counts as a restart. Smaller
/// ones are inaccuracies, because the registry uses another clock.
const REBIRTH: Duration = Duration::from_secs(2);

/// Slow-start state of a node; lives as long as the node is known, like its health.
#[derive(Debug)]
pub(crate) struct Ramp {
    /// Share in parts of [`WHOLE`]; read by all cores when tables are built.
    share: AtomicU32,
    past: Mutex<NodeHistory>,
}

/// Start of a node's service and start of the node itself, from which its slow start is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeHistory {
    begun: ServiceStart,
    /// Start time of the node as last reported.
    born: Option<Instant>,
}

/// Time at which a node began to receive requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceStart {
    /// The node has served for a long time and has its full weight.
    LongSince,
    /// The node was just added; slow start begins with the next step.
    Now,
    At(Instant),
}

/// Time at which a node joined the set, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The node is one of the first nodes of the upstream.
    First,
    /// The node was added after other nodes were in service.
    Later,
    /// The node existed before the change.
    Stays,
}

impl Default for Ramp {
    fn default() -> Self {
        Self {
            share: AtomicU32::new(WHOLE),
            past: Mutex::new(NodeHistory { begun: ServiceStart::LongSince, born: None }),
        }
    }
}

impl Ramp {
    /// Begins slow start according to the node's arrival and its age, if known.
    pub(crate) fn arrive(&self, warm_up: &WarmUp, arrival: Arrival, age: Option<Duration>) {
        // An age beyond the range of `Instant` means a long-running node.
        let born = age.and_then(|age| Instant::now().checked_sub(age));
        let mut past = self.past();
        let begun = match arrival {
            // A node added to others counts as new, regardless of its age.
            Arrival::Later => ServiceStart::Now,
            Arrival::First => begun_at(born, warm_up),
            Arrival::Stays if is_reborn(past.born, born) => begun_at(born, warm_up),
            Arrival::Stays => return,
        };
        *past = NodeHistory { begun, born };
        let served = match begun {
            ServiceStart::LongSince => warm_up.window,
            ServiceStart::Now => Duration::ZERO,
            ServiceStart::At(start) => start.elapsed(),
        };
        self.set_share(share_after(served, warm_up));
    }

    /// Raises the share of the node's weight to the value that slow start has reached at `now`.
    pub(crate) fn step(&self, warm_up: &WarmUp, now: Instant, uptime: Duration) -> Step {
        let mut past = self.past();
        let start = match past.begun {
            ServiceStart::LongSince => return Step { rose: false, warms: false },
            ServiceStart::Now => now,
            ServiceStart::At(start) => start,
        };
        let served = now.saturating_duration_since(start);
        let is_done = served >= warm_up.window || uptime < warm_up.startup_grace;
        past.begun = if is_done { ServiceStart::LongSince } else { ServiceStart::At(start) };
        let share = if is_done { WHOLE } else { share_after(served, warm_up) };
        Step { rose: self.set_share(share), warms: !is_done }
    }

    /// Returns the share of the full weight, in parts of [`WHOLE`].
    pub(crate) fn share(&self) -> u32 {
        self.share.load(Ordering::Acquire)
    }

    /// Stores the share; returns whether it changed.
    fn set_share(&self, share: u32) -> bool {
        self.share.swap(share, Ordering::AcqRel) != share
    }

    fn past(&self) -> MutexGuard<'_, NodeHistory> {
        // Written in single statements, so a poisoned lock is usable.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Whether the share of a node changed.
    pub(crate) rose: bool,
    /// Whether a node is still in slow start, so that further steps follow.
    pub(crate) warms: bool,
}

/// Factor for all weights of a group during slow start, so that a weight of 1 can be reduced.
pub(crate) const PARTS: u32 = 100;

/// Returns the weight of a node in slow start: `weight` times `parts`, scaled by `share` (a
/// fraction of `WHOLE`). Only a weight of 0 yields 0.
pub(crate) fn weighed(weight: u32, share: u32, parts: u32) -> u32 {
    let scaled = u128::from(weight) * u128::from(parts) * u128::from(share);
    let rounded = (scaled + u128::from(WHOLE / 2)) >> WHOLE.trailing_zeros();
    u32::try_from(rounded).unwrap_or(u32::MAX).max(weight.min(1))
}

/// Converts a share to percent, for display.
pub(crate) fn percent(share: u32) -> u8 {
    let percent = (u64::from(share) * 100) >> WHOLE.trailing_zeros();
    u8::try_from(percent).unwrap_or(100)
}

/// Returns the share after a time of service: `max(minimum, (served / window) ^ (1 / aggression))`.
fn share_after(served: Duration, warm_up: &WarmUp) -> u32 {
    if served >= warm_up.window {
        return WHOLE;
    }
    let served = served.max(SERVED_MIN.min(warm_up.interval));
    let factor = served.as_secs_f64() / warm_up.window.as_secs_f64();
    let minimum = f64::from(warm_up.minimum_weight_percent) / 100.0;
    let ratio = factor.powf(1.0 / warm_up.aggression).max(minimum).clamp(0.0, 1.0);
    (ratio * f64::from(WHOLE)).round() as u32
}

fn begun_at(born: Option<Instant>, warm_up: &WarmUp) -> ServiceStart {
    match born {
        Some(born) if born.elapsed() < warm_up.window => ServiceStart::At(born),
        _ => ServiceStart::LongSince,
    }
}

/// Whether a remaining node has been restarted.
fn is_reborn(before: Option<Instant>, after: Option<Instant>) -> bool {
    after.is_some_and(|after| before.is_none_or(|before| after > before + REBIRTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn warm_up(window_s: u64) -> WarmUp {
        WarmUp {
            window: Duration::from_secs(window_s),
            minimum_weight_percent: 1,
            aggression: 1.0,
            interval: Duration::from_secs(1),
            startup_grace: Duration::ZERO,
        }
    }

    #[test]
    fn the_share_follows_the_curve_between_minimum_and_whole() {
        let shaped = |minimum_weight_percent, aggression| WarmUp {
            minimum_weight_percent,
            aggression,
            ..warm_up(300)
        };
        for (conf, served_s, expected) in [
            (warm_up(10), 0, 10),
            (warm_up(300), 0, 1),
            (warm_up(300), 30, 10),
            (warm_up(300), 150, 50),
            (warm_up(300), 300, 100),
            (warm_up(300), 3_000, 100),
            (shaped(20, 1.0), 1, 20),
            (shaped(1, 2.0), 75, 50),
            (shaped(1, 0.5), 150, 25),
        ] {
            let share = share_after(Duration::from_secs(served_s), &conf);
            let weight = weighed(100, share, 1);
            assert_eq!(weight, expected, "{conf:?} after {served_s} s");
        }
    }

    #[test]
    fn a_share_of_a_weight_is_never_nothing_unless_the_weight_is() {
        for (weight, share, parts, expected) in [
            (0, WHOLE, PARTS, 0),
            (0, 1, 1, 0),
            (1, 1, 1, 1),
            (1, WHOLE / 10, PARTS, 10),
            (100, WHOLE / 2, 1, 50),
            (u32::MAX, WHOLE, 1, u32::MAX),
            (u32::MAX, WHOLE, PARTS, u32::MAX),
            (u32::MAX, WHOLE / 2, 1, 1 << 31),
        ] {
            assert_eq!(weighed(weight, share, parts), expected, "{weight} {share}");
        }
        assert_eq!([percent(0), percent(WHOLE / 10), percent(WHOLE)], [0, 9, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_ramp_begins_with_the_first_step_and_ends_after_the_window() {
        let (ramp, conf, start) = (Ramp::default(), warm_up(10), Instant::now());
        assert_eq!(ramp.share(), WHOLE);
        ramp.arrive(&conf, Arrival::Later, Some(Duration::from_secs(900)));
        let uptime = Duration::from_secs(1);
        for (at_s, share, warms) in [(5, 10, true), (10, 50, true), (15, 100, false)] {
            let step = ramp.step(&conf, start + Duration::from_secs(at_s), uptime);
            assert_eq!((percent(ramp.share() + 1), step.warms), (share, warms), "{at_s}");
        }
        let later = ramp.step(&conf, start + Duration::from_secs(20), uptime);
        assert_eq!(later, Step { rose: false, warms: false });
    }

    #[tokio::test(start_paused = true)]
    async fn first_nodes_are_as_old_as_they_are_said_to_be() {
        let seconds = Duration::from_secs;
        tokio::time::advance(seconds(1_000)).await;
        for (age, share, warms) in
            [(None, 100, false), (Some(seconds(4)), 40, true), (Some(seconds(10)), 100, false)]
        {
            let (ramp, conf) = (Ramp::default(), warm_up(10));
            ramp.arrive(&conf, Arrival::First, age);
            assert_eq!(percent(ramp.share() + 1), share, "{age:?}");
            assert_eq!(ramp.step(&conf, Instant::now(), seconds(9)).warms, warms, "{age:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_stays_begins_anew_only_when_it_was_born_again() {
        let seconds = Duration::from_secs;
        tokio::time::advance(seconds(1_000)).await;
        let (ramp, conf) = (Ramp::default(), warm_up(10));
        ramp.arrive(&conf, Arrival::First, Some(seconds(5)));
        ramp.arrive(&conf, Arrival::Stays, Some(seconds(4)));
        assert_eq!(percent(ramp.share() + 1), 50);
        ramp.arrive(&conf, Arrival::Stays, None);
        assert_eq!(percent(ramp.share() + 1), 50);
        ramp.arrive(&conf, Arrival::Stays, Some(seconds(1)));
        assert_eq!(percent(ramp.share() + 1), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn soon_after_the_start_nobody_is_fresh() {
        let conf = WarmUp { startup_grace: Duration::from_secs(60), ..warm_up(10) };
        for (uptime_s, warms) in [(59, false), (60, true)] {
            let ramp = Ramp::default();
            ramp.arrive(&conf, Arrival::Later, None);
            let step = ramp.step(&conf, Instant::now(), Duration::from_secs(uptime_s));
            assert_eq!(step.warms, warms, "{uptime_s}");
        }
    }
}
