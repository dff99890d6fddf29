//! Opens connections and holds them, to measure how many a server or this machine can carry, and
//! how much memory each costs at both ends.
//!
//! The number of descriptors per process is limited, so that connections are spread over several
//! processes (`holder.rs`). If the server end is our own, other processes serve it (`server.rs`).
//! Both are started from this same program. `message.rs` defines the messages between the
//! processes, `plan.rs` the settings; `coordinator.rs` leads the processes and forms the result.

mod coordinator;
mod costs;
mod holder;
mod identity;
mod message;
mod opening;
mod parts;
mod ping;
mod plan;
mod requirements;
mod server;
mod summary;
pub mod text;

pub use coordinator::{Phase, Progress, hold, listen};
pub use parts::{Launcher, serve_part};
pub use plan::{End, Listen, Ping, Plan, Sources};
pub use requirements::{Row, preflight};

#[cfg(test)]
mod tests;
