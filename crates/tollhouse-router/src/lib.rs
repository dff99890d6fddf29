//! Route matching: routes are compiled into an immutable matcher, whose changed versions share
//! structure.
//!
//! The order of precedence follows APISIX's routers:
//!
//! 1. **Host level** ([`Mode::HostUri`]): routes for exactly this host (with its port first), then
//!    those for wildcard hosts, longest suffix first, then those without a host. If nothing matches
//!    in a level, the next one is tried. The other modes have a single level, and hosts are an
//!    ordinary condition.
//! 2. **Path** within a level: the exact path first, regardless of its priority; then patterns,
//!    longest literal prefix (the text before the first `*` or `:name`) first. Priority never lifts
//!    a route over a longer prefix.
//! 3. **Candidates** that share a level and a path or prefix: higher priority first, then the
//!    longer pattern, then the one inserted earlier; a replaced route keeps its place.
//! 4. **Conditions** of each candidate in turn: methods, client addresses, hosts, `vars`, and
//!    finally the part of the pattern after the prefix. The first candidate that passes all of them
//!    wins. If the conditions of an exact path fail, prefixes are still tried.
//!
//! Exact paths of all levels are stored in one hash table, patterns in one radix tree per level.
//! Clones share both: a change copies the few nodes that it touches, regardless of the number of
//! routes. The cost of a look-up depends on the length of host and path, not on the number of
//! routes. The crate does no IO and needs no runtime.

#![forbid(unsafe_code)]

mod ambiguity;
mod bucket;
mod captures;
mod conditions;
mod exact;
mod explain;
mod host;
mod levels;
mod normalize;
mod pattern;
mod request_uri;
mod router;
mod spec;
mod tree;

pub use ambiguity::{AmbiguousPaths, is_ambiguous, may_be_ambiguous};
pub use captures::Captures;
pub use explain::{FoundBy, HostLevel, Loss, Verdict};
pub use normalize::{
    BadPath, NormalizeOptions, Normalized, escape_into, escaped_path, normalize_path,
};
pub use request_uri::request_uri;
pub use router::{Found, Router};
pub use spec::{MatchRequest, Mode, RouteFilter, RouteSpec, SharedFilter};
