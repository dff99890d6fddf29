//! Tables and a naive matcher to compare with.
