//! Policies of a caller, by which calls are decided.

use std::iter;
use std::sync::Arc;

use super::State;
use crate::identity::{Attempt, IdentityKind, Policy, Principal, ResourceKind, Verdict, decide};

impl State {
    /// Decides about a call of a user or group.
    pub fn decide(&self, principal: &Principal, attempt: &Attempt<'_>) -> Verdict {
        decide(&self.policies_for(principal), attempt)
    }

    /// Whether a policy allows a function on objects of the gateway with certain labels.
    pub fn may_by_labels(&self, principal: &Principal, function: &str) -> bool {
        let mut policies = self.policies_for(principal);
        policies.any(|policy| policy.allows_labelled(function))
    }

    /// Whether a policy denies a function on some objects of a kind: such calls must name their
    /// objects.
    pub fn denies_some(&self, principal: &Principal, function: &str, kind: ResourceKind) -> bool {
        let mut policies = self.policies_for(principal);
        policies.any(|policy| policy.denies_some(function, kind))
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
