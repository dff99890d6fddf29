//! All metrics of the gateway, one entry each: name, help text and counting field. The exposition
//! and the reference page are generated from these lists.
//!
//! Names are `tollhouse_<noun>_<unit>[_total]`, except those of ShenYu, for which users have
//! dashboards. Label values are closed sets. Counting and rendering are implemented elsewhere.

pub mod objects;
pub mod registry;

use crate::codes::ErrorCode;
use crate::counters::{Counter, Family, Gauge, SharedCounter, SharedGauge};
use crate::exposition::{Exposition, labels};
use crate::histogram::{Histogram, MillisecondHistogram, SharedHistogram};
use crate::labels::{ConnectionRefusal, DatagramDrop, HandshakeFailure, ShenyuType, StatusClass};
use crate::prometheus::Measure;

/// Name, help text and type of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name of the metric, prefix included.
    pub name: &'static str,
    /// Help text of one sentence.
    pub help: &'static str,
    /// Type of the metric: `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Name of the label, if the metric has one.
    pub label: Option<&'static str>,
}

macro_rules! catalogue {
    ($(#[$doc:meta])* $block:ident { $($field:ident: $cell:ty = $name:literal, $help:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $block {
            $(#[doc = $help] pub $field: $cell,)*
        }

        impl $block {
            /// The metrics of this block, in the order of the page.
            pub const METRICS: &'static [Metric] = &[$(Metric {
                name: $name,
                help: $help,
                kind: <$cell as Measure>::KIND,
                label: <$cell as Measure>::LABEL,
            }),*];

            /// Sums over all `blocks` and writes each metric.
            pub(crate) fn render(blocks: &[&Self], page: &mut Exposition) {
                $(
                    page.family($name, $help, <$cell as Measure>::KIND);
                    <$cell as Measure>::render(blocks.iter().map(|block| &block.$field), page);
                )*
            }
        }
    };
}

catalogue! {
    /// Traffic counters of one core, which is their only writer. Aligned to two cache lines, which
    /// processors prefetch in pairs, so that cores never share a line.
    #[repr(align(128))]
    CoreMetrics {
        requests: Family<StatusClass, { StatusClass::COUNT }> =
            "tollhouse_requests_total", "Requests answered, by class of status.";
        requests_failed: Family<ErrorCode, { ErrorCode::COUNT }> =
            "tollhouse_requests_failed_total",
            "Requests that the gateway refused or failed itself, by error code.";
        requests_open: Gauge =
            "tollhouse_requests_open", "Requests in progress: the head is read, and the answer is not complete.";
        request_duration: Histogram =
            "tollhouse_request_duration_seconds",
            "Time from the first byte of a request to the last byte of its answer.";
        upstream_duration: Histogram =
            "tollhouse_upstream_duration_seconds",
            "Time that a node took until the head of its answer.";
        downstream_connections_accepted: Counter =
            "tollhouse_downstream_connections_accepted_total", "Client connections accepted.";
        downstream_connections_open: Gauge =
            "tollhouse_downstream_connections_open", "Client connections open now.";
        downstream_connections_refused: Family<ConnectionRefusal, { ConnectionRefusal::COUNT }> =
            "tollhouse_downstream_connections_refused_total",
            "Client connections closed before their first request, by reason.";
        downstream_tls_handshakes: Counter =
            "tollhouse_downstream_tls_handshakes_total", "TLS handshakes with clients that succeeded.";
        downstream_tls_handshakes_resumed: Counter =
            "tollhouse_downstream_tls_handshakes_resumed_total",
            "TLS handshakes in which the client resumed a session with a ticket.";
        downstream_tls_handshakes_failed: Family<HandshakeFailure, { HandshakeFailure::COUNT }> =
            "tollhouse_downstream_tls_handshakes_failed_total",
            "TLS handshakes with clients that failed, by code.";
        downstream_tls_handshakes_open: Gauge =
            "tollhouse_downstream_tls_handshakes_open", "TLS handshakes with clients under way now.";
        downstream_http2_connections: Counter =
            "tollhouse_downstream_http2_connections_total", "Client connections that speak HTTP/2.";
        downstream_http2_connections_failed: Counter =
            "tollhouse_downstream_http2_connections_failed_total",
            "Client connections of HTTP/2 closed because of a protocol error or an exceeded limit.";
        downstream_http2_streams: Counter =
            "tollhouse_downstream_http2_streams_total",
            "Streams that clients opened, counted when their connection ends.";
        downstream_http2_streams_refused: Counter =
            "tollhouse_downstream_http2_streams_refused_total",
            "Streams refused because their connection had reached its limit of streams, counted when it ends.";
        downstream_http2_streams_stalled: Counter =
            "tollhouse_downstream_http2_streams_stalled_total",
            "Streams reset because the client did not read their answers, counted when their connection ends.";
        downstream_http2_resets: Counter =
            "tollhouse_downstream_http2_resets_total",
            "Streams that clients reset, or made the gateway reset, counted when their connection ends.";
        downstream_http2_malformed: Counter =
            "tollhouse_downstream_http2_malformed_total",
            "Requests of HTTP/2 refused as malformed, counted when their connection ends.";
        downstream_received_bytes: Counter =
            "tollhouse_downstream_received_bytes_total", "Bytes received from clients.";
        downstream_sent_bytes: Counter =
            "tollhouse_downstream_sent_bytes_total", "Bytes sent to clients.";
        upstream_connections_opened: Counter =
            "tollhouse_upstream_connections_opened_total", "Connections opened to nodes.";
        upstream_connections_open: Gauge =
            "tollhouse_upstream_connections_open", "Connections to nodes open now, idle ones included.";
        upstream_connections_reused: Counter =
            "tollhouse_upstream_connections_reused_total",
            "Requests sent on a connection that had served another.";
        upstream_connections_dead: Counter =
            "tollhouse_upstream_connections_dead_total",
            "Idle connections found closed by the node when they were to be reused.";
        upstream_connections_failed: Counter =
            "tollhouse_upstream_connections_failed_total",
            "Connections to nodes that were refused, unreachable, too slow, or failed TLS.";
        upstream_retries: Counter =
            "tollhouse_upstream_retries_total", "Attempts after the first one of a request.";
        stream_connections: Counter =
            "tollhouse_stream_connections_total", "Connections below HTTP accepted.";
        stream_connections_open: Gauge =
            "tollhouse_stream_connections_open", "Connections below HTTP open now.";
        stream_failed: Family<ErrorCode, { ErrorCode::COUNT }> =
            "tollhouse_stream_failed_total",
            "Connections below HTTP and datagram sessions that were refused, failed or aborted, by error code.";
        stream_received_bytes: Counter =
            "tollhouse_stream_received_bytes_total",
            "Bytes received from clients of stream routes and passed on.";
        stream_sent_bytes: Counter =
            "tollhouse_stream_sent_bytes_total", "Bytes sent to clients of stream routes.";
        udp_sessions: Counter =
            "tollhouse_udp_sessions_total", "Datagram sessions started.";
        udp_sessions_open: Gauge =
            "tollhouse_udp_sessions_open", "Datagram sessions open now.";
        udp_sessions_displaced: Counter =
            "tollhouse_udp_sessions_displaced_total",
            "Unused datagram sessions that were ended early to make room for newer ones.";
        udp_datagrams_dropped: Family<DatagramDrop, { DatagramDrop::COUNT }> =
            "tollhouse_udp_datagrams_dropped_total", "Datagrams that were not passed on, by reason.";
    }
}

catalogue! {
    /// Counters of one core for requests handled by ShenYu objects, with the names of ShenYu's
    /// plugin `metrics`. The core is their only writer. Aligned as `CoreMetrics`.
    #[repr(align(128))]
    ShenyuMetrics {
        requests: Counter = "shenyu_request_total", "Requests that ShenYu's objects took.";
        request_types: Family<ShenyuType, { ShenyuType::COUNT }> =
            "shenyu_request_type_total", "The same by how they were carried.";
        requests_thrown: Counter =
            "shenyu_request_throw_total", "Those that the gateway refused or failed itself for an error.";
        latency: MillisecondHistogram =
            "shenyu_execute_latency_millis", "Time from their first byte to the last byte of their answer.";
        rate_limited: Counter =
            "shenyu_ratelimiter_request_restrict_total", "Requests that `rateLimiter` refused.";
        sentinel_limited: Counter =
            "shenyu_sentinel_request_restrict_total", "Requests that a flow rule of `sentinel` refused.";
        sentinel_broken: Counter =
            "shenyu_sentinel_request_circuitbreaker_total", "Requests that a breaker of `sentinel` refused.";
        resilience_limited: Counter =
            "shenyu_resilience4j_request_restrict_total", "Requests that a limit of `resilience4j` refused.";
        resilience_broken: Counter =
            "shenyu_resilience4j_request_circuitbreaker_total",
            "Requests that a breaker of `resilience4j` refused.";
        hystrix_broken: Counter =
            "shenyu_hystrix_request_circuitbreaker_total", "Requests that `hystrix` refused.";
    }
}

catalogue! {
    /// Counters of the process besides its traffic; any thread may write.
    ProcessMetrics {
        acme_certificates: SharedGauge =
            "tollhouse_acme_certificates", "Automatically renewed certificates in service.";
        acme_certificates_failing: SharedGauge =
            "tollhouse_acme_certificates_failing",
            "Names whose last attempt to obtain or renew a certificate has failed.";
        acme_expiry: SharedGauge =
            "tollhouse_acme_expiry_seconds",
            "Time until the first of these certificates expires; 0 without such a certificate.";
        acme_down: SharedGauge =
            "tollhouse_acme_down", "1 while certificates can neither be obtained nor renewed on this node.";
        acme_failures: SharedCounter =
            "tollhouse_acme_failures_total", "Failed attempts to obtain or renew a certificate.";
        ocsp_answers: SharedCounter =
            "tollhouse_ocsp_answers_total", "OCSP responses put into service.";
        ocsp_failures: SharedCounter =
            "tollhouse_ocsp_failures_total",
            "OCSP requests without a response that could be stapled.";
        certificates_stapled: SharedGauge =
            "tollhouse_certificates_stapled", "Certificates in service with a stapled OCSP response.";
        access_log_lines: SharedCounter =
            "tollhouse_access_log_lines_total", "Access-log lines written.";
        access_log_lines_dropped: SharedCounter =
            "tollhouse_access_log_lines_dropped_total",
            "Access-log lines lost because the disk failed or could not keep up.";
        access_log_write_failures: SharedCounter =
            "tollhouse_access_log_write_failures_total",
            "Times that writing or reopening the access log failed.";
        spans_exported: SharedCounter =
            "tollhouse_spans_exported_total", "Spans that a collector has accepted.";
        spans_lost: SharedCounter =
            "tollhouse_spans_lost_total",
            "Spans that no collector has accepted: too many were waiting, or every try failed.";
        log_entries_lost: SharedCounter =
            "tollhouse_log_entries_lost_total",
            "Entries of loggers (plugins, and ShenYu's) lost because too many were queued or their server did not accept them.";
        snapshots_published: SharedCounter =
            "tollhouse_snapshots_published_total", "Revisions of the configuration put into service.";
        snapshots_live: SharedGauge =
            "tollhouse_snapshots_live",
            "Revisions of the configuration still held by some request; more than a few for long is a leak.";
        snapshot_compile_duration: SharedHistogram =
            "tollhouse_snapshot_compile_duration_seconds",
            "Time from a change of the configuration to its publication.";
        config_problems: SharedGauge =
            "tollhouse_config_problems", "Objects of the configuration that are quarantined now.";
        config_revision: SharedGauge =
            "tollhouse_config_revision", "Revision of the configuration in service.";
        metric_series_folded: SharedCounter =
            "tollhouse_metric_series_folded_total",
            "Requests counted under labels of `other`, because a core had reached its limit of label sets or of routes.";
        store_down: SharedGauge =
            "tollhouse_store_down",
            "1 while the configuration store cannot be read; the configuration in service stays.";
        store_doubtful: SharedGauge =
            "tollhouse_store_doubtful",
            "1 while the content of a shared store is not trusted (it was emptied or replaced), is an incomplete import, or is older than content read before.";
        store_revision: SharedGauge =
            "tollhouse_store_revision",
            "Revision of the newest change of the store that is in service; 0 without a store.";
        store_watch_behind_time: SharedGauge =
            "tollhouse_store_watch_behind_seconds",
            "Age of the oldest commit to a shared etcd that its watch has not delivered; 0 while the watch is up to date.";
        store_watch_behind_revisions: SharedGauge =
            "tollhouse_store_watch_behind_revisions",
            "Revisions between the newest commit that the watch of a shared etcd must deliver and the last one that it has delivered.";
        store_differences: SharedCounter =
            "tollhouse_store_differences_total",
            "Objects in service that differed from a shared store, detected by comparison and corrected.";
        store_rewinds: SharedCounter =
            "tollhouse_store_rewinds_total",
            "Times that a shared store was at an earlier revision than one read before.";
        store_copy_written: SharedGauge =
            "tollhouse_store_copy_written_seconds",
            "Time of the newest change in the copy of a shared store that a start without the store serves, in seconds since 1970.";
        store_copy_in_service: SharedGauge =
            "tollhouse_store_copy_in_service",
            "1 while that copy serves, because the store has been away since the start.";
        admin_down: SharedGauge =
            "tollhouse_admin_down", "1 while the Admin API cannot be served.";
        admin_keys_refused: SharedCounter =
            "tollhouse_admin_keys_refused_total",
            "Wrong keys sent to the Admin API or entered at the console's sign-in.";
        registry_down: SharedGauge =
            "tollhouse_registry_down", "1 while the service registry cannot be served.";
        shenyu_admin_down: SharedGauge =
            "tollhouse_shenyu_admin_down", "1 while ShenYu's admin cannot be served.";
        start_time_seconds: SharedGauge =
            "tollhouse_start_time_seconds", "When the process started, in seconds since 1970.";
    }
}

/// The running build. The value is always 1; the labels hold the information, to be joined with
/// other metrics.
pub const BUILD_INFO: Metric = Metric {
    name: "tollhouse_build_info",
    help: "Always 1; the labels say which version runs, how it was built, and for which processor.",
    kind: "gauge",
    label: Some("version,profile,arch"),
};

/// Expiry of the certificates of SSL objects.
pub const CERTIFICATE_EXPIRY: Metric = Metric {
    name: "tollhouse_certificate_expiry_seconds",
    help: "When the certificate of an ssl object ends, in seconds since 1970; of several, the first.",
    kind: "gauge",
    label: Some("ssl"),
};

/// Requests refused by plugins.
pub const PLUGIN_REFUSALS: Metric = Metric {
    name: "tollhouse_requests_refused_total",
    help: "Requests that plugins refused, by plugin and error code; they are among the failed ones.",
    kind: "counter",
    label: Some("plugin,code"),
};

/// Time that plugins take.
pub const PLUGIN_DURATION: Metric = Metric {
    name: "tollhouse_plugin_duration_seconds",
    help: "Time that a plugin takes in one phase of a request, waits included; one request in 64 is timed.",
    kind: "histogram",
    label: Some("plugin"),
};

/// Findings about the gateway, as `tollhouse status` prints it.
pub const FINDINGS: Metric = Metric {
    name: "tollhouse_findings",
    help: "What is wrong now, by severity and kind, as `tollhouse status` and the console list it.",
    kind: "gauge",
    label: Some("severity,kind"),
};

/// Writes the expiry of certificates, from the id and the end of validity of each SSL object.
pub fn render_certificates<'a>(ends: impl Iterator<Item = (&'a str, i64)>, page: &mut Exposition) {
    page.family(CERTIFICATE_EXPIRY.name, CERTIFICATE_EXPIRY.help, CERTIFICATE_EXPIRY.kind);
    for (id, end) in ends {
        page.sample(&labels([("ssl", id)]), end);
    }
}

/// Writes the metric with version, profile and architecture of the build.
pub(crate) fn render_build_info(page: &mut Exposition) {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let build = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("profile", profile),
        ("arch", std::env::consts::ARCH),
    ];
    page.family(BUILD_INFO.name, BUILD_INFO.help, BUILD_INFO.kind);
    page.sample(&labels(build), 1u64);
}

/// Returns every metric, in the order of the page.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    let process = ProcessMetrics::METRICS.iter().chain([
        &BUILD_INFO,
        &CERTIFICATE_EXPIRY,
        &PLUGIN_REFUSALS,
        &PLUGIN_DURATION,
        &FINDINGS,
    ]);
    let traffic = CoreMetrics::METRICS.iter().chain(ShenyuMetrics::METRICS);
    traffic.chain(objects::METRICS).chain(process).chain(registry::METRICS)
}

/// Returns the reference page of the metrics.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Generated from the source; do not edit.\n\n\
         | name | type | label | what it counts |\n| --- | --- | --- | --- |\n",
    );
    for metric in metrics() {
        let label = metric.label.map_or_else(String::new, |label| format!("`{label}`"));
        page.push_str(&format!(
            "| `{}` | {} | {label} | {} |\n",
            metric.name, metric.kind, metric.help
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_rule_and_are_unique() {
        let mut seen = HashSet::new();
        for metric in metrics() {
            let name = metric.name;
            assert!(seen.insert(name), "{name} twice");
            let is_shenyus = ShenyuMetrics::METRICS.iter().any(|it| it.name == name);
            let prefix = if is_shenyus { "shenyu_" } else { "tollhouse_" };
            assert!(name.starts_with(prefix), "{name}");
            assert!(
                name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')),
                "{name}"
            );
            assert_eq!(metric.kind == "counter", name.ends_with("_total"), "{name}");
            assert!(metric.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn the_reference_page_has_every_metric() {
        let page = reference_markdown();
        for metric in metrics() {
            assert!(page.contains(metric.name), "{}", metric.name);
        }
        assert!(page.contains("| `tollhouse_requests_failed_total` | counter | `code` |"));
    }

    #[test]
    fn blocks_of_two_cores_share_no_cache_line() {
        assert_eq!(align_of::<CoreMetrics>(), 128);
        assert_eq!(size_of::<CoreMetrics>() % 128, 0);
    }
}
