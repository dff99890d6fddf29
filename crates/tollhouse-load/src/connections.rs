//! Opens connections and holds them: how many a server, or this machine, can carry, and what one costs at
//! both ends.
//!
//! One process may have a limited number of descriptors, so connections are held by as many processes
//! as that takes (`holder.rs`), and the server end, when it is ours, is served by others (`server.rs`);
//! both are this program started again. What they are told and tell is in `message.rs`, what is asked
//! for in `plan.rs`; `coordinator.rs` leads them and forms the result.

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
