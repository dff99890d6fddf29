//! Explanation of a match: every candidate in the order tried, and why it lost.

use tollhouse_model::Id;

use crate::bucket::Candidate;
use crate::host::{HostPattern, Shape};
use crate::pattern::Rest;
use crate::router::Router;
use crate::spec::MatchRequest;

/// Why a candidate lost; conditions are checked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The method is not among the route's.
    Method,
    /// The client's address is in none of the route's networks.
    RemoteAddr,
    /// The host does not match the route's hosts.
    Host,
    Vars,
    /// The function of the route does not take the request.
    Filter,
    /// The rest of the pattern does not match the path.
    Path,
    /// All conditions hold, but an earlier candidate has won.
    Later,
}

impl Loss {
    /// Returns the reason as a phrase for operators.
    pub fn text(self) -> &'static str {
        match self {
            Loss::Method => "the method is not among the route's",
            Loss::RemoteAddr => "the client's address is in none of the route's networks",
            Loss::Host => "the host is not among the route's",
            Loss::Vars => "the vars do not hold",
            Loss::Filter => "filter_func does not take the request",
            Loss::Path => "the pattern does not match the whole path",
            Loss::Later => "an earlier candidate had won",
        }
    }
}

/// Host level at which a candidate was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLevel {
    /// Routes with exactly the requested host.
    Exact,
    /// Routes with a wildcard that matches the host.
    Wildcard,
    /// Routes without a host; in the modes without host levels, all routes.
    Any,
}

/// Way in which a candidate's pattern was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    ExactPath,
    /// The pattern's text before the first wildcard or parameter is a prefix of the path.
    Prefix,
}

/// Outcome of matching one candidate, for explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub id: Id,
    /// Pattern that made the route a candidate.
    pub uri: String,
    /// Host pattern under which it was tried; `None` at the level without hosts.
    pub host: Option<String>,
    /// Host level at which it was tried.
    pub level: HostLevel,
    pub found_by: FoundBy,
    pub priority: i64,
    /// Why it lost; `None` for the winner.
    pub loss: Option<Loss>,
}

impl<T> Router<T> {
    /// Returns every route whose host and path could match, in the order tried. At most one has no
    /// loss: the one that [`Router::find`] returns.
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
