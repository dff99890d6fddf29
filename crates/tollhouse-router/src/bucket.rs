//! Candidates that share a host level and a path or prefix, in the order in which they are tried.

use std::cmp::Ordering;
use std::sync::Arc;

use tollhouse_model::Id;

use crate::captures::Captures;
use crate::conditions::Conditions;
use crate::explain::Loss;
use crate::pattern::Rest;
use crate::spec::{MatchRequest, RouteSpec};

/// Route as inserted, shared by the candidates made from it.
#[derive(Debug)]
pub(crate) struct Origin<T> {
    pub(crate) id: Id,
    pub(crate) spec: RouteSpec,
    pub(crate) value: T,
    /// Place in the order of insertion; unique, and kept when the route is replaced.
    pub(crate) sequence: u64,
}

/// Path pattern of a route under one of its hosts. Contains everything that a look-up reads, so
/// that a route without conditions is found without another pointer.
#[derive(Debug)]
pub(crate) struct Candidate<T> {
    pub(crate) value: T,
    pub(crate) conditions: Option<Arc<Conditions>>,
    pub(crate) rest: Rest,
    pub(crate) origin: Arc<Origin<T>>,
    /// Index of the path pattern in the route.
    pub(crate) uri: u32,
    /// Index of the host pattern in the route; `None` in the level without hosts.
    pub(crate) host: Option<u32>,
}

impl<T: Clone> Clone for Candidate<T> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            conditions: self.conditions.clone(),
            rest: self.rest.clone(),
            origin: Arc::clone(&self.origin),
            uri: self.uri,
            host: self.host,
        }
    }
}

impl<T> Candidate<T> {
    pub(crate) fn uri(&self) -> &str {
        &self.origin.spec.uris[self.uri as usize]
    }

    /// Whether the route accepts `request`, whose path matches the key; fills `captures` if it
    /// does.
    #[inline]
    pub(crate) fn admits(&self, request: &MatchRequest<'_>, captures: &mut Captures) -> bool {
        if let Some(conditions) = &self.conditions
            && conditions.refusal(request).is_some()
        {
            return false;
        }
        match &self.rest {
            Rest::Nothing => captures.clear(),
            Rest::Anything(key_bytes) => captures.set_remainder(*key_bytes),
            Rest::Wildcards(wildcards) => return captures.set_from(wildcards, request.path),
        }
        true
    }

    /// Returns the reason why the route does not accept `request`, if so.
    pub(crate) fn refusal(&self, request: &MatchRequest<'_>) -> Option<Loss> {
        let by_conditions = self.conditions.as_ref().and_then(|held| held.refusal(request));
        let by_pattern = || match &self.rest {
            Rest::Nothing | Rest::Anything(_) => None,
            Rest::Wildcards(wildcards) => {
                (!wildcards.matches(request.path, &mut Vec::new())).then_some(Loss::Path)
            }
        };
        by_conditions.or_else(by_pattern)
    }

    /// Returns the order in which two candidates of a bucket are tried.
    fn order(&self, other: &Self) -> Ordering {
        let by_priority = other.origin.spec.priority.cmp(&self.origin.spec.priority);
        let by_length = other.uri().len().cmp(&self.uri().len());
        let by_age = self.origin.sequence.cmp(&other.origin.sequence);
        by_priority.then(by_length).then(by_age).then(self.uri.cmp(&other.uri))
    }
}

/// Candidates in the order in which they are tried. A single candidate, the most frequent case, is
/// stored inline, which saves a pointer per look-up.
#[derive(Debug)]
pub(crate) enum Bucket<T> {
    One(Candidate<T>),
    /// No or several candidates; shared between versions of the matcher.
    Several(Arc<Vec<Candidate<T>>>),
}

impl<T: Clone> Clone for Bucket<T> {
    fn clone(&self) -> Self {
        match self {
            Self::One(candidate) => Self::One(candidate.clone()),
            Self::Several(candidates) => Self::Several(Arc::clone(candidates)),
        }
    }
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self::Several(Arc::default())
    }
}

impl<T> Bucket<T> {
    #[inline]
    pub(crate) fn candidates(&self) -> &[Candidate<T>] {
        match self {
            Self::One(candidate) => std::slice::from_ref(candidate),
            Self::Several(candidates) => candidates,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.candidates().is_empty()
    }

    /// Whether both buckets refer to the very same route objects; equal objects are not enough.
    #[cfg(test)]
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        let origins = |bucket: &Self| -> Vec<_> {
            bucket.candidates().iter().map(|held| Arc::as_ptr(&held.origin)).collect()
        };
        origins(self) == origins(other)
    }
}

impl<T: Clone> Bucket<T> {
    pub(crate) fn insert(&mut self, candidate: Candidate<T>) {
        let held = self.candidates();
        let at = held.partition_point(|held| held.order(&candidate) != Ordering::Greater);
        match self {
            Self::Several(candidates) if candidates.is_empty() => *self = Self::One(candidate),
            Self::Several(candidates) => Arc::make_mut(candidates).insert(at, candidate),
            Self::One(only) => {
                let mut candidates = vec![only.clone()];
                candidates.insert(at, candidate);
                *self = Self::Several(Arc::new(candidates));
            }
        }
    }

    /// Removes every candidate of a route.
    pub(crate) fn remove(&mut self, sequence: u64) {
        let stays = |held: &Candidate<T>| held.origin.sequence != sequence;
        match self {
            Self::One(only) if stays(only) => {}
            Self::One(_) => *self = Self::default(),
            Self::Several(candidates) => {
                let candidates = Arc::make_mut(candidates);
                candidates.retain(stays);
                if let [only] = &**candidates {
                    *self = Self::One(only.clone());
                }
            }
        }
    }
}
