//! The matcher: exact paths in one table, patterns in one tree a host level.

use std::sync::Arc;

use tollhouse_model::Id;
use tollhouse_stdx::{CowMap, CowVec, Equivalent};

use crate::entry::{Candidate, Entry, MatchRequest, RouteSpec};
use crate::levels::{Level, Levels, NO_HOST};
use crate::pattern::{Captures, Key, Parameters, Pattern};
use crate::tree::{Candidates, Node};

/// How routes are looked up (`apisix.router.http`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Host first, then path: `radixtree_host_uri`.
    #[default]
    HostUri,
    /// Path; the host is a condition: `radixtree_uri`.
    Uri,
    /// As `Uri`, with `:name` for a segment: `radixtree_uri_with_parameter`.
    UriWithParameter,
}

/// An immutable matcher; a clone shares everything with its original until one of them changes.
#[derive(Debug)]
pub struct Router<T> {
    mode: Mode,
    entries: CowMap<Id, Arc<Entry<T>>>,
    levels: Levels,
    exact: CowMap<ExactKey, Candidates<T>>,
    trees: CowVec<LevelTree<T>>,
    free_levels: Vec<Level>,
    next_sequence: u64,
}

/// The patterns of one host level.
#[derive(Debug)]
struct LevelTree<T> {
    root: Node<T>,
    /// Candidates of this level, exact ones included.
    used: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExactKey {
    level: Level,
    path: Box<[u8]>,
}

#[derive(Hash)]
struct ExactRef<'a> {
    level: Level,
    path: &'a [u8],
}

impl Equivalent<ExactKey> for ExactRef<'_> {
    #[inline]
    fn equivalent(&self, key: &ExactKey) -> bool {
        self.level == key.level && *self.path == *key.path
    }
}

/// A route that was found.
#[derive(Debug)]
pub struct Found<'a, T> {
    /// What was put in for the route.
    pub value: &'a T,
    /// The pattern that matched, as written.
    pub uri: &'a str,
}

impl<T> Clone for Router<T> {
    fn clone(&self) -> Self {
        Self {
            mode: self.mode,
            entries: self.entries.clone(),
            levels: self.levels.clone(),
            exact: self.exact.clone(),
            trees: self.trees.clone(),
            free_levels: self.free_levels.clone(),
            next_sequence: self.next_sequence,
        }
    }
}

impl<T> Clone for LevelTree<T> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), used: self.used }
    }
}

impl<T> Default for LevelTree<T> {
    fn default() -> Self {
        Self { root: Node::default(), used: 0 }
    }
}

impl<T> Router<T> {
    /// Without routes.
    pub fn new(mode: Mode) -> Self {
        let mut trees = CowVec::new();
        trees.push(LevelTree::default());
        Self {
            mode,
            entries: CowMap::new(),
            levels: Levels::default(),
            exact: CowMap::new(),
            trees,
            free_levels: Vec::new(),
            next_sequence: 0,
        }
    }

    /// How many routes it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What was put in for the route `id`.
    pub fn get(&self, id: &Id) -> Option<&T> {
        self.entries.get(id).map(|entry| &entry.value)
    }

    /// The route that `request` takes. Allocates nothing for ordinary trees and patterns.
    #[inline]
    pub fn find<'a>(
        &'a self,
        request: &MatchRequest<'_>,
        captures: &mut Captures,
    ) -> Option<Found<'a, T>> {
        self.visit(request, |candidate| {
            captures.clear();
            candidate.check(request, captures).ok()?;
            Some(Found { value: &candidate.entry.value, uri: candidate.pattern().text() })
        })
    }

    /// Shows candidates in the order they are tried until `accept` takes one.
    #[inline]
    pub(crate) fn visit<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        mut accept: impl FnMut(&'a Candidate<T>) -> Option<R>,
    ) -> Option<R> {
        for level in self.levels.of(request) {
            let key = ExactRef { level, path: request.path };
            if let Some(candidates) = self.exact.get(&key) {
                if let Some(found) = candidates.iter().find_map(&mut accept) {
                    return Some(found);
                }
            }
            let Some(tree) = self.trees.get(level) else { continue };
            for candidates in tree.root.find(request.path) {
                if let Some(found) = candidates.iter().find_map(&mut accept) {
                    return Some(found);
                }
            }
        }
        None
    }
}

impl<T: Clone> Router<T> {
    /// Puts a route in, or replaces it at its place in the order of insertion.
    pub fn insert(&mut self, id: &Id, spec: RouteSpec, value: T) {
        let sequence = match self.entries.get(id).cloned() {
            Some(previous) => {
                self.unlink(&previous);
                previous.sequence
            }
            None => {
                self.next_sequence += 1;
                self.next_sequence
            }
        };
        let parameters = match self.mode {
            Mode::UriWithParameter => Parameters::On,
            Mode::HostUri | Mode::Uri => Parameters::Off,
        };
        let entry = Arc::new(Entry {
            id: id.clone(),
            patterns: spec.uris.iter().map(|uri| Pattern::parse(uri, parameters)).collect(),
            checks_host: self.mode != Mode::HostUri && !spec.hosts.is_empty(),
            spec,
            value,
            sequence,
        });
        self.link(&entry);
        self.entries.insert(id.clone(), entry);
    }

    /// Takes a route out; `false` when there was none.
    pub fn remove(&mut self, id: &Id) -> bool {
        let Some(entry) = self.entries.remove(id) else { return false };
        self.unlink(&entry);
        true
    }

    fn link(&mut self, entry: &Arc<Entry<T>>) {
        for host in self.host_keys(entry) {
            let level = self.level_for(host.as_deref());
            for pattern in 0..entry.patterns.len() {
                let candidate = Candidate { entry: Arc::clone(entry), pattern };
                self.update_key(level, entry.patterns[pattern].key(), |held| {
                    Some(with(held, candidate))
                });
            }
            self.trees.update(level, |tree| tree.used += entry.patterns.len());
        }
    }

    fn unlink(&mut self, entry: &Arc<Entry<T>>) {
        for host in self.host_keys(entry) {
            let Some(level) = host.as_deref().map_or(Some(NO_HOST), |host| self.levels.get(host))
            else {
                continue;
            };
            for pattern in &entry.patterns {
                self.update_key(level, pattern.key(), |held| without(held, entry));
            }
            let unused = self.trees.update(level, |tree| {
                tree.used -= entry.patterns.len();
                tree.used == 0
            });
            if let (Some(host), Some(true)) = (host.as_deref(), unused) {
                self.levels.remove(host);
                self.free_levels.push(level);
            }
        }
    }

    /// The host patterns that lead to the route; `None` stands for no host. Each once.
    fn host_keys(&self, entry: &Entry<T>) -> Vec<Option<String>> {
        if self.mode != Mode::HostUri || entry.spec.hosts.is_empty() {
            return vec![None];
        }
        let mut hosts = entry.spec.hosts.clone();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.into_iter().map(Some).collect()
    }

    fn level_for(&mut self, host: Option<&str>) -> Level {
        let Some(host) = host else { return NO_HOST };
        if let Some(level) = self.levels.get(host) {
            return level;
        }
        let level = self.free_levels.pop().unwrap_or_else(|| self.trees.push(LevelTree::default()));
        self.levels.insert(host, level);
        level
    }

    fn update_key(
        &mut self,
        level: Level,
        key: &Key,
        change: impl FnOnce(Option<&Candidates<T>>) -> Option<Candidates<T>>,
    ) {
        match key {
            Key::Exact(path) => {
                let held = self.exact.get(&ExactRef { level, path });
                match change(held) {
                    Some(next) => {
                        self.exact.insert(ExactKey { level, path: path.clone() }, next);
                    }
                    None => {
                        self.exact.remove(&ExactRef { level, path });
                    }
                }
            }
            Key::Prefix(prefix) => {
                self.trees.update(level, |tree| tree.root.update(prefix, change));
            }
        }
    }
}

/// `held` and one more, in the order they are tried.
fn with<T>(held: Option<&Candidates<T>>, candidate: Candidate<T>) -> Candidates<T> {
    let held = held.map(|held| &**held).unwrap_or_default();
    let at = held.partition_point(|other| other.order(&candidate).is_lt());
    let mut next = Vec::with_capacity(held.len() + 1);
    next.extend_from_slice(&held[..at]);
    next.push(candidate);
    next.extend_from_slice(&held[at..]);
    next.into()
}

/// `held` without any of `entry`; `None` when nothing is left.
fn without<T>(held: Option<&Candidates<T>>, entry: &Arc<Entry<T>>) -> Option<Candidates<T>> {
    let kept: Vec<Candidate<T>> =
        held?.iter().filter(|other| !Arc::ptr_eq(&other.entry, entry)).cloned().collect();
    (!kept.is_empty()).then(|| kept.into())
}

#[cfg(test)]
mod tests;
