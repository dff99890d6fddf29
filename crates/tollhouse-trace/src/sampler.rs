//! Samplers: whether a request is recorded.

use crate::context::TraceId;
use crate::propagation::Verdict;

/// Rule by which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    Always,
    Never,
    /// Share of the traces, decided by their ids, so that all services with the same share decide
    /// alike.
    Ratio(Ratio),
    /// The decision of the caller; without one, that of `root`.
    ParentBased(Root),
}

/// Rule for requests without a decision of the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Root {
    Always,
    Never,
    Ratio(Ratio),
}

/// Share of traces from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Traces whose low 63 bits are below are recorded.
    below: u64,
}

impl Ratio {
    /// Returns the share; numbers outside 0 to 1 count as the nearest of both.
    pub fn new(share: f64) -> Self {
        Self { below: (share.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64 }
    }

    /// Compares the low 63 bits of an id, like the SDKs of OpenTelemetry.
    #[inline]
    pub(crate) fn takes(self, trace_id: TraceId) -> bool {
        trace_id.low() >> 1 < self.below
    }
}

impl Sampler {
    /// Whether a request of this trace is recorded, after the decision of its caller.
    #[inline]
    pub fn records(&self, trace_id: TraceId, caller: Verdict) -> bool {
        match (self, caller) {
            (Self::ParentBased(_), Verdict::Record) | (_, Verdict::Debug) => true,
            (Self::ParentBased(_), Verdict::Drop) => false,
            (Self::Always | Self::ParentBased(Root::Always), _) => true,
            (Self::Never | Self::ParentBased(Root::Never), _) => false,
            (Self::Ratio(ratio) | Self::ParentBased(Root::Ratio(ratio)), _) => {
                ratio.takes(trace_id)
            }
        }
    }

    /// Share of the traces that is recorded without a decision of the caller.
    pub fn root_share(&self) -> Ratio {
        match self {
            Self::Always | Self::ParentBased(Root::Always) => Ratio::new(1.0),
            Self::Never | Self::ParentBased(Root::Never) => Ratio::new(0.0),
            Self::Ratio(ratio) | Self::ParentBased(Root::Ratio(ratio)) => *ratio,
        }
    }

    /// Returns the sampler that follows the caller, and this rule without a caller.
    #[must_use]
    pub fn after_parent(self) -> Self {
        match self {
            Self::Always => Self::ParentBased(Root::Always),
            Self::Never => Self::ParentBased(Root::Never),
            Self::Ratio(ratio) => Self::ParentBased(Root::Ratio(ratio)),
            Self::ParentBased(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_stdx::random::Random;

    use super::*;

    #[test]
    fn only_parent_based_samplers_follow_the_caller() {
        let trace_id = TraceId::from_random(1, 2);
        for (sampler, open, recorded, dropped) in [
            (Sampler::Always, true, true, true),
            (Sampler::Never, false, false, false),
            (Sampler::Ratio(Ratio::new(0.0)), false, false, false),
            (Sampler::Always.after_parent(), true, true, false),
            (Sampler::Never.after_parent(), false, true, false),
            (Sampler::Ratio(Ratio::new(1.0)).after_parent(), true, true, false),
        ] {
            let seen = [Verdict::Open, Verdict::Record, Verdict::Drop]
                .map(|caller| sampler.records(trace_id, caller));
            assert_eq!(seen, [open, recorded, dropped], "{sampler:?}");
            assert_eq!(sampler.root_share().takes(trace_id), open, "{sampler:?}");
        }
    }

    #[test]
    fn a_ratio_is_met_by_random_ids() {
        let mut random = Random::seeded(5);
        for share in [0.0, 0.01, 0.5, 1.0] {
            let sampler = Sampler::Ratio(Ratio::new(share));
            let rounds = 100_000;
            let recorded = (0..rounds)
                .filter(|_| {
                    let id = TraceId::from_random(random.next_u64(), random.next_u64());
                    sampler.records(id, Verdict::Open)
                })
                .count();
            let seen = recorded as f64 / f64::from(rounds);
            assert!((seen - share).abs() < 0.01, "{share}: {seen}");
        }
    }
}
