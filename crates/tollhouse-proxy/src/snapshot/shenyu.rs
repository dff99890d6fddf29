//! ShenYu's objects as the data plane sees them: its chain, and a route for each rule that sends requests to
//! nodes.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu_gateway::{Again, Chain};
use tollhouse_telemetry::labels::ShenyuType;

use super::RouteEntry;

/// What ShenYu's objects do with requests.
#[derive(Debug)]
pub struct ShenyuTable {
    /// The plugins.
    pub chain: Arc<Chain>,
    /// Whether it is asked before the router is.
    pub comes_first: bool,
    /// The route of requests that the chain has to be run for.
    pub entry: Arc<RouteEntry>,
    /// Those of requests that go to nodes, in the order of the chain's targets.
    pub targets: Box<[Arc<RouteEntry>]>,
}

/// What holds for a request beside its route.
#[derive(Debug, Clone, Copy)]
pub struct ShenyuTerms {
    /// Which statuses go with the gateway's own answers.
    pub statuses: Statuses,
    /// What a request counts as.
    pub counted_as: ShenyuType,
    /// Where a request goes that has failed.
    pub again: Again,
    /// Attempts after the first.
    pub retries: u32,
    /// Until an attempt's answer has begun.
    pub timeout: Duration,
}
