//! Objects that compete for a request, best first.

use std::cmp::Reverse;
use std::sync::Arc;

use super::condition::{Conditions, Holds};
use super::index::Index;
use super::request::Request;

/// An object with what it asks.
#[derive(Debug)]
pub(super) struct Competitor<T> {
    pub(super) value: T,
    pub(super) conditions: Conditions,
    pub(super) takes: Takes,
    pub(super) sort: i64,
}

/// Which requests an object takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    All,
    ByConditions,
    /// By conditions of which the path decides alone: whom the index leads here is taken.
    ByPath,
    Nothing,
}

impl Takes {
    /// What an object takes that asks these.
    pub(super) fn from_conditions(conditions: &Conditions) -> Self {
        match conditions.are_decided_by_index() {
            true => Self::ByPath,
            false => Self::ByConditions,
        }
    }
}

/// The objects, in the order of choice: more conditions first, then the smaller `sort`, then as they came.
#[derive(Debug)]
pub(super) struct Ranked<T> {
    competitors: Box<[Arc<Competitor<T>>]>,
    index: Index,
}

/// Who takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winner<T> {
    Nobody,
    /// This one could have won, but cannot be evaluated.
    Unclear(T),
    Found(T),
}

/// What to do with an object that cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// It takes nothing.
    Skipped,
    /// Whoever protects with it must know.
    Reported,
}

impl<T> Ranked<T> {
    /// The same as `before` where that has the same objects in the same order.
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

    /// Of objects in the order of choice.
    fn new(competitors: Vec<Arc<Competitor<T>>>) -> Self {
        let index = Index::build(competitors.iter().map(|each| match each.takes {
            Takes::All => None,
            Takes::ByConditions | Takes::ByPath => each.conditions.anchors(),
            Takes::Nothing => Some(Vec::new()),
        }));
        Self { competitors: competitors.into(), index }
    }

    /// In the order of choice.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Competitor<T>>> {
        self.competitors.iter()
    }

    /// See [`Index::whole_paths`].
    pub(super) fn whole_paths(&self) -> impl Iterator<Item = &str> {
        self.index.whole_paths()
    }

    /// The one at a place in the order of choice.
    pub(super) fn get(&self, rank: u32) -> Option<&T> {
        self.competitors.get(rank as usize).map(|each| &each.value)
    }

    /// The place of the first of which `is_meant` holds.
    pub(super) fn rank(&self, is_meant: impl Fn(&T) -> bool) -> Option<u32> {
        let at = self.competitors.iter().position(|each| is_meant(&each.value))?;
        at.try_into().ok()
    }

    /// Who takes the request, with its place in the order of choice.
    #[inline]
    pub(super) fn best(&self, request: &dyn Request, unclear: Unclear) -> Winner<(u32, &T)> {
        let (mut found, mut doubtful) = (u32::MAX, u32::MAX);
        self.index.visit(request.path(), |ranks| {
            for &rank in ranks {
                // The list rises: what follows is no better than what was found.
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
            (_, Some(value)) if doubtful < found && unclear == Unclear::Reported => {
                Winner::Unclear(value)
            }
            (Some(value), _) => Winner::Found(value),
            (None, _) => Winner::Nobody,
        }
    }
}

impl<T> Competitor<T> {
    /// Whoever comes here, by the index or not.
    pub(super) fn takes(&self, request: &dyn Request) -> Holds {
        match self.takes {
            Takes::All => Holds::Yes,
            Takes::ByConditions | Takes::ByPath => self.conditions.hold(request),
            Takes::Nothing => Holds::No,
        }
    }
}
