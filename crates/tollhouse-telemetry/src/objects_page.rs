//! The part of the metrics page about routes, upstreams and nodes, written in pieces, so that the
//! page of many routes is never in memory as a whole.

use crate::catalogue::objects::ObjectMetric;
use crate::counters::Label;
use crate::exemplars::Exemplar;
use crate::exposition::{Exposition, labels};
use crate::histogram::CLASSIC_BUCKETS;
use crate::labels::StatusClass;
use crate::metrics::Cores;
use crate::node_series::{self, NodeRow};
use crate::route_series::{RequestTotals, RouteRow};

/// Label value for what is beyond a limit.
const OTHER: &str = "other";

/// Size in bytes at which a piece ends.
const PIECE_BYTES: usize = 256 * 1024;

/// Labels of a route on the page.
#[derive(Debug, Clone, Copy)]
pub struct RouteLabels<'a> {
    /// Number of the route in the counters.
    pub number: u32,
    pub route: &'a str,
    /// Id of the service; empty without one.
    pub service: &'a str,
    /// Id of the upstream object; empty if the upstream is written in the route or service.
    pub upstream: &'a str,
}

/// Labels of an upstream object on the page.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamLabels<'a> {
    /// Number of the upstream in the counters.
    pub number: u32,
    pub upstream: &'a str,
}

/// Rows of the page with their counts, and the place where the next piece begins.
#[derive(Debug)]
pub struct ObjectsPage {
    cores: Cores,
    routes: Vec<(RouteRow, String)>,
    upstreams: Vec<(String, (u64, u64))>,
    nodes: Vec<(String, NodeRow)>,
    /// Index of the metric, and of its next row.
    at: (usize, usize),
}

impl ObjectsPage {
    /// Starts a page of the objects that have had requests.
    pub(crate) fn new<'a>(
        cores: Cores,
        nodes: Vec<NodeRow>,
        routes: impl Iterator<Item = RouteLabels<'a>>,
        upstreams: impl Iterator<Item = UpstreamLabels<'a>>,
    ) -> Self {
        let is_used = |row| cores.iter().any(|core| core.routes().is_used(row));
        let used = routes.filter(|it| is_used(RouteRow::Numbered(it.number)));
        let mut rows: Vec<(RouteRow, String)> = used
            .map(|RouteLabels { number, route, service, upstream }| {
                let pairs = [("route", route), ("service", service), ("upstream", upstream)];
                (RouteRow::Numbered(number), labels(pairs))
            })
            .collect();
        rows.sort_by(|one, other| one.1.cmp(&other.1));
        if is_used(RouteRow::Other) {
            let pairs = [("route", OTHER), ("service", OTHER), ("upstream", OTHER)];
            rows.push((RouteRow::Other, labels(pairs)));
        }
        let upstreams = upstreams.filter_map(|UpstreamLabels { number, upstream }| {
            let counts = cores.iter().map(|core| core.upstreams().totals(number));
            let counts = counts.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
            (counts.0 > 0).then(|| (labels([("upstream", upstream)]), counts))
        });
        let upstreams = upstreams.collect();
        let nodes = nodes.into_iter().map(|row| {
            let node = row.0.map_or_else(|| OTHER.to_owned(), |address| address.to_string());
            (labels([("node", &*node)]), row)
        });
        let nodes = nodes.collect();
        Self { cores, routes: rows, upstreams, nodes, at: (0, 0) }
    }

    /// Writes the next piece; `false` if nothing was left.
    pub fn write(&mut self, page: &mut Exposition) -> bool {
        let (mut place, mut row) = self.at;
        let is_left = place < ObjectMetric::ALL.len();
        while place < ObjectMetric::ALL.len() && page.len() < PIECE_BYTES {
            let of = ObjectMetric::ALL[place];
            if row == 0 {
                let metric = of.metric();
                page.family(metric.name, metric.help, metric.kind);
            }
            if self.write_row(of, row, page).is_some() {
                row += 1;
            } else {
                (place, row) = (place + 1, 0);
            }
        }
        self.at = (place, row);
        is_left
    }

    /// Writes one row of a metric; `None` beyond the last row.
    fn write_row(&self, of: ObjectMetric, row: usize, page: &mut Exposition) -> Option<()> {
        match of {
            ObjectMetric::RouteRequests | ObjectMetric::RouteDuration => {
                let (route, labels) = self.routes.get(row)?;
                let mut totals = RequestTotals::default();
                self.cores.iter().for_each(|core| core.routes().add_to(*route, &mut totals));
                match of {
                    ObjectMetric::RouteRequests => write_classes(labels, &totals, page),
                    _ => write_durations(labels, &totals, page),
                }
            }
            ObjectMetric::UpstreamRequests | ObjectMetric::UpstreamFailed => {
                let (labels, (requests, failed)) = self.upstreams.get(row)?;
                let is_all = of == ObjectMetric::UpstreamRequests;
                page.sample(labels, if is_all { *requests } else { *failed });
            }
            ObjectMetric::NodeRequests | ObjectMetric::NodeFailed | ObjectMetric::NodeDuration => {
                let (labels, (_, counts)) = self.nodes.get(row)?;
                let (totals, failed) = node_series::sum(counts);
                match of {
                    ObjectMetric::NodeRequests => write_classes(labels, &totals, page),
                    ObjectMetric::NodeFailed => page.sample(labels, failed),
                    _ => write_durations(labels, &totals, page),
                }
            }
        }
        Some(())
    }
}

/// Writes the counts by class. The usual classes are always there, so that the first failure is an
/// increase and not a new series.
fn write_classes(labels: &str, totals: &RequestTotals, page: &mut Exposition) {
    for (class, count) in StatusClass::ALL.iter().zip(totals.classes) {
        let is_rare = matches!(class, StatusClass::Informational | StatusClass::Other);
        if !is_rare || count > 0 {
            page.sample(&format!("{labels},class=\"{}\"", class.text()), count);
        }
    }
}

fn write_durations(labels: &str, totals: &RequestTotals, page: &mut Exposition) {
    let exemplars: &[Option<Exemplar>; CLASSIC_BUCKETS] = &totals.exemplars;
    page.durations(labels, &totals.durations, exemplars);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tollhouse_stdx::Endpoint;

    use super::*;
    use crate::Metrics;
    use crate::exposition::Format;
    use crate::histogram::Observation;
    use crate::object_counts::RequestOutcome;
    use crate::route_series::RouteRequest;

    const NAMES: [&str; 3] = ["r0", "r1", "r2"];

    fn route<'a>(number: u32) -> RouteLabels<'a> {
        let route = NAMES.get(number as usize).copied().unwrap_or("more");
        RouteLabels { number, route, service: "s", upstream: "" }
    }

    fn request(status: u16) -> RouteRequest {
        RouteRequest {
            class: StatusClass::from_status(status),
            outcome: RequestOutcome::Succeeded,
            duration: Observation::from_ms(3),
        }
    }

    fn text(metrics: &Metrics, routes: u32) -> String {
        let upstream = UpstreamLabels { number: 4, upstream: "u" };
        let mut objects = metrics.objects_page((0..routes).map(route), [upstream].into_iter());
        let mut page = Exposition::new(Format::Text);
        let mut text = Vec::new();
        while objects.write(&mut page) {
            text.extend(page.take());
        }
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn routes_upstreams_and_nodes_are_named_over_all_cores() {
        let metrics = Metrics::new();
        let cores = [metrics.for_core(), metrics.for_core()];
        let address = Endpoint::Ip(SocketAddr::from(([10, 0, 0, 1], 80)));
        for core in &cores {
            core.routes().count(1, request(200));
            core.upstreams().count(4, RequestOutcome::Succeeded);
            core.nodes().counts(address).answered(200, Observation::from_ms(2));
        }
        cores[0].routes().count(1, request(101));
        cores[1].nodes().counts(address).fail();
        let text = text(&metrics, 3);
        for line in [
            "tollhouse_route_requests_total{route=\"r1\",service=\"s\",upstream=\"\",class=\"1xx\"} 1\n",
            "tollhouse_route_requests_total{route=\"r1\",service=\"s\",upstream=\"\",class=\"2xx\"} 2\n",
            "tollhouse_route_requests_total{route=\"r1\",service=\"s\",upstream=\"\",class=\"5xx\"} 0\n",
            "tollhouse_route_request_duration_seconds_count{route=\"r1\",service=\"s\",upstream=\"\"} 3\n",
            "tollhouse_upstream_requests_total{upstream=\"u\"} 2\n",
            "tollhouse_upstream_requests_failed_total{upstream=\"u\"} 0\n",
            "tollhouse_node_requests_total{node=\"10.0.0.1:80\",class=\"2xx\"} 2\n",
            "tollhouse_node_requests_failed_total{node=\"10.0.0.1:80\"} 1\n",
            "tollhouse_node_response_duration_seconds_sum{node=\"10.0.0.1:80\"} 0.004\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("r2") && !text.contains("class=\"other\""), "{text}");
    }

    #[test]
    fn a_page_of_many_routes_comes_in_pieces() {
        const ROUTES: u32 = 1_000;
        let metrics = Metrics::new();
        let core = metrics.for_core();
        (0..ROUTES).for_each(|number| core.routes().count(number, request(200)));
        let mut objects = metrics.objects_page((0..ROUTES).map(route), std::iter::empty());
        let mut page = Exposition::new(Format::Text);
        let mut pieces = Vec::new();
        while objects.write(&mut page) {
            pieces.push(page.take());
        }
        assert!(pieces.len() > 4 && pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES));
        let text = String::from_utf8(pieces.concat()).expect("text");
        let requests = text.matches("class=\"2xx\"} 1\n").count();
        assert_eq!((requests, text.matches("# TYPE").count()), (1_000, ObjectMetric::ALL.len()));
    }
}
