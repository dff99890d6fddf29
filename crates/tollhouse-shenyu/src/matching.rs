//! Choice of the selector and rule of each plugin that apply to a request, with explanations.
//!
//! Conditions are compiled when objects are loaded ([`Engine::build`]). A request then costs time
//! proportional to its path length, plus the conditions of the few objects that the index finds for
//! its path. Objects without a condition on the path are tried one by one, best first. The index
//! only proposes candidates. Each is then checked completely, so that the outcome equals that of a
//! full search.

mod condition;
mod engine;
mod explain;
mod index;
mod ranked;
mod request;
mod role;
mod rpc_type;

use std::borrow::Cow;

pub use condition::ConditionError;
pub use engine::{Engine, Objects, Outcome, Problem, Ranks, RuleChoice};
pub use explain::{Candidate, Explanation, Standing};
pub use request::{CivilTime, Request};
pub use role::{OnFault, Role, Roles};
pub use rpc_type::{RpcDecision, RpcType, UnknownRpcType};

/// Collapses repeated slashes in a path. Allocates only if there are any.
pub(crate) fn collapse_slashes(path: &str) -> Cow<'_, str> {
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let mut collapsed = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !collapsed.ends_with('/') {
            collapsed.push(character);
        }
    }
    Cow::Owned(collapsed)
}

#[cfg(test)]
mod tests;
