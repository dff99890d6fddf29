//! Owners of stored answers: the users that a key distinguishes, and the other clients that may get
//! an answer.

use tollhouse_plugin::identity::{KeyParts, Unexplained};
use tollhouse_plugin::{RequestContext, ResponseContext};

use super::directives::Directives;
use super::key::Parts;

/// Separation of the answers of different users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Each identity has separate answers.
    ByIdentity,
    /// The operator declares that answers are equal for all clients that may use the route.
    None,
}

/// Owner of an answer that may be stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    unexplained: Unexplained,
    /// Identities that were known when the key was made.
    identities: usize,
}

impl Isolation {
    /// Begins a key with the identities of the request, if users have separate answers.
    pub fn write_owner(self, cx: &RequestContext<'_>, key: &mut Vec<u8>) {
        if self == Self::None {
            return;
        }
        let starts = key.len();
        cx.write_identities(key);
        // Every identity begins with its length, so that it cannot be mistaken for the next part.
        if key.len() > starts {
            key.push(0);
        }
    }

    /// Returns the owner of the answer to a request whose key has these parts.
    pub fn owner(self, cx: &RequestContext<'_>, parts: &Parts) -> Owner {
        let identities = self == Self::ByIdentity;
        let key = KeyParts {
            identities,
            authorization: parts.names_authorization(),
            cookie: parts.names_cookie() || !identities,
        };
        let unexplained = cx.unexplained(key);
        let decision = unexplained.decision && identities;
        Owner {
            unexplained: Unexplained { decision, ..unexplained },
            identities: cx.exchange().edits().identities.len(),
        }
    }
}

impl Owner {
    /// Whether the answer is for one client, unless its header permits sharing.
    pub fn is_personal(self) -> bool {
        let Unexplained { authorization, cookie, decision } = self.unexplained;
        authorization || cookie || decision
    }

    /// Whether the answer may be given to all clients whose requests have an equal key; `vary` has
    /// the request headers whose values the cache compares.
    pub fn shares(
        self,
        cx: &ResponseContext<'_>,
        directives: &Directives<'_>,
        vary: &[String],
    ) -> bool {
        // An identity that was noted later is not in the key.
        let is_same_user = cx.request().edits().identities.len() == self.identities;
        let varies = |name: &str| vary.iter().any(|other| other == name);
        is_same_user && self.unexplained.may_be_shared(|name| directives.has(name), varies)
    }
}
