//! Why a request takes the route it takes: every candidate in the order tried, and what it lost by.

use tollhouse_model::Id;

use crate::bucket::Candidate;
use crate::host::{HostPattern, Shape};
use crate::pattern::Rest;
use crate::router::Router;
use crate::spec::MatchRequest;

/// Why a candidate is not the answer; conditions are checked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The method is not among the route's.
    Method,
    /// The client's address is in none of the route's networks.
    RemoteAddr,
    /// The host is none of the route's.
    Host,
    /// The `vars` do not hold.
    Vars,
    /// The rest of the pattern does not match the path.
    Path,
    /// All of that holds, but an earlier candidate had won.
    Later,
}

impl Loss {
    /// The reason as a phrase.
    pub fn text(self) -> &'static str {
        match self {
            Loss::Method => "the method is not among the route's",
            Loss::RemoteAddr => "the client's address is in none of the route's networks",
            Loss::Host => "the host is none of the route's",
            Loss::Vars => "the vars do not hold",
            Loss::Path => "the pattern does not match the whole path",
            Loss::Later => "an earlier candidate had won",
        }
    }
}

/// The host level at which a candidate was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLevel {
    /// Routes of exactly this host.
    Exact,
    /// Routes of a wildcard host.
    Wildcard,
    /// Routes without a host; in the modes without host levels, all of them.
    Any,
}

/// How a candidate's pattern was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// It is the path itself.
    ExactPath,
    /// Its text before the first wildcard or parameter begins the path.
    Prefix,
}

/// What became of one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The route.
    pub id: Id,
    /// The pattern that made it a candidate.
    pub uri: String,
    /// The host pattern under which it was tried; `None` at the level of any host.
    pub host: Option<String>,
    /// The host level at which it was tried.
    pub level: HostLevel,
    /// How its pattern was found.
    pub found_by: FoundBy,
    /// Its priority.
    pub priority: i64,
    /// Why it lost; `None` for the winner.
    pub loss: Option<Loss>,
}

impl<T> Router<T> {
    /// Every route whose host and path could match, in the order tried. At most one has no loss:
    /// the one that [`Router::find`] returns.
    pub fn explain(&self, request: &MatchRequest<'_>) -> Vec<Verdict> {
        let mut verdicts: Vec<Verdict> = Vec::new();
        let mut has_won = false;
        self.walk(request, |candidate| {
            let loss = candidate.refusal(request).or(has_won.then_some(Loss::Later));
            has_won |= loss.is_none();
            verdicts.push(verdict(candidate, loss));
            None::<()>
        });
        verdicts
    }
}

fn verdict<T>(candidate: &Candidate<T>, loss: Option<Loss>) -> Verdict {
    let origin = &candidate.origin;
    let host = candidate.host.map(|index| origin.spec.hosts[index as usize].clone());
    let level = match host.as_deref().map(|host| HostPattern::parse(host).shape) {
        Some(Shape::Exact) => HostLevel::Exact,
        Some(Shape::Suffix) => HostLevel::Wildcard,
        None => HostLevel::Any,
    };
    let found_by = match candidate.rest {
        Rest::Nothing => FoundBy::ExactPath,
        Rest::Anything(_) | Rest::Wildcards(_) => FoundBy::Prefix,
    };
    Verdict {
        id: origin.id.clone(),
        uri: candidate.uri().to_owned(),
        host,
        level,
        found_by,
        priority: origin.spec.priority,
        loss,
    }
}
