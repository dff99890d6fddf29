//! Which route a request takes: routes compiled to an immutable matcher that changes by sharing.
//!
//! The order of choice (APISIX's `radixtree_host_uri`, apisix.md §3.1–3.3):
//!
//! 1. **Host level**: the exact host, then wildcard hosts by longest suffix, then routes without a
//!    host. A level without a match falls through to the next. In the `uri` modes there is one
//!    level, and the host is a condition like the others.
//! 2. **Path**: the exact path, whatever its priority; then patterns by longest literal prefix.
//! 3. **Candidates** that share that key: higher priority, longer pattern, earlier insertion.
//! 4. Each candidate's conditions in turn: method, client address, host, `vars`, then the rest of
//!    the pattern. The first that holds them all wins.
//!
//! `Router` is cheap to clone; a change copies only what it touches. No IO, no runtime.

#![forbid(unsafe_code)]

mod entry;
mod explain;
mod levels;
mod normalize;
mod pattern;
mod router;
mod tree;

pub use entry::{MatchRequest, RouteSpec};
pub use explain::{Loss, Verdict};
pub use normalize::{BadPath, NormalizeOptions, Normalized, normalize_path};
pub use pattern::Captures;
pub use router::{Found, Mode, Router};
