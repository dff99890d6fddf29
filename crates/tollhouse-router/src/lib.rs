//! Which route a request takes: routes compiled to an immutable matcher that changes by sharing.
//!
//! The order of choice, which is that of APISIX's routers:
//!
//! 1. **Host level** ([`Mode::HostUri`]): routes of exactly this host (named with its port first),
//!    then those of wildcard hosts, longest suffix first, then those that name no host. A level in
//!    which nothing matches falls through to the next. In the other modes there is one level, and
//!    hosts are a condition like the others.
//! 2. **Path** within a level: the exact path first, whatever its priority; then patterns, longest
//!    literal prefix (the text before the first `*` or `:name`) first. Priority never lifts a route
//!    over a longer prefix.
//! 3. **Candidates** that share a level and a path or prefix: higher priority first, then the longer
//!    pattern, then the one inserted earlier; a replaced route keeps its place.
//! 4. **Conditions** of each candidate in turn: methods, client addresses, hosts, `vars`, and last
//!    what its pattern asks beyond the prefix. The first candidate to pass them all is the answer;
//!    an exact path whose conditions fail does not keep prefixes from being tried.
//!
//! Exact paths of all levels stand in one hash table, patterns in one radix tree a level, both
//! shared between clones: a change copies the few nodes that it touches, however many routes there
//! are. Finding a route costs the length of the host and path, not the number of routes. Nothing
//! here does IO or knows a runtime.

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
pub use spec::{MatchRequest, Mode, RouteSpec};
