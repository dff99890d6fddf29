//! The `vars` expression language: parsed once, evaluated per request without allocating.
//!
//! An expression is a list of conditions such as `["arg_name", "==", "json"]`, which must all hold,
//! or a logic node such as `["OR", condition, condition]`; both nest. Operators are implemented in
//! `condition.rs`; requests provide the values of variables through [`Lookup`].

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

/// A compiled expression. Two are equal if their documents are.
#[derive(Debug, Clone)]
pub struct Expr {
    /// Source of the expression, as compact JSON.
    source: Box<str>,
    root: Node,
}

impl Expr {
    /// Parses an expression and reports all problems; `None` if any is an error.
    pub fn parse(value: &Value, path: &str, problems: &mut Problems) -> Option<Expr> {
        let root = parse::parse(value, path, problems)?;
        Some(Expr { source: value.to_string().into(), root })
    }

    /// Whether the expression holds for a request. An empty expression holds; an undecided one does
    /// not. Access control must use [`Expr::evaluate`], which returns undecided outcomes as errors.
    pub fn matches(&self, request: &dyn Lookup) -> bool {
        self.evaluate(request).unwrap_or(false)
    }

    /// Whether the expression holds for a request.
    ///
    /// # Errors
    /// If the result depends on a pattern whose search exceeded its limit.
    pub fn evaluate(&self, request: &dyn Lookup) -> Result<bool, Exhausted> {
        self.root.evaluate(request)
    }

    /// Whether evaluation needs the body of the request.
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

/// A level of an expression. Nested at most `limits::EXPRESSION_DEPTH_MAX` deep, which bounds the
/// recursion.
#[derive(Debug, Clone)]
enum Node {
    Group(Logic, Box<[Node]>),
    Condition(Condition),
}

/// Combination of the conditions in a group, such as `AND`.
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
            Node::Group(logic, members) => logic.evaluate(members, request),
        }
    }

    fn reads_body(&self) -> bool {
        match self {
            Node::Condition(condition) => condition.variable.reads_body(),
            Node::Group(_, members) => members.iter().any(Node::reads_body),
        }
    }
}

impl Logic {
    /// Combines the members. The first member that decides the outcome wins, even over an error of
    /// another one.
    fn evaluate(self, members: &[Node], request: &dyn Lookup) -> Result<bool, Exhausted> {
        let (decisive, is_negated) = match self {
            Self::All => (false, false),
            Self::Any => (true, false),
            Self::NotAll => (false, true),
            Self::NotAny => (true, true),
        };
        let mut verdict = Ok(decisive == is_negated);
        for member in members {
            match member.evaluate(request) {
                Ok(holds) if holds == decisive => return Ok(decisive != is_negated),
                Ok(_) => {}
                Err(error) => verdict = Err(error),
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests;
