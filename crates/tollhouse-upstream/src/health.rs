//! Health of nodes: the state machine, its shared cell, and the active checker.
//!
//! Passive reports come in through [`UpstreamState::report`](crate::UpstreamState::report); what
//! follows from a node's health for balancing is decided in `node_set.rs`.

pub(crate) mod cell;
mod checker;
pub mod probe;
pub mod report;
pub mod state;
pub mod supervisor;

#[cfg(test)]
pub(crate) mod simulation;
