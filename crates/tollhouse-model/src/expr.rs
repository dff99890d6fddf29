//! The `vars` expression language: parsed once, evaluated per request without allocating.

/// A parsed, compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr;
