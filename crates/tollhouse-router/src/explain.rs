//! Why a request takes the route it takes: every candidate in the order tried, and what it lost by.

use tollhouse_model::Id;

use crate::entry::MatchRequest;
use crate::pattern::Captures;
use crate::router::Router;

/// Which condition a candidate failed; conditions are checked in this order.
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
    /// It might have matched, but an earlier candidate had won.
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

/// What became of one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The route.
    pub id: Id,
    /// The pattern that made it a candidate.
    pub uri: String,
    /// The hosts it is bound to.
    pub hosts: Vec<String>,
    /// Its priority.
    pub priority: i64,
    /// Why it lost; `None` for the winner.
    pub loss: Option<Loss>,
}

impl<T> Router<T> {
    /// Every route whose host and path could match, in the order tried.
    pub fn explain(&self, request: &MatchRequest<'_>) -> Vec<Verdict> {
        let mut verdicts: Vec<Verdict> = Vec::new();
        let mut captures = Captures::default();
        let mut won = false;
        self.visit(request, |candidate| {
            captures.clear();
            let loss = match candidate.check(request, &mut captures) {
                Err(loss) => Some(loss),
                Ok(()) if won => Some(Loss::Later),
                Ok(()) => None,
            };
            won |= loss.is_none();
            verdicts.push(Verdict {
                id: candidate.entry.id.clone(),
                uri: candidate.pattern().text().to_owned(),
                hosts: candidate.entry.spec.hosts.clone(),
                priority: candidate.entry.spec.priority,
                loss,
            });
            None::<()>
        });
        verdicts
    }
}
