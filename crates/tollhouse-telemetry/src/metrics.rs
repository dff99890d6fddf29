//! Registry of the metric blocks of all cores, from which a scrape is rendered.
//!
//! The lock here is taken when a core starts and on each scrape, never by a core while serving.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalogue::{CoreMetrics, ProcessMetrics, ShenyuMetrics, render_build_info};
use crate::codes::ErrorCode;
use crate::counters::Label;
use crate::exposition::{Exposition, Format};
use crate::handshakes::{FailedHandshake, FailedHandshakes};
use crate::histogram::Totals;
use crate::labels::{ConnectionRefusal, DatagramDrop, HandshakeFailure, StatusClass};
use crate::node_series::{self, CoreNodes, NodeReadings};
use crate::object_counts::ObjectCounts;
use crate::objects_page::{ObjectsPage, RouteLabels, UpstreamLabels};
use crate::plugin_refusals::PluginRefusals;
use crate::plugin_times::{PluginTime, PluginTimes};
use crate::recent::{FailureGroup, RecentRequest, RecentRequests};
use crate::route_refusals::{RefusalsByRoute, RouteRefusals};
use crate::route_series::{RequestTotals, RouteRow, RouteSeries};

/// Counters of all cores, and those of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    cores: Mutex<Cores>,
    nodes: Mutex<NodeReadings>,
    process: Arc<ProcessMetrics>,
}

/// Blocks of all cores.
pub(crate) type Cores = Vec<Arc<CoreBlock>>;

impl Metrics {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a block for the calling core, which becomes its only writer. The block of a core
    /// that has ended is reused with its counts, so that counters never fall and the number of
    /// blocks is that of the cores that ran concurrently.
    pub fn for_core(&self) -> CoreHandle {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        let free = cores.iter().find(|block| Arc::strong_count(block) == 1).cloned();
        // Pairs with the release of the last handle, so that the counts of its thread are visible
        // here.
        fence(Ordering::Acquire);
        let block = free.unwrap_or_else(|| {
            let block = Arc::new(CoreBlock::default());
            cores.push(Arc::clone(&block));
            block
        });
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).for_core();
        CoreHandle { block, nodes, one_thread: PhantomData }
    }

    /// Returns the block that any thread may write.
    pub fn process(&self) -> &Arc<ProcessMetrics> {
        &self.process
    }

    /// Sums the counters about clients over all cores.
    pub fn downstream(&self) -> Downstream {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Downstream::default();
        for block in cores.iter().map(|block| &block.metrics) {
            let requests = &block.requests;
            seen.requests += StatusClass::ALL.iter().map(|c| requests.get(*c).value()).sum::<u64>();
            seen.accepted += block.downstream_connections_accepted.value();
            seen.open += block.downstream_connections_open.value();
            seen.requests_open += block.requests_open.value();
            let refused = &block.downstream_connections_refused;
            seen.refused +=
                ConnectionRefusal::ALL.iter().map(|r| refused.get(*r).value()).sum::<u64>();
        }
        seen
    }

    /// Sums the traffic of all cores, for the samples taken every second.
    pub fn traffic(&self) -> Traffic {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Traffic::default();
        for block in cores.iter() {
            let metrics = &block.metrics;
            for (count, class) in seen.by_class.iter_mut().zip(StatusClass::ALL) {
                *count += metrics.requests.get(*class).value();
            }
            for (count, code) in seen.by_code.iter_mut().zip(ErrorCode::ALL) {
                *count += metrics.requests_failed.get(*code).value();
            }
            seen.received_bytes += metrics.downstream_received_bytes.value();
            seen.sent_bytes += metrics.downstream_sent_bytes.value();
            seen.connections_open += metrics.downstream_connections_open.value();
            metrics.request_duration.add_to(&mut seen.durations);
        }
        seen
    }

    /// Returns, for each numbered object, the requests of all cores and the failed ones among them.
    pub fn object_requests(
        &self,
        counted: Counted,
        numbers: impl Iterator<Item = u32>,
    ) -> Vec<(u64, u64)> {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sum = |number| {
            cores
                .iter()
                .map(|core| core.totals(counted, number))
                .fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
        };
        numbers.map(sum).collect()
    }

    /// Returns the durations of the requests of a numbered route; empty for a route without
    /// durations of its own.
    pub fn route_durations(&self, number: u32) -> Totals {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut totals = RequestTotals::default();
        cores.iter().for_each(|core| core.routes.add_to(RouteRow::Numbered(number), &mut totals));
        totals.durations
    }

    /// Returns the counts of all nodes with counts of their own.
    pub fn node_readings(&self) -> Vec<NodeReading> {
        let rows = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).rows();
        let reading = |(address, counts): node_series::NodeRow| {
            let address = address?.to_string();
            let (totals, unanswered) = node_series::sum(&counts);
            let by_class = |class: StatusClass| totals.classes[class.index()];
            Some(NodeReading {
                address,
                attempts: totals.classes.iter().sum::<u64>() + unanswered,
                failed: by_class(StatusClass::ServerError) + unanswered,
                durations: totals.durations,
            })
        };
        rows.into_iter().filter_map(reading).collect()
    }

    /// Returns the most recent requests of all cores, newest first, and the number of records
    /// missed.
    pub fn recent_requests(&self) -> (Vec<RecentRequest>, u64) {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all = Vec::new();
        let mut missed = 0;
        for block in &cores {
            block.recent.copy_to(&mut all);
            missed += block.recent.missed();
        }
        all.sort_by_key(|request| std::cmp::Reverse(request.unix_ms));
        (all, missed)
    }

    /// Returns the kinds of failed requests by route and error code, separately for each core.
    pub fn failure_groups(&self) -> Vec<FailureGroup> {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        cores.iter().flat_map(|core| core.recent.groups()).collect()
    }

    /// Kinds of failed TLS handshakes, by cause and server name, each core's apart.
    pub fn failed_handshakes(&self) -> Vec<FailedHandshake> {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        cores.iter().flat_map(|core| core.handshakes.kinds()).collect()
    }

    /// Number of connections closed before their first request for this reason.
    pub fn connections_refused(&self, refusal: ConnectionRefusal) -> u64 {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        let of_core =
            |it: &Arc<CoreBlock>| it.metrics.downstream_connections_refused.get(refusal).value();
        cores.iter().map(of_core).sum()
    }

    /// Number of datagrams not forwarded for this reason.
    pub fn datagrams_dropped(&self, drop: DatagramDrop) -> u64 {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.iter().map(|block| block.metrics.udp_datagrams_dropped.get(drop).value()).sum()
    }

    /// Number of TLS handshakes with clients, failed ones included.
    pub fn handshakes(&self) -> u64 {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        let of_core = |block: &Arc<CoreBlock>| {
            let failed = &block.metrics.downstream_tls_handshakes_failed;
            let failed = HandshakeFailure::ALL.iter().map(|it| failed.get(*it).value());
            block.metrics.downstream_tls_handshakes.value() + failed.sum::<u64>()
        };
        cores.iter().map(of_core).sum()
    }

    /// Renders all metrics but those of objects in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut page = Exposition::new(Format::Text);
        self.write(&mut page);
        String::from_utf8(page.finish()).unwrap_or_default()
    }

    /// Writes all metrics but those of objects.
    pub fn write(&self, page: &mut Exposition) {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let blocks: Vec<&CoreMetrics> = cores.iter().map(|block| &block.metrics).collect();
        CoreMetrics::render(&blocks, page);
        let blocks: Vec<&ShenyuMetrics> = cores.iter().map(|block| &block.shenyu).collect();
        // Without requests to ShenYu objects, the ShenYu metrics are left out.
        if blocks.iter().any(|block| block.requests.value() > 0) {
            ShenyuMetrics::render(&blocks, page);
        }
        PluginRefusals::render(cores.iter().map(|block| &block.plugin_refusals), page);
        PluginTimes::render(cores.iter().map(|block| &block.plugin_times), page);
        ProcessMetrics::render(&[&self.process], page);
        render_build_info(page);
    }

    /// Returns the number of requests that each plugin has refused since the start.
    pub fn plugin_refusals(&self) -> BTreeMap<String, u64> {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut sums = BTreeMap::new();
        let pairs = PluginRefusals::sums(cores.iter().map(|block| &block.plugin_refusals));
        for ((plugin, _), count) in pairs {
            *sums.entry(plugin.to_owned()).or_default() += count;
        }
        sums
    }

    /// Returns the time that each plugin has taken since the start.
    pub fn plugin_times(&self) -> BTreeMap<String, PluginTime> {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sums = PluginTimes::sums(cores.iter().map(|block| &block.plugin_times));
        sums.into_iter().map(|(plugin, time)| (plugin.to_owned(), time)).collect()
    }

    /// Returns the requests that plugins have refused since the start, by route.
    pub fn route_refusals(&self) -> RefusalsByRoute {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut sums = RefusalsByRoute::new();
        cores.iter().for_each(|core| core.route_refusals.add_to(&mut sums));
        sums
    }

    /// Starts the part of the page about objects, with those that have had requests.
    pub fn objects_page<'a>(
        &self,
        routes: impl Iterator<Item = RouteLabels<'a>>,
        upstreams: impl Iterator<Item = UpstreamLabels<'a>>,
    ) -> ObjectsPage {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).rows();
        ObjectsPage::new(cores, nodes, routes, upstreams)
    }

    /// Number of requests counted under the route `other`.
    pub fn folded(&self) -> u64 {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.iter().map(|core| core.routes.folded()).sum()
    }
}

/// Counts of a node since the start, summed over all cores.
#[derive(Debug, Clone)]
pub struct NodeReading {
    pub address: String,
    pub attempts: u64,
    /// Attempts without an answer, and answers with 500 or higher.
    pub failed: u64,
    /// Times until the heads of the answers.
    pub durations: Totals,
}

/// Counters about clients, summed over all cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Downstream {
    /// Number of requests answered.
    pub requests: u64,
    /// Number of connections accepted.
    pub accepted: u64,
    /// Number of connections closed before their first request.
    pub refused: u64,
    /// Number of connections open now.
    pub open: i64,
    /// Number of requests in progress now.
    pub requests_open: i64,
}

/// Traffic since the start, summed over all cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Requests answered, in the order of [`StatusClass::ALL`].
    pub by_class: [u64; StatusClass::COUNT],
    /// Requests failed by the gateway, in the order of [`ErrorCode::ALL`].
    pub by_code: [u64; ErrorCode::COUNT],
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Number of client connections open now.
    pub connections_open: i64,
    /// Durations of all requests.
    pub durations: Totals,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            by_class: [0; StatusClass::COUNT],
            by_code: [0; ErrorCode::COUNT],
            received_bytes: 0,
            sent_bytes: 0,
            connections_open: 0,
            durations: Totals::default(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CoreBlock {
    metrics: CoreMetrics,
    shenyu: ShenyuMetrics,
    recent: RecentRequests,
    handshakes: FailedHandshakes,
    plugin_refusals: PluginRefusals,
    plugin_times: PluginTimes,
    route_refusals: RouteRefusals,
    routes: RouteSeries,
    upstreams: ObjectCounts,
    consumers: ObjectCounts,
}

/// Kind of objects with request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Routes,
    Upstreams,
    Consumers,
}

impl CoreBlock {
    /// Requests of a numbered object, and the failed ones among them.
    fn totals(&self, counted: Counted, number: u32) -> (u64, u64) {
        match counted {
            Counted::Routes => self.routes.totals(number),
            Counted::Upstreams => self.upstreams.totals(number),
            Counted::Consumers => self.consumers.totals(number),
        }
    }

    pub(crate) fn routes(&self) -> &RouteSeries {
        &self.routes
    }

    pub(crate) fn upstreams(&self) -> &ObjectCounts {
        &self.upstreams
    }
}

/// Write access to one core's block; moves to the core's thread and stays there.
pub struct CoreHandle {
    block: Arc<CoreBlock>,
    nodes: CoreNodes,
    /// Makes the handle `!Sync`, so that no second thread can write.
    one_thread: PhantomData<Cell<()>>,
}

impl CoreHandle {
    /// Counters about requests handled by ShenYu objects.
    #[inline]
    pub fn shenyu(&self) -> &ShenyuMetrics {
        &self.block.shenyu
    }

    pub fn recent(&self) -> &RecentRequests {
        &self.block.recent
    }

    /// Failed TLS handshakes of this core.
    pub fn failed_handshakes(&self) -> &FailedHandshakes {
        &self.block.handshakes
    }

    /// Requests refused by plugins on this core.
    pub fn plugin_refusals(&self) -> &PluginRefusals {
        &self.block.plugin_refusals
    }

    /// Time that plugins take on this core.
    pub fn plugin_times(&self) -> &PluginTimes {
        &self.block.plugin_times
    }

    /// Requests of routes that plugins refused on this core.
    pub fn route_refusals(&self) -> &RouteRefusals {
        &self.block.route_refusals
    }

    /// Requests of routes on this core.
    #[inline]
    pub fn routes(&self) -> &RouteSeries {
        &self.block.routes
    }

    /// Nodes that this core uses.
    pub fn nodes(&self) -> &CoreNodes {
        &self.nodes
    }

    /// Requests of upstream objects on this core.
    #[inline]
    pub fn upstreams(&self) -> &ObjectCounts {
        &self.block.upstreams
    }

    /// Requests of consumers on this core.
    #[inline]
    pub fn consumers(&self) -> &ObjectCounts {
        &self.block.consumers
    }
}

impl Deref for CoreHandle {
    type Target = CoreMetrics;

    #[inline]
    fn deref(&self) -> &CoreMetrics {
        &self.block.metrics
    }
}

impl fmt::Debug for CoreHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.block.metrics.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::ErrorCode;
    use crate::labels::ShenyuType;

    #[test]
    fn a_scrape_adds_up_all_cores() {
        let metrics = Metrics::new();
        let (first, second) = (metrics.for_core(), metrics.for_core());
        first.requests.increment(StatusClass::from_status(200));
        second.requests.increment(StatusClass::from_status(204));
        second.requests_failed.increment(ErrorCode::NoNodes);
        first.downstream_connections_open.increment();
        metrics.process().config_problems.set(3);
        let text = metrics.render();
        for line in [
            "# HELP tollhouse_requests_total Requests answered, by class of status.\n",
            "# TYPE tollhouse_requests_total counter\n",
            "tollhouse_requests_total{class=\"2xx\"} 2\n",
            "tollhouse_requests_failed_total{code=\"no_nodes\"} 1\n",
            "tollhouse_downstream_connections_open 1\n",
            "tollhouse_config_problems 3\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn names_of_shenyus_are_on_the_page_once_its_objects_take_requests() {
        let metrics = Metrics::new();
        let core = metrics.for_core();
        assert!(!metrics.render().contains("shenyu_request_total"));
        core.shenyu().requests.increment();
        core.shenyu().request_types.increment(ShenyuType::SpringCloud);
        core.shenyu().rate_limited.increment();
        let text = metrics.render();
        for line in [
            "shenyu_request_total 1\n",
            "shenyu_request_type_total{type=\"springCloud\"} 1\n",
            "shenyu_request_throw_total 0\n",
            "# TYPE shenyu_execute_latency_millis histogram\n",
            "shenyu_ratelimiter_request_restrict_total 1\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn the_page_says_which_build_runs() {
        let text = Metrics::new().render();
        let line = text.lines().find(|line| line.starts_with("tollhouse_build_info{"));
        let line = line.expect("it is on the page");
        let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(line.contains(&version) && line.ends_with(" 1"), "{line}");
        assert!(text.contains("# TYPE tollhouse_build_info gauge\n"), "{text}");
    }

    #[test]
    fn the_block_of_an_ended_core_is_taken_over_with_its_counts() {
        let metrics = Metrics::new();
        let first = metrics.for_core();
        first.upstream_retries.add(5);
        drop(first);
        let second = metrics.for_core();
        second.upstream_retries.add(1);
        assert!(metrics.render().contains("tollhouse_upstream_retries_total 6\n"));
        let third = metrics.for_core();
        assert_eq!(third.upstream_retries.value(), 0);
        assert_eq!(metrics.cores.lock().map(|cores| cores.len()).ok(), Some(2));
    }

    #[test]
    fn every_line_of_the_page_is_a_comment_or_a_sample() {
        let metrics = Metrics::new();
        let _core = metrics.for_core();
        for line in metrics.render().lines() {
            let is_comment = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
            let is_sample = line
                .rsplit_once(' ')
                .is_some_and(|(name, value)| !name.contains(' ') && value.parse::<f64>().is_ok());
            assert!(is_comment || is_sample, "{line}");
        }
    }
}
