//! The `vars` expression language: parsed once, evaluated per request without allocating.
//!
//! An expression is a list of conditions such as `["arg_name", "==", "json"]`, all of which must
//! hold, or a logic node such as `["OR", condition, condition]`; both nest. What a condition's
//! operator means is in `condition.rs`; what a variable's value is, the request says through
//! [`Lookup`].

use std::fmt;

use serde_json::Value;

use self::condition::Condition;
use self::pattern::Exhausted;
use crate::Problems;
use crate::variable::Lookup;

mod condition;
mod number;
mod parse;
pub mod pattern;

/// A parsed, compiled expression. Two of them are equal where they were written alike.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The document it was read from, as compact JSON.
    source: Box<str>,
    root: Node,
}

impl Expr {
    /// Reads an expression, reporting every problem of it. `None` where any of them is an error.
    pub fn parse(value: &Value, path: &str, problems: &mut Problems) -> Option<Expr> {
        let root = parse::parse(value, path, problems)?;
        Some(Expr { source: value.to_string().into(), root })
    }

    /// Whether it holds for a request. An empty expression always holds; one that cannot be decided
    /// does not. What protects asks [`Expr::evaluate`].
    pub fn matches(&self, request: &dyn Lookup) -> bool {
        self.evaluate(request).unwrap_or(false)
    }

    /// Whether it holds for a request.
    ///
    /// # Errors
    /// It depends on a pattern whose search was given up.
    pub fn evaluate(&self, request: &dyn Lookup) -> Result<bool, Exhausted> {
        self.root.evaluate(request)
    }

    /// Whether it needs the request's body to have been read.
    pub fn reads_body(&self) -> bool {
        self.root.reads_body()
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Expr {}

impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.source)
    }
}

/// One level of an expression. As deep as `limits::EXPRESSION_DEPTH_MAX` at most, so that
/// recursion over it is bounded.
#[derive(Debug, Clone)]
enum Node {
    Group(Logic, Box<[Node]>),
    Condition(Condition),
}

/// How the members of a group combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logic {
    All,
    Any,
    NotAll,
    NotAny,
}

impl Node {
    fn evaluate(&self, request: &dyn Lookup) -> Result<bool, Exhausted> {
        match self {
            Node::Condition(condition) => condition.evaluate(request),
            Node::Group(Logic::All, members) => all(members, request),
            Node::Group(Logic::Any, members) => any(members, request),
            Node::Group(Logic::NotAll, members) => all(members, request).map(|holds| !holds),
            Node::Group(Logic::NotAny, members) => any(members, request).map(|holds| !holds),
        }
    }

    fn reads_body(&self) -> bool {
        match self {
            Node::Condition(condition) => condition.variable.reads_body(),
            Node::Group(_, members) => members.iter().any(Node::reads_body),
        }
    }
}

fn all(members: &[Node], request: &dyn Lookup) -> Result<bool, Exhausted> {
    decided(members, request, false)
}

fn any(members: &[Node], request: &dyn Lookup) -> Result<bool, Exhausted> {
    decided(members, request, true)
}

/// `decisive` where one member says so; a member that cannot be decided counts where none does.
fn decided(members: &[Node], request: &dyn Lookup, decisive: bool) -> Result<bool, Exhausted> {
    let mut verdict = Ok(!decisive);
    for member in members {
        match member.evaluate(request) {
            Ok(said) if said == decisive => return Ok(decisive),
            Ok(_) => {}
            Err(error) => verdict = Err(error),
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
