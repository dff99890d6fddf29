//! ShenYu's objects in the data plane: its plugin chain, and a route for each rule that sends
//! requests to nodes.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu_gateway::{Again, Chain};
use tollhouse_telemetry::labels::ShenyuType;

use super::RouteEntry;

#[derive(Debug)]
pub struct ShenyuTable {
    /// Chain of ShenYu's plugins, which all its requests pass.
    pub chain: Arc<Chain>,
    /// Whether the table is consulted before the router.
    pub comes_first: bool,
    /// Route of requests that need the chain at request time.
    pub entry: Arc<RouteEntry>,
    /// Routes of requests that go to nodes, in the order of the chain's targets.
    pub targets: Box<[Arc<RouteEntry>]>,
}

/// Settings of a route made from ShenYu's objects.
#[derive(Debug, Clone, Copy)]
pub struct ShenyuTerms {
    /// Statuses of the gateway's own responses.
    pub statuses: Statuses,
    /// Type under which requests are counted.
    pub counted_as: ShenyuType,
    /// Retry policy after a failed attempt.
    pub again: Again,
    /// Number of attempts after the first.
    pub retries: u32,
    /// Timeout of an attempt, until its response begins.
    pub timeout: Duration,
}
