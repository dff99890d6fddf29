//! Limits on documents, each with its reason. Limits on traffic live beside the code they bound.

/// Longest `uri` of a route, in bytes: APISIX's schema.
pub const ROUTE_URI_BYTES_MAX: usize = 4096;

/// Longest id, in characters: APISIX's schema.
pub const ID_CHARS_MAX: usize = 64;

/// Longest name, in characters: APISIX's schema.
pub const NAME_CHARS_MAX: usize = 256;

/// Longest description and label value, in characters: APISIX's schema.
pub const TEXT_CHARS_MAX: usize = 256;

/// Deepest nesting of a `vars` expression: keeps evaluation off the end of a small stack.
pub const EXPRESSION_DEPTH_MAX: usize = 32;

/// Longest value quoted in a problem, in characters: enough to recognise, never a page.
pub const PROBLEM_VALUE_CHARS_MAX: usize = 120;
