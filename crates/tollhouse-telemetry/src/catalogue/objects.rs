//! Names and help texts of the metrics whose labels are routes, upstreams and nodes.

use super::Metric;

macro_rules! metrics {
    ($($variant:ident: $kind:literal, $name:literal, $label:literal, $help:literal;)*) => {
        /// A metric about routes, upstreams or nodes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ObjectMetric {
            $(#[doc = $help] $variant,)*
        }

        impl ObjectMetric {
            /// These metrics, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name and help text.
            pub fn metric(self) -> &'static Metric {
                &METRICS[self as usize]
            }
        }

        /// These metrics, in the order of the page.
        pub const METRICS: &[Metric] = &[$(
            Metric { name: $name, help: $help, kind: $kind, label: Some($label) },
        )*];
    };
}

metrics! {
    RouteRequests: "counter", "tollhouse_route_requests_total", "route,service,upstream,class",
        "Requests of a route, by class of status; `other` stands for routes beyond the limit of a core.";
    RouteDuration: "histogram", "tollhouse_route_request_duration_seconds", "route,service,upstream",
        "Time from the first byte of a request of the route to the last byte of its answer.";
    UpstreamRequests: "counter", "tollhouse_upstream_requests_total", "upstream",
        "Requests that an upstream object took.";
    UpstreamFailed: "counter", "tollhouse_upstream_requests_failed_total", "upstream",
        "Those of an upstream object that the gateway failed, or that were answered with 500 or higher.";
    NodeRequests: "counter", "tollhouse_node_requests_total", "node,class",
        "Answers of a node, by class of status; `other` stands for nodes beyond the limit of a core.";
    NodeFailed: "counter", "tollhouse_node_requests_failed_total", "node",
        "Attempts at a node that it did not answer: refused, reset, too slow, or not valid HTTP.";
    NodeDuration: "histogram", "tollhouse_node_response_duration_seconds", "node",
        "Time that the node took until the head of its answer.";
}
