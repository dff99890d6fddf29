//! Matcher: inserts and removes routes, and finds the route of a request.

use std::sync::Arc;

use tollhouse_model::Id;
use tollhouse_stdx::CowMap;

use crate::bucket::{Candidate, Origin};
use crate::captures::Captures;
use crate::conditions::Conditions;
use crate::exact::{Effect, ExactTable};
use crate::host::HostPattern;
use crate::levels::{Level, Levels};
use crate::pattern::{Key, Parameters, Pattern};
use crate::spec::{MatchRequest, Mode, RouteSpec};
use crate::tree::Prefixes;

#[cfg(test)]
mod tests;

/// Immutable matcher; a clone shares all structure with its original until one of them is changed.
///
/// `T` is the value of a route and must be cheap to clone, such as an `Arc`.
#[derive(Debug)]
pub struct Router<T> {
    mode: Mode,
    origins: CowMap<Id, Arc<Origin<T>>>,
    levels: Levels<T>,
    exact: ExactTable<T>,
    next_sequence: u64,
}

/// The route that matched a request.
#[derive(Debug)]
pub struct Found<'a, T> {
    pub value: &'a T,
    candidate: &'a Candidate<T>,
}

impl<'a, T> Found<'a, T> {
    /// Path pattern that matched, as written.
    pub fn uri(&self) -> &'a str {
        self.candidate.uri()
    }

    /// Indexes of the path and host patterns that matched. The host is `None` if hosts are a
    /// condition instead of a level, or if the route has none. Read without following a pointer.
    #[inline]
    pub fn pattern_indexes(&self) -> (usize, Option<usize>) {
        (self.candidate.uri as usize, self.candidate.host.map(|host| host as usize))
    }

    /// Host pattern that matched, as written; `None` if the route has no hosts.
    pub fn host(&self, request: &MatchRequest<'_>) -> Option<&'a str> {
        let hosts = &self.candidate.origin.spec.hosts;
        let host = match self.candidate.host {
            Some(index) => hosts.get(index as usize),
            None => hosts.iter().find(|host| HostPattern::parse(host).matches(request)),
        };
        host.map(String::as_str)
    }
}

impl<T> Clone for Router<T> {
    fn clone(&self) -> Self {
        Self {
            mode: self.mode,
            origins: self.origins.clone(),
            levels: self.levels.clone(),
            exact: self.exact.clone(),
            next_sequence: self.next_sequence,
        }
    }
}

impl<T> Router<T> {
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            origins: CowMap::new(),
            levels: Levels::new(),
            exact: ExactTable::new(),
            next_sequence: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.origins.len()
    }

    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    pub fn get(&self, id: &Id) -> Option<&T> {
        self.origins.get(id).map(|origin| &origin.value)
    }

    /// Values of all routes, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.origins.values().map(|origin| &origin.value)
    }

    /// Finds the route of `request`; `captures` then contains the captures of its pattern.
    /// Allocates only if a request has more captures or nested prefixes than any before.
    #[inline]
    pub fn find<'a>(
        &'a self,
        request: &MatchRequest<'_>,
        captures: &mut Captures,
    ) -> Option<Found<'a, T>> {
        self.walk(request, |candidate| {
            let is_taken = candidate.admits(request, captures);
            is_taken.then_some(Found { value: &candidate.value, candidate })
        })
    }

    /// Calls `visit` with each candidate in the order of precedence, until it returns a value.
    #[inline]
    pub(crate) fn walk<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        mut visit: impl FnMut(&'a Candidate<T>) -> Option<R>,
    ) -> Option<R> {
        self.levels.walk(request, |level| self.walk_level(level, request, &mut visit))
    }

    #[inline]
    fn walk_level<'a, R>(
        &'a self,
        level: &'a Level<T>,
        request: &MatchRequest<'_>,
        visit: &mut impl FnMut(&'a Candidate<T>) -> Option<R>,
    ) -> Option<R> {
        if level.exact_paths > 0 {
            let candidates = self.exact.get(level.number, request.path);
            let found = candidates.iter().find_map(&mut *visit);
            if found.is_some() {
                return found;
            }
        }
        if level.tree.is_empty() {
            return None;
        }
        let mut prefixes = Prefixes::new();
        level.tree.prefixes_of(request.path, &mut prefixes);
        // The longest prefix was found last and is the most specific.
        while let Some(bucket) = prefixes.pop() {
            let found = bucket.candidates().iter().find_map(&mut *visit);
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

impl<T: Clone> Router<T> {
    /// Inserts a route, or replaces it at its place in the order of insertion.
    pub fn insert(&mut self, id: &Id, spec: RouteSpec, value: T) {
        let sequence = match self.origins.get(id).cloned() {
            // A replaced route keeps its place among otherwise equal routes.
            Some(previous) => {
                self.unlink(&previous);
                previous.sequence
            }
            None => {
                self.next_sequence += 1;
                self.next_sequence
            }
        };
        let origin = Arc::new(Origin { id: id.clone(), spec, value, sequence });
        self.link(&origin);
        self.origins.insert(id.clone(), origin);
    }

    /// Removes a route; returns `false` if it did not exist.
    pub fn remove(&mut self, id: &Id) -> bool {
        let Some(origin) = self.origins.remove(id) else { return false };
        self.unlink(&origin);
        true
    }

    fn link(&mut self, origin: &Arc<Origin<T>>) {
        // Compiled once and shared by all hosts and paths of the route.
        let conditions = Conditions::compile(&origin.spec, self.mode).map(Arc::new);
        let patterns = self.patterns(&origin.spec);
        for host in self.hosts(&origin.spec) {
            let name = host.map(|index| origin.spec.hosts[index].as_str());
            let exact = &mut self.exact;
            self.levels.update(name, |level| {
                for (uri, pattern) in patterns.iter().enumerate() {
                    let candidate = Candidate {
                        value: origin.value.clone(),
                        conditions: conditions.clone(),
                        rest: pattern.rest.clone(),
                        origin: Arc::clone(origin),
                        uri: index(uri),
                        host: host.map(index),
                    };
                    match &pattern.key {
                        Key::Exact(path) => {
                            let effect = exact.insert(level.number, path, candidate);
                            level.exact_paths += usize::from(effect == Effect::PathsChanged);
                        }
                        Key::Prefix(prefix) => level.tree.insert(prefix, candidate),
                    }
                }
            });
        }
    }

    fn unlink(&mut self, origin: &Origin<T>) {
        let patterns = self.patterns(&origin.spec);
        for host in self.hosts(&origin.spec) {
            let name = host.map(|index| origin.spec.hosts[index].as_str());
            let exact = &mut self.exact;
            self.levels.update(name, |level| {
                for pattern in &patterns {
                    match &pattern.key {
                        Key::Exact(path) => {
                            let effect = exact.remove(level.number, path, origin.sequence);
                            level.exact_paths -= usize::from(effect == Effect::PathsChanged);
                        }
                        Key::Prefix(prefix) => level.tree.remove(prefix, origin.sequence),
                    }
                }
            });
        }
    }

    fn patterns(&self, spec: &RouteSpec) -> Vec<Pattern> {
        let parameters = match self.mode {
            Mode::UriWithParameter => Parameters::On,
            Mode::HostUri | Mode::Uri => Parameters::Off,
        };
        spec.uris.iter().map(|uri| Pattern::parse(uri, parameters)).collect()
    }

    /// Levels of a route, each once: the indexes of its hosts, or `None` for the level without
    /// hosts.
    fn hosts(&self, spec: &RouteSpec) -> Vec<Option<usize>> {
        if self.mode != Mode::HostUri || spec.hosts.is_empty() {
            return vec![None];
        }
        let mut indexes: Vec<usize> = (0..spec.hosts.len()).collect();
        indexes.sort_by_key(|index| &spec.hosts[*index]);
        indexes.dedup_by_key(|index| &spec.hosts[*index]);
        indexes.into_iter().map(Some).collect()
    }
}

/// Index as stored in a candidate. The lists of a route are limited by the size of a document, far
/// below 2^32.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
