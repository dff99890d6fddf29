//! Metrics page: the product's own metrics, those of routes, upstreams and nodes, then APISIX's under
//! its names.
//!
//! The page is rendered while it is sent, so that a page for ten thousand routes is never
//! completely in memory. Rendering and worker threads never wait for each other.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};
use std::time::SystemTime;

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tollhouse_model::Kind;
use tollhouse_plugin::queues::QueueLength;
use tollhouse_plugin::{Queues, Services};
use tollhouse_plugins::prometheus;
use tollhouse_proxy::{Snapshot, SnapshotCell};
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::apisix::{
    BatchQueue, Connections, NodeStatus, Page, ProcessFacts, Traffic,
};
use tollhouse_telemetry::exposition::{Exposition, Format};
use tollhouse_telemetry::objects_page::ObjectsPage;
use tollhouse_upstream::HealthSupervisor;

use crate::certificate_ends::CertificateEnds;
use crate::findings::FindingBoard;
use crate::plugins::APISIX_VERSION;
use crate::registry::metrics::RegistrySlot;

mod objects;

/// File from which the kernel's host name is read.
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Sources from which the metrics page is rendered.
#[derive(Debug, Clone)]
pub struct MetricsPage {
    metrics: Arc<Metrics>,
    health: Arc<HealthSupervisor>,
    traffic: Arc<Traffic>,
    queues: Arc<Queues>,
    indexes: Arc<ModifyIndexes>,
    registry: Arc<RegistrySlot>,
    certificates: Arc<CertificateEnds>,
    findings: Arc<FindingBoard>,
    /// Configuration in service, whose objects are named; unset until the first one.
    snapshots: Arc<OnceLock<Arc<SnapshotCell>>>,
    hostname: Arc<str>,
}

/// Returns a log queue with the labels of the page.
fn queue(length: QueueLength) -> BatchQueue {
    // Before the first request, only the object that has the plugin is known.
    let own_route = || length.owner.strip_prefix("routes/").unwrap_or_default().to_owned();
    let (route_id, server_addr) = match &length.origin {
        Some(origin) => (origin.route_id.to_string(), origin.server_addr.to_string()),
        None => (own_route(), String::new()),
    };
    BatchQueue { name: length.name, route_id, server_addr, entries: length.entries as u64 }
}

impl MetricsPage {
    /// `services` contains the counters of plugins.
    pub fn new(metrics: Arc<Metrics>, health: Arc<HealthSupervisor>, services: &Services) -> Self {
        let hostname = std::fs::read_to_string(HOSTNAME_FILE).unwrap_or_default();
        let hostname = hostname.trim().into();
        Self {
            metrics,
            health,
            traffic: prometheus::traffic(services),
            queues: Arc::clone(&services.queues),
            indexes: Arc::default(),
            registry: Arc::default(),
            certificates: Arc::default(),
            findings: Arc::default(),
            snapshots: Arc::default(),
            hostname,
        }
    }

    /// Returns the slot for the service registry's metrics, filled when it runs.
    pub fn registry(&self) -> &RegistrySlot {
        &self.registry
    }

    /// Returns the expiry times of certificates, filled by the compiler.
    pub fn certificates(&self) -> &Arc<CertificateEnds> {
        &self.certificates
    }

    /// Returns the current findings, filled by [`watch`](crate::findings::watch).
    pub fn findings(&self) -> &Arc<FindingBoard> {
        &self.findings
    }

    /// Returns the revisions of objects, filled by the feeds.
    pub fn indexes(&self) -> &Arc<ModifyIndexes> {
        &self.indexes
    }

    /// Returns the configuration in service; `None` before the first one.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshots.get().map(|snapshots| snapshots.load())
    }

    /// Names the objects of the configuration in service from now on.
    pub fn set_snapshots(&self, snapshots: &Arc<SnapshotCell>) {
        // A process has one cell.
        let _ = self.snapshots.set(Arc::clone(snapshots));
    }

    /// Lines of the access log and entries of loggers that were lost since the start.
    pub fn lost_log_entries(&self) -> u64 {
        self.metrics.process().access_log_lines_dropped.value() + self.queues.lost()
    }

    /// The page as a body that is rendered while it is sent.
    pub fn body(&self, format: Format) -> Body {
        Body::new(PageBody(self.pieces(format)))
    }

    /// Renders the complete page in memory, in Prometheus' text format.
    pub fn text(&self) -> Vec<u8> {
        self.pieces(Format::Text).flatten().collect()
    }

    fn pieces(&self, format: Format) -> Pieces {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let apisix = self.traffic.page(&self.facts(), now.as_secs());
        let process = self.metrics.process();
        process.metric_series_folded.raise_to(self.traffic.folded() + self.metrics.folded());
        process.log_entries_lost.raise_to(self.queues.lost());
        process.spans_lost.raise_to(self.queues.spans_lost());
        process.spans_exported.raise_to(self.queues.spans_exported());
        process.store_revision.set(self.indexes.newest());
        let mut page = Exposition::new(format);
        self.metrics.write(&mut page);
        self.certificates.write(&mut page);
        self.findings.write(&mut page);
        self.registry.write(&mut page);
        let snapshot = self.snapshot();
        let snapshot = snapshot.iter();
        let routes = snapshot.clone().flat_map(|snapshot| objects::routes(snapshot));
        let upstreams = snapshot.flat_map(|snapshot| objects::upstreams(snapshot));
        let objects = self.metrics.objects_page(routes, upstreams);
        Pieces { page: Some(page), objects, apisix }
    }

    fn facts(&self) -> ProcessFacts<'_> {
        let seen = self.metrics.downstream();
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let active = count(seen.open);
        let writing = count(seen.requests_open).min(active);
        ProcessFacts {
            hostname: &self.hostname,
            version: APISIX_VERSION,
            is_store_reachable: self.metrics.process().store_down.value() == 0,
            modify_indexes: self.indexes.by_key(),
            requests: seen.requests,
            connections: Connections {
                accepted: seen.accepted,
                handled: seen.accepted.saturating_sub(seen.refused),
                active,
                // A connection that is receiving a head counts as waiting, because the two are not
                // distinguished.
                reading: 0,
                writing,
                waiting: active - writing,
            },
            nodes: self.nodes(),
            batches: self.queues.lengths().into_iter().map(queue).collect(),
        }
    }

    fn nodes(&self) -> Vec<NodeStatus> {
        let reports = self.health.report();
        let nodes = reports.into_iter().flat_map(|report| {
            let name = report.name;
            report.nodes.into_iter().map(move |node| NodeStatus {
                name: name.clone(),
                ip: node.ip,
                port: node.port,
                is_healthy: node.status.serves(),
            })
        });
        nodes.collect()
    }
}

/// The page, rendered piece by piece.
struct Pieces {
    /// `None` after the last piece.
    page: Option<Exposition>,
    objects: ObjectsPage,
    apisix: Page,
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let page = self.page.as_mut()?;
        if self.objects.write(page) || self.apisix.write(page) {
            return Some(page.take());
        }
        self.page.take().map(Exposition::finish)
    }
}

/// Response body that renders the page while it is sent.
struct PageBody(Pieces);

impl hyper::body::Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // An empty frame would end nothing, but be of no use.
        let piece = self.0.by_ref().find(|piece| !piece.is_empty());
        Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

/// Revision of the last change of each kind of object.
#[derive(Debug, Default)]
pub struct ModifyIndexes {
    of_kinds: [AtomicU64; Kind::ALL.len()],
    newest: AtomicU64,
}

impl ModifyIndexes {
    /// Records the revision of a change to an object of this kind.
    pub fn note(&self, kind: Kind, revision: u64) {
        let place = Kind::ALL.iter().position(|other| *other == kind);
        if let Some(place) = place {
            self.of_kinds[place].fetch_max(revision, Relaxed);
        }
        self.newest.fetch_max(revision, Relaxed);
    }

    /// Revision of the newest change; 0 without a store.
    fn newest(&self) -> i64 {
        i64::try_from(self.newest.load(Relaxed)).unwrap_or(i64::MAX)
    }

    /// Revisions by APISIX's keys, sorted; empty without a store.
    fn by_key(&self) -> Vec<(String, u64)> {
        let newest = self.newest.load(Relaxed);
        if newest == 0 {
            return Vec::new();
        }
        let of_kinds = Kind::ALL.iter().zip(&self.of_kinds);
        let mut all: Vec<(String, u64)> = of_kinds
            .map(|(kind, revision)| (kind.plural().to_owned(), revision.load(Relaxed)))
            .collect();
        for key in ["max_modify_index", "prev_index", "x_etcd_index"] {
            all.push((key.to_owned(), newest));
        }
        all.sort();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_change_of_each_kind_is_listed() {
        let indexes = ModifyIndexes::default();
        assert_eq!(indexes.by_key(), []);
        indexes.note(Kind::Route, 7);
        indexes.note(Kind::Service, 9);
        indexes.note(Kind::Route, 5);
        let all = indexes.by_key();
        for (key, expected) in
            [("routes", 7), ("services", 9), ("upstreams", 0), ("max_modify_index", 9)]
        {
            assert!(all.contains(&(key.to_owned(), expected)), "{key} in {all:?}");
        }
        assert!(all.is_sorted());
    }
}
