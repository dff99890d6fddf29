//! gRPC over HTTP/2: frames, calls, statuses, limits. Knows no message and no method of its own but
//! those of `health` and `reflection`; what a call means is decided by the handlers in [`Services`].
//!
//! Built for many short calls and answers that are shared between clients: a unary call whose message
//! has arrived and whose handler needs no waiting is answered without a task of its own; everything a
//! connection has to say is gathered and leaves in one write; a large answer waits as a chain of shared
//! pieces and is never copied whole. One thread runs one [`serve`] on a local runtime.

mod accept;
mod budget;
mod call;
mod connection;
mod fields;
pub mod health;
mod inbox;
pub mod limits;
mod messages;
mod outbox;
mod payload;
mod pinned;
pub mod polaris;
mod presence;
pub mod reflection;
mod service;
mod session;
mod status;
mod stopping;
mod unsent;

pub use accept::{Count, Counts, Options, serve};
pub use service::{Call, Outcome, Reply, Series, Services};
pub use status::{Code, Status};
