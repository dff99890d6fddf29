//! Node health: the state machine, its shared cell, and the active checker.
//!
//! Passive reports arrive through [`UpstreamState::report`](crate::UpstreamState::report). The
//! effect of health on balancing is defined in `node_set.rs`.

pub(crate) mod cell;
mod checker;
pub mod probe;
pub mod report;
pub mod state;
pub(crate) mod streak;
pub mod supervisor;

#[cfg(test)]
pub(crate) mod simulation;
