//! Upstreams at run time: their nodes, how one is chosen for a request, and which are healthy.
//!
//! [`UpstreamHandle`] is what the data side asks: [`UpstreamHandle::pick`] names a node and an
//! address, [`UpstreamHandle::report`] tells how it went. [`UpstreamState`] is what it asks. [`HealthSupervisor`] sends the active
//! probes and [`WarmUps`] lets the weights of fresh nodes rise, on the control side's runtime. Connections, their pools and the decision to try again
//! live in `tollhouse-proxy`.

#![forbid(unsafe_code)]

pub mod balance;
mod change;
mod discovered;
mod handle;
pub mod health;
mod node;
mod node_set;
mod pick;
mod ramp;
mod state;
mod warm_up;

pub use change::UpstreamChange;
pub use discovered::PublishedNode;
pub use handle::UpstreamHandle;
pub use health::report::{HealthReport, NodeHealth};
pub use health::supervisor::HealthSupervisor;
pub use node::Node;
pub use pick::{NodeIndex, Outcome, Pick, PickRequest, Picked, Tried, WhenUnresolved};
pub use state::UpstreamState;
pub use warm_up::WarmUps;
