//! Policies of a caller, by which calls are decided.

use std::iter;
use std::sync::Arc;

use super::State;
use crate::identity::{Attempt, IdentityKind, Policy, Principal, Verdict, decide};

impl State {
    /// Decides about a call of a user or group.
    pub fn decide(&self, principal: &Principal, attempt: &Attempt<'_>) -> Verdict {
        decide(&self.policies_for(principal), attempt)
    }

    /// Iterates over the policies of a principal, of its groups, and of its and their roles.
    fn policies_for(&self, principal: &Principal) -> impl Iterator<Item = &Policy> + Clone {
        let memberships = self.memberships_of(principal).iter();
        let inherited = memberships.flat_map(move |membership| {
            let roles = match membership.kind {
                IdentityKind::Group => self.memberships_of(membership),
                _ => &[],
            };
            iter::once(membership).chain(roles).flat_map(move |it| self.policies_of(it))
        });
        self.policies_of(principal).iter().chain(inherited).map(Arc::as_ref)
    }
}
