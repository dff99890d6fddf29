//! The routes that come closest to a request that no route matches.

use std::fmt::Write;

use tollhouse_model::Id;
use tollhouse_proxy::Snapshot;
use tollhouse_router::Loss;
use tollhouse_stdx::nearest as most_alike;

use super::super::{Candidate, Question, candidates, candidates_at, loss, lossy};

/// Maximum number of routes listed.
const ROUTES_SHOWN_MAX: usize = 5;

/// Maximum number of path patterns that are compared with the request path to find a misspelling.
/// The cost of a comparison is quadratic in their length.
const PATTERNS_COMPARED_MAX: usize = 10_000;

/// Longest request path, in bytes, that is compared with patterns.
const PATH_COMPARED_MAX: usize = 256;

/// Routes among which the nearest is sought.
#[derive(Debug, Clone, Copy)]
pub struct Nearby<'a> {
    pub snapshot: &'a Snapshot,
    /// Ids of routes in the order in which they are listed.
    pub routes: &'a [Id],
    /// Disabled routes that the snapshot has all the same.
    pub switched_off: &'a [Id],
}

impl<'a> Nearby<'a> {
    /// Path patterns of all routes, with their route.
    fn patterns(&self) -> impl Iterator<Item = (&'a Id, &'a str)> {
        let entries = self.routes.iter().filter_map(|id| self.snapshot.router.get(id));
        entries.flat_map(|entry| entry.route.uris.iter().map(|uri| (&entry.route.id, uri.as_str())))
    }
}

/// Formats the nearest routes, and the condition that each fails.
pub fn nearest(everything: &Nearby<'_>, question: &Question) -> String {
    let mut near = candidates(everything.snapshot, question);
    if near.is_empty() {
        return other_path(everything, question);
    }
    // The sort is stable, so that equal routes keep the order in which they are tried.
    near.sort_by_key(|candidate| distance(everything, candidate));
    let mut text = String::from("\nnearest\n");
    for candidate in near.iter().take(ROUTES_SHOWN_MAX) {
        let verdict = &candidate.verdict;
        let why = if is_switched_off(everything, &verdict.id) && is_held_back_by_nothing(candidate)
        {
            "it is switched off (status: 0)".to_owned()
        } else {
            loss(candidate)
        };
        line(&mut text, &format!("  {}  {}  {why}", verdict.id, verdict.uri));
    }
    if let Some(more @ 1..) = near.len().checked_sub(ROUTES_SHOWN_MAX) {
        line(&mut text, &format!("  and {more} more"));
    }
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

fn is_switched_off(everything: &Nearby<'_>, id: &Id) -> bool {
    everything.switched_off.contains(id)
}

fn is_held_back_by_nothing(candidate: &Candidate) -> bool {
    matches!(candidate.verdict.loss, None | Some(Loss::Later))
}

/// Returns how far a candidate is from a match; 0 if only an earlier route prevents it. Conditions
/// are checked in a fixed order, so that a candidate that fails a later one is nearer.
fn distance(everything: &Nearby<'_>, candidate: &Candidate) -> u8 {
    let own = match candidate.verdict.loss {
        None | Some(Loss::Later) => 0,
        Some(Loss::Path | Loss::Filter) => 1,
        Some(Loss::Vars) => 2,
        Some(Loss::Host) => 3,
        Some(Loss::RemoteAddr) => 4,
        Some(Loss::Method) => 5,
    };
    let switched_off = is_switched_off(everything, &candidate.verdict.id) && own > 0;
    if switched_off { own + 6 } else { own }
}

/// Formats a route whose path differs by a final slash or by spelling, if no route has this path.
fn other_path(everything: &Nearby<'_>, question: &Question) -> String {
    let mut toggled = question.path.clone();
    if toggled.len() > 1 && toggled.ends_with(b"/") {
        toggled.pop();
    } else {
        toggled.push(b'/');
    }
    let mut text = String::from("\nnearest\n");
    if let Some(candidate) = candidates_at(everything.snapshot, question, &toggled).first() {
        let id = &candidate.verdict.id;
        let path = lossy(&toggled);
        line(&mut text, &format!("  {id} would take {path}: a last slash makes another path"));
        return text;
    }
    let patterns = everything.patterns().take(PATTERNS_COMPARED_MAX);
    let path = Some(lossy(&question.path)).filter(|path| path.len() <= PATH_COMPARED_MAX);
    match path.and_then(|path| most_alike(&path, patterns.map(|(_, uri)| uri))) {
        Some(uri) => {
            let owner = everything.patterns().find(|(_, known)| *known == uri);
            let id = owner.map(|(id, _)| id.as_str()).unwrap_or_default();
            line(&mut text, &format!("  {id}  {uri}  has a similar spelling"));
        }
        None => line(&mut text, "  nothing: no route has a path like it"),
    }
    text
}
