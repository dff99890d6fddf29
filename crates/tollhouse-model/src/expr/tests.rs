//! Tables of expressions.
