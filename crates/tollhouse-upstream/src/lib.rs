//! Upstreams at run time: their nodes, the choice of a node per request, and node health.
//!
//! The data plane uses an [`UpstreamHandle`]: [`UpstreamHandle::pick`] chooses a node and an
//! address, [`UpstreamHandle::report`] records the outcome. The handle refers to an
//! [`UpstreamState`]. On the control side's runtime, [`HealthSupervisor`] sends the active probes,
//! and [`WarmUps`] raises the weights of new nodes (slow start). Discovery sources, which publish
//! nodes, belong to `tollhouse-control`; connections, their pools and retries to `tollhouse-proxy`.

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
pub use health::streak::FailureStreak;
pub use health::supervisor::HealthSupervisor;
pub use node::Node;
pub use pick::{NodeIndex, Outcome, Pick, PickRequest, Picked, Tried, WhenUnresolved};
pub use state::{DiscoveryContext, UpstreamState};
pub use warm_up::WarmUps;
