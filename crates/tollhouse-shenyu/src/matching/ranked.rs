//! Candidates for a request, best first.

use std::cmp::Reverse;
use std::sync::Arc;

use super::condition::{Conditions, Holds};
use super::index::Index;
use super::request::Request;
use super::role::OnFault;

/// Object that competes with others for requests, with its compiled conditions.
#[derive(Debug)]
pub(super) struct Competitor<T> {
    pub(super) value: T,
    pub(super) conditions: Conditions,
    pub(super) takes: Takes,
    pub(super) sort: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    All,
    ByConditions,
    /// The index alone decides, so every request that it finds matches.
    ByPath,
    Nothing,
}

impl Takes {
    /// Chooses between an evaluation of the conditions and the index alone.
    pub(super) fn from_conditions(conditions: &Conditions) -> Self {
        match conditions.are_decided_by_index() {
            true => Self::ByPath,
            false => Self::ByConditions,
        }
    }
}

/// Candidates in the order of choice: by descending number of conditions, then ascending `sort`,
/// then order of arrival.
#[derive(Debug)]
pub(super) struct Ranked<T> {
    competitors: Box<[Arc<Competitor<T>>]>,
    index: Index,
}

/// Outcome of the choice among the candidates for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winner<T> {
    Nobody,
    /// This object would take precedence over any match, but cannot be evaluated.
    Unclear(T),
    Found(T),
}

impl<T> Ranked<T> {
    /// Puts the candidates in the order of choice. Returns `before` if it already holds these
    /// objects in this order.
    pub(super) fn renew(
        mut competitors: Vec<Arc<Competitor<T>>>,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        competitors.sort_by_key(|each| (Reverse(each.conditions.score()), each.sort));
        let is_same = |before: &&Arc<Self>| {
            before.competitors.len() == competitors.len()
                && before.competitors.iter().zip(&competitors).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        match before.filter(is_same) {
            Some(before) => Arc::clone(before),
            None => Arc::new(Self::new(competitors)),
        }
    }

    /// Builds the index of candidates that are already in the order of choice.
    fn new(competitors: Vec<Arc<Competitor<T>>>) -> Self {
        let index = Index::build(competitors.iter().map(|each| match each.takes {
            Takes::All => None,
            Takes::ByConditions | Takes::ByPath => each.conditions.anchors(),
            Takes::Nothing => Some(Vec::new()),
        }));
        Self { competitors: competitors.into(), index }
    }

    /// Lists the candidates in the order of choice.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Competitor<T>>> {
        self.competitors.iter()
    }

    /// Lists the literal paths in the index of the candidates.
    pub(super) fn whole_paths(&self) -> impl Iterator<Item = &str> {
        self.index.whole_paths()
    }

    /// Returns the candidate at a position in the order of choice.
    pub(super) fn get(&self, rank: u32) -> Option<&T> {
        self.competitors.get(rank as usize).map(|each| &each.value)
    }

    /// Returns the rank of the first candidate that satisfies `is_meant`.
    pub(super) fn rank(&self, is_meant: impl Fn(&T) -> bool) -> Option<u32> {
        let at = self.competitors.iter().position(|each| is_meant(&each.value))?;
        at.try_into().ok()
    }

    /// Chooses the best candidate for a request, with its rank.
    #[inline]
    pub(super) fn best(&self, request: &dyn Request, on_fault: OnFault) -> Winner<(u32, &T)> {
        let (mut found, mut doubtful) = (u32::MAX, u32::MAX);
        self.index.visit(request.path(), |ranks| {
            for &rank in ranks {
                // Ranks ascend, so the rest of the list cannot be better.
                if rank >= found {
                    break;
                }
                let competitor = &self.competitors[rank as usize];
                let holds = match competitor.takes {
                    Takes::ByPath => Holds::Yes,
                    Takes::All | Takes::ByConditions | Takes::Nothing => competitor.takes(request),
                };
                match holds {
                    Holds::Yes => found = rank,
                    Holds::Unknown => doubtful = doubtful.min(rank),
                    Holds::No => {}
                }
            }
        });
        let value = |rank: u32| Some((rank, self.get(rank)?));
        match (value(found), value(doubtful)) {
            (_, Some(value)) if doubtful < found && on_fault == OnFault::Refuse => {
                Winner::Unclear(value)
            }
            (Some(value), _) => Winner::Found(value),
            (None, _) => Winner::Nobody,
        }
    }
}

impl<T> Competitor<T> {
    /// Evaluates the conditions of the object, without regard to the index.
    pub(super) fn takes(&self, request: &dyn Request) -> Holds {
        match self.takes {
            Takes::All => Holds::Yes,
            Takes::ByConditions | Takes::ByPath => self.conditions.hold(request),
            Takes::Nothing => Holds::No,
        }
    }
}
