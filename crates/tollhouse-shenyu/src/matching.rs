//! Which selector and which rule of each plugin take a request, and why.
//!
//! Everything is compiled when objects are loaded ([`Engine::build`]). A request then costs the length of its
//! path and what the few objects that its path leads to ask of it; objects whose conditions say nothing of
//! the path are tried one by one, best first. The index only proposes: what it finds is checked whole, so
//! that it answers what a search of everything would.

mod condition;
mod engine;
mod explain;
mod index;
mod order;
mod ranked;
mod request;
mod rpc_type;

use std::borrow::Cow;

pub use condition::ConditionError;
pub use engine::{Engine, Objects, Outcome, Problem, Ranks, RuleChoice};
pub use explain::{Candidate, Explanation, Standing};
pub use order::{DEFAULT_ORDER, PLUGIN_ORDER, built_in_order, protects};
pub use request::{CivilTime, Request};
pub use rpc_type::{RpcDecision, RpcType, UnknownRpcType};

/// The path with runs of slashes made one; allocates only where there are any.
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
