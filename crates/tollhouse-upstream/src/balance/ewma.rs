//! EWMA: an exponentially weighted moving average of the response time per node. Of two random
//! members, the one with the lower average is picked.
//!
//! The average decays while a node is unused, so that a slow node gets another chance. Weights
//! other than 0 are ignored. The caller provides the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Choice, Member, Needs, PolicyTable, below};
use crate::node::Node;

/// Decay time of the average: a sample of this age counts 37 %.
const DECAY_MS: f32 = 10_000.0;

/// Duration in milliseconds without samples after which a node counts as unmeasured.
const EXPIRY_MS: u32 = 60_000;

/// Value of [`Ewma`] before the first sample; no average has these bits.
const UNMEASURED: u64 = u64::MAX;

/// Average of one node: seconds (as `f32`) and the time of the last sample (low 32 bits of the
/// milliseconds) in one word, so that both are updated atomically.
#[derive(Debug)]
pub(crate) struct Ewma(AtomicU64);

impl Default for Ewma {
    fn default() -> Self {
        Self(AtomicU64::new(UNMEASURED))
    }
}

impl Ewma {
    /// Returns the decayed average in seconds; 0 if unknown, so that the node is tried.
    pub(crate) fn score(&self, now_ms: u64) -> f32 {
        faded(self.0.load(Ordering::Relaxed), now_ms).map_or(0.0, |(value, fading)| value * fading)
    }

    /// Adds a response time to the moving average.
    pub(crate) fn observe(&self, response_time: Duration, now_ms: u64) {
        let sample = response_time.as_secs_f32();
        let update = |bits| {
            let value = match faded(bits, now_ms) {
                Some((value, fading)) => value * fading + sample * (1.0 - fading),
                None => sample,
            };
            Some(u64::from(value.to_bits()) << 32 | u64::from(now_ms as u32))
        };
        // Always succeeds, because the closure never returns `None`.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }
}

/// Returns the stored average, and the fraction of it that remains at `now_ms`.
fn faded(bits: u64, now_ms: u64) -> Option<(f32, f32)> {
    if bits == UNMEASURED {
        return None;
    }
    // Cores read the clock at slightly different times, so a sample from the future has age 0.
    let age_ms = (now_ms as u32).wrapping_sub(bits as u32);
    let age_ms = if age_ms > u32::MAX / 2 { 0 } else { age_ms };
    if age_ms >= EXPIRY_MS {
        return None;
    }
    Some((f32::from_bits((bits >> 32) as u32), (-(age_ms as f32) / DECAY_MS).exp()))
}

#[derive(Debug)]
pub(crate) struct EwmaTable(Box<[u32]>);

impl PolicyTable for EwmaTable {
    const NEEDS: Needs = Needs { requests_under_way: false, response_time: true };

    fn new(members: &[Member], _nodes: &[Node]) -> Self {
        Self(members.iter().map(|member| member.index).collect())
    }

    fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
        let now_ms = choice.request.now_ms;
        let score = |index: u32| choice.nodes[index as usize].vitals().response_time.score(now_ms);
        self.pick_by(choice, score)
    }
}

impl EwmaTable {
    fn pick_by(&self, choice: &Choice<'_>, score: impl Fn(u32) -> f32) -> Option<u32> {
        let count = self.0.len();
        let start = below(choice.request.random, count);
        let first = self.free_from(start, choice)?;
        if count == 1 {
            return Some(self.0[first]);
        }
        // The low half of the random number is still unused.
        let distance = 1 + below(choice.request.random << 32, count - 1);
        let second = self.free_from((start + distance) % count, choice)?;
        let (first, second) = (self.0[first], self.0[second]);
        Some(if score(second) < score(first) { second } else { first })
    }

    /// Returns the first untried member from `start` on, with wrap-around.
    fn free_from(&self, start: usize, choice: &Choice<'_>) -> Option<usize> {
        let count = self.0.len();
        let mut places = (0..count).map(|step| (start + step) % count);
        places.find(|&place| !choice.tried.contains(self.0[place]))
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_stdx::random::Random;

    use super::super::tests::{members, request};
    use super::*;
    use crate::pick::{NodeIndex, Tried};

    fn shares(scores: &[f32], tried: &Tried) -> Vec<f64> {
        let table = EwmaTable::new(&members(&vec![1; scores.len()]), &[]);
        let mut random = Random::seeded(11);
        let mut hits = vec![0.0; scores.len()];
        for _ in 0..10_000 {
            let choice = Choice { request: &request(random.next_u64()), tried, nodes: &[] };
            if let Some(index) = table.pick_by(&choice, |index| scores[index as usize]) {
                hits[index as usize] += 1.0 / 10_000.0;
            }
        }
        hits
    }

    #[test]
    fn the_lower_score_of_two_wins() {
        // Of three members, the best wins both of its pairs, the middle one wins one, the worst
        // none.
        for (scores, expected) in [
            (&[0.1, 0.2][..], &[1.0, 0.0][..]),
            (&[0.3, 0.1, 0.2], &[0.0, 2.0 / 3.0, 1.0 / 3.0]),
            (&[0.1, 0.1], &[0.5, 0.5]),
            (&[0.4], &[1.0]),
        ] {
            for (found, wanted) in shares(scores, &Tried::new()).iter().zip(expected) {
                assert!((found - wanted).abs() < 0.02, "{scores:?}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn tried_members_are_left_out() {
        let mut tried = Tried::new();
        tried.insert_index(1, NodeIndex(0));
        assert_eq!(shares(&[0.1, 0.2], &tried)[0], 0.0);
        assert!(shares(&[0.1, 0.2], &tried)[1] > 0.99);
        tried.insert_index(1, NodeIndex(1));
        assert_eq!(shares(&[0.1, 0.2], &tried), [0.0, 0.0]);
    }

    #[test]
    fn an_average_fades_and_expires() {
        let average = Ewma::default();
        assert_eq!(average.score(5), 0.0);
        average.observe(Duration::from_millis(800), 1_000);
        for (now_ms, expected) in [
            (1_000, 0.8),
            (900, 0.8),
            (11_000, 0.8 * (-1.0_f32).exp()),
            (60_999, 0.8 * (-5.9999_f32).exp()),
            (61_000, 0.0),
        ] {
            assert!((average.score(now_ms) - expected).abs() < 1e-4, "{now_ms}");
        }
    }

    #[test]
    fn samples_are_blended_by_the_time_between_them() {
        let average = Ewma::default();
        average.observe(Duration::from_secs(1), 0);
        average.observe(Duration::from_secs(3), 10_000);
        let kept = (-1.0_f32).exp();
        assert!((average.score(10_000) - (kept + 3.0 * (1.0 - kept))).abs() < 1e-5);
    }

    #[test]
    fn the_clock_may_pass_32_bits() {
        let average = Ewma::default();
        let before = u64::from(u32::MAX) - 500;
        average.observe(Duration::from_secs(1), before);
        assert!((average.score(before + 1_000) - (-0.1_f32).exp()).abs() < 1e-5);
    }
}
