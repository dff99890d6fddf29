//! A matcher that looks at every route each time: the rules of choice, written as one sort key.

use std::cmp::Reverse;

use crate::spec::{MatchRequest, Mode, RouteSpec};

#[derive(Debug, Clone)]
pub(super) struct Naive {
    mode: Mode,
    /// In the order of insertion.
    routes: Vec<(u8, RouteSpec)>,
}

/// Class of the host level, its suffix's length, whether it has no port.
type LevelKey = (u8, Reverse<usize>, bool);

impl Naive {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, routes: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn insert(&mut self, number: u8, spec: RouteSpec) {
        match self.routes.iter_mut().find(|(known, _)| *known == number) {
            Some((_, held)) => *held = spec,
            None => self.routes.push((number, spec)),
        }
    }

    pub(super) fn remove(&mut self, number: u8) -> bool {
        let before = self.routes.len();
        self.routes.retain(|(known, _)| *known != number);
        self.routes.len() < before
    }

    /// Id and pattern of everything to be tried, in order.
    pub(super) fn candidates(&self, request: &MatchRequest<'_>) -> Vec<(String, &str)> {
        let sorted = self.sorted(request).into_iter();
        sorted.map(|(number, _, uri)| (number.to_string(), uri)).collect()
    }

    pub(super) fn find(&self, request: &MatchRequest<'_>) -> Option<(u8, &str)> {
        let mut sorted = self.sorted(request).into_iter();
        let path = std::str::from_utf8(request.path).unwrap();
        let taken = sorted.find(|(_, spec, uri)| {
            spec.methods.is_none_or(|methods| methods.contains(request.method))
                && (spec.remote_addrs.is_empty()
                    || spec.remote_addrs.iter().any(|net| net.contains(&request.remote_addr)))
                && (self.mode == Mode::HostUri
                    || spec.hosts.is_empty()
                    || spec.hosts.iter().any(|host| level_of(host, request).is_some()))
                && spec.vars.as_ref().is_none_or(|vars| vars.matches(request.variables))
                && matches(uri, path, self.mode)
        });
        taken.map(|(number, _, uri)| (number, uri))
    }

    fn sorted(&self, request: &MatchRequest<'_>) -> Vec<(u8, &RouteSpec, &str)> {
        let path = std::str::from_utf8(request.path).unwrap();
        let mut keyed = Vec::new();
        for (place, (number, spec)) in self.routes.iter().enumerate() {
            for level in self.levels_of(spec, request) {
                for (index, uri) in spec.uris.iter().enumerate() {
                    let Some(by_path) = path_key(uri, path, self.mode) else { continue };
                    let by_priority = (Reverse(spec.priority), Reverse(uri.len()), place, index);
                    keyed.push(((level, by_path, by_priority), (*number, spec, uri.as_str())));
                }
            }
        }
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, candidate)| candidate).collect()
    }

    fn levels_of(&self, spec: &RouteSpec, request: &MatchRequest<'_>) -> Vec<LevelKey> {
        if self.mode != Mode::HostUri || spec.hosts.is_empty() {
            return vec![(9, Reverse(0), false)];
        }
        let mut hosts: Vec<&String> = spec.hosts.iter().collect();
        hosts.sort();
        hosts.dedup();
        hosts.into_iter().filter_map(|host| level_of(host, request)).collect()
    }
}

fn level_of(pattern: &str, request: &MatchRequest<'_>) -> Option<LevelKey> {
    let has_port = pattern.contains(':');
    let host = if has_port { request.host_with_port } else { request.host };
    match pattern.strip_prefix('*') {
        None => (host == pattern.as_bytes()).then_some((0, Reverse(0), !has_port)),
        Some(suffix) => {
            host.ends_with(suffix.as_bytes()).then_some((1, Reverse(suffix.len()), !has_port))
        }
    }
}

/// Exact paths first, then longer prefixes; `None` when the key does not begin the path.
fn path_key(uri: &str, path: &str, mode: Mode) -> Option<(u8, Reverse<usize>)> {
    let specials: &[char] = if mode == Mode::UriWithParameter { &['*', ':'] } else { &['*'] };
    match uri.find(specials) {
        None => (uri == path).then_some((0, Reverse(0))),
        Some(at) => path.starts_with(&uri[..at]).then_some((1, Reverse(at))),
    }
}

/// Whether `uri` takes the whole of `path`, by trying every length of every star.
fn matches(uri: &str, path: &str, mode: Mode) -> bool {
    takes(uri, path, mode, true)
}

fn takes(uri: &str, path: &str, mode: Mode, starts_segment: bool) -> bool {
    let Some(letter) = uri.chars().next() else { return path.is_empty() };
    let after = &uri[1..];
    if letter == '*' {
        // `*n` is a named star at the start of a segment; no other names are used here.
        let after = if starts_segment { after.strip_prefix('n').unwrap_or(after) } else { after };
        return (0..=path.len()).any(|length| takes(after, &path[length..], mode, false));
    }
    if letter == ':' && starts_segment && mode == Mode::UriWithParameter {
        let name = after.find('/').unwrap_or(after.len());
        let segment = path.find('/').unwrap_or(path.len());
        return segment > 0 && takes(&after[name..], &path[segment..], mode, false);
    }
    path.strip_prefix(letter).is_some_and(|path| takes(after, path, mode, letter == '/'))
}
