//! gRPC over HTTP/2: frames, calls, statuses, limits. Apart from `health` and `reflection` the
//! module knows no methods; the handlers in [`Services`] implement the calls.
//!
//! Built for many short calls and for answers that clients share. A unary call whose message has
//! arrived and whose handler need not wait is answered without a task. A connection collects its
//! output and sends it in one write. A large answer is a chain of shared pieces and is never copied
//! whole. Each thread runs one [`serve`] on a local runtime.

mod accept;
mod budget;
mod call;
mod connection;
mod connections;
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
pub use connections::{Connections, OpenConnection};
pub use service::{Call, Outcome, Reply, Series, Services};
pub use status::{Code, Status};
