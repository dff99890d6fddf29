//! Small fast pseudorandom number generator for one core: load balancing, jitter, sampling.
//!
//! Seeded explicitly, so that tests and simulations are repeatable. Not for secrets, because a few
//! outputs suffice to predict the rest.

/// State of a generator: a Weyl sequence mixed by a folded multiplication.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// Odd, so that the sequence passes through every value, with about half of its bits set.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;

impl Random {
    /// Creates a generator whose outputs depend only on `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Creates a generator with a seed that differs between processes and calls; it derives from
    /// random numbers of the kernel.
    pub fn from_process_entropy() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::seeded(RandomState::new().hash_one(STEP))
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let product = u128::from(self.state) * u128::from(self.state ^ MIX);
        (product >> 64) as u64 ^ product as u64
    }

    /// Returns a number below `bound`, uniform to within 2⁻³²; zero if `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        let high = self.next_u64() >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }

    /// Returns a number from 0 to 1, exclusive.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const MANTISSA_BITS: u32 = 53;
        (self.next_u64() >> (u64::BITS - MANTISSA_BITS)) as f64 / (1_u64 << MANTISSA_BITS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut first = Random::seeded(7);
        let mut second = Random::seeded(7);
        let mut other = Random::seeded(8);
        let numbers: Vec<u64> = (0..100).map(|_| first.next_u64()).collect();
        assert!(numbers.iter().all(|number| *number == second.next_u64()));
        assert!(numbers.iter().any(|number| *number != other.next_u64()));
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        const ROUNDS: u32 = 100_000;
        for bound in [1, 2, 3, 7, 10, 100] {
            let mut random = Random::seeded(1);
            let mut hits = vec![0_u32; bound as usize];
            for _ in 0..ROUNDS {
                hits[random.below(bound) as usize] += 1;
            }
            let mean = ROUNDS / bound;
            let allowed = mean / 5 + 50;
            assert!(hits.iter().all(|count| count.abs_diff(mean) <= allowed), "{bound}: {hits:?}");
        }
        assert_eq!(Random::seeded(1).below(0), 0);
    }

    #[test]
    fn unit_numbers_stay_below_one_and_average_a_half() {
        let mut random = Random::seeded(3);
        let numbers: Vec<f64> = (0..10_000).map(|_| random.unit()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
