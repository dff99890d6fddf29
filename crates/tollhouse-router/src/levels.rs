//! Host levels: the sets of routes that a host selects, most specific first.

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::host::{HostPattern, Port, Shape};
use crate::spec::MatchRequest;
use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// Number of the level of routes without a host.
const NO_HOST: u64 = 0;

/// All routes that share one host pattern, or that have none.
#[derive(Debug)]
pub(crate) struct Level<T> {
    /// Part of the key in the table of exact paths; never reused for another level.
    pub(crate) number: u64,
    /// Number of exact paths; a level without any needs no look-up.
    pub(crate) exact_paths: usize,
    pub(crate) tree: Tree<T>,
}

/// All host levels. A clone costs a few reference counts.
#[derive(Debug)]
pub(crate) struct Levels<T> {
    no_host: Level<T>,
    exact: CowMap<Arc<[u8]>, Level<T>>,
    /// Suffix levels by the text after the `*`.
    suffixes: CowMap<Arc<[u8]>, Level<T>>,
    /// Lengths of the suffixes in use; only these are looked up.
    lengths: Arc<[SuffixLength]>,
    next_number: u64,
}

/// Number of suffixes of one length; ordered by decreasing length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SuffixLength {
    bytes: usize,
    suffixes: usize,
    /// Number of those that do not begin with a dot or contain a port.
    unusual: usize,
}

impl<T> Clone for Level<T> {
    fn clone(&self) -> Self {
        Self { number: self.number, exact_paths: self.exact_paths, tree: self.tree.clone() }
    }
}

impl<T> Clone for Levels<T> {
    fn clone(&self) -> Self {
        Self {
            no_host: self.no_host.clone(),
            exact: self.exact.clone(),
            suffixes: self.suffixes.clone(),
            lengths: Arc::clone(&self.lengths),
            next_number: self.next_number,
        }
    }
}

impl<T> Level<T> {
    fn new(number: u64) -> Self {
        Self { number, exact_paths: 0, tree: Tree::default() }
    }

    fn is_empty(&self) -> bool {
        self.exact_paths == 0 && self.tree.is_empty()
    }
}

impl<T> Levels<T> {
    pub(crate) fn new() -> Self {
        Self {
            no_host: Level::new(NO_HOST),
            exact: CowMap::new(),
            suffixes: CowMap::new(),
            lengths: Arc::new([]),
            next_number: NO_HOST + 1,
        }
    }

    /// Calls `visit` with each level that the request's host selects, until it returns a value.
    #[inline]
    pub(crate) fn walk<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        mut visit: impl FnMut(&'a Level<T>) -> Option<R>,
    ) -> Option<R> {
        if !self.exact.is_empty() {
            let has_port = request.host_with_port.len() != request.host.len();
            let with_port = has_port.then(|| self.exact.get(request.host_with_port)).flatten();
            let found = with_port.and_then(&mut visit);
            let found = found.or_else(|| self.exact.get(request.host).and_then(&mut visit));
            if found.is_some() {
                return found;
            }
        }
        if !self.lengths.is_empty() {
            let found = self.walk_suffixes(request, &mut visit);
            if found.is_some() {
                return found;
            }
        }
        visit(&self.no_host)
    }

    fn walk_suffixes<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        visit: &mut impl FnMut(&'a Level<T>) -> Option<R>,
    ) -> Option<R> {
        let has_port = request.host_with_port.len() != request.host.len();
        self.lengths.iter().find_map(|length| {
            let with_port = (has_port && length.unusual > 0)
                .then(|| self.suffix_level(request.host_with_port, length, Port::Compared))
                .flatten();
            let found = with_port.and_then(&mut *visit);
            let without_port = || self.suffix_level(request.host, length, Port::Ignored);
            found.or_else(|| without_port().and_then(&mut *visit))
        })
    }

    fn suffix_level(&self, host: &[u8], length: &SuffixLength, port: Port) -> Option<&Level<T>> {
        let start = host.len().checked_sub(length.bytes)?;
        let suffix = &host[start..];
        // Nearly all suffixes begin with a dot, and few hosts have a dot at the right place.
        let is_possible = length.unusual > 0 || suffix.first() == Some(&b'.');
        // A suffix without a port is not compared with a host that has one.
        let is_meant = || port == Port::Ignored || Port::in_pattern(suffix) == port;
        (is_possible && is_meant()).then(|| self.suffixes.get(suffix)).flatten()
    }
}

impl<T: Clone> Levels<T> {
    /// Changes the level of `host`. The level is created if needed, and removed if it is left
    /// empty.
    pub(crate) fn update(&mut self, host: Option<&str>, change: impl FnOnce(&mut Level<T>)) {
        let Some(host) = host else { return change(&mut self.no_host) };
        let pattern = HostPattern::parse(host);
        let map = match pattern.shape {
            Shape::Exact => &mut self.exact,
            Shape::Suffix => &mut self.suffixes,
        };
        if !map.contains_key(pattern.text) {
            map.insert(pattern.text.into(), Level::new(self.next_number));
            self.next_number += 1;
            self.count_suffix(&pattern, Counting::Up);
        }
        let map = match pattern.shape {
            Shape::Exact => &mut self.exact,
            Shape::Suffix => &mut self.suffixes,
        };
        let is_left_empty = map.update(pattern.text, |level| {
            change(level);
            level.is_empty()
        });
        if is_left_empty == Some(true) {
            map.remove(pattern.text);
            self.count_suffix(&pattern, Counting::Down);
        }
    }

    fn count_suffix(&mut self, pattern: &HostPattern<'_>, counting: Counting) {
        if pattern.shape == Shape::Exact {
            return;
        }
        let bytes = pattern.text.len();
        // Ordinary suffixes begin with a dot and have no port, so one byte excludes most hosts.
        // While an unusual suffix of that length exists, every host is looked up, with and without
        // its port.
        let is_unusual = pattern.port == Port::Compared || pattern.text.first() != Some(&b'.');
        let mut lengths = self.lengths.to_vec();
        let found = lengths.binary_search_by(|held| bytes.cmp(&held.bytes));
        let index = found.unwrap_or_else(|index| {
            lengths.insert(index, SuffixLength { bytes, suffixes: 0, unusual: 0 });
            index
        });
        let length = &mut lengths[index];
        match counting {
            Counting::Up => {
                length.suffixes += 1;
                length.unusual += usize::from(is_unusual);
            }
            Counting::Down => {
                length.suffixes -= 1;
                length.unusual -= usize::from(is_unusual);
            }
        }
        lengths.retain(|length| length.suffixes > 0);
        self.lengths = lengths.into();
    }
}

#[derive(Debug, Clone, Copy)]
enum Counting {
    Up,
    Down,
}
