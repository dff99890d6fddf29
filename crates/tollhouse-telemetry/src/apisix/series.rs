//! A label set of one metric on one core: the formatted labels, and numbers that only this core
//! writes.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::LABEL_BYTES_MAX;
use super::family::{Family, Hidden, LabelName};
use super::settings::Settings;
use crate::exposition::push_escaped;

/// Labels and measurements of one request.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Status that the client received.
    pub code: u16,
    pub source: ResponseSource,
    pub values: Values<'a>,
    /// Duration from the first byte of the request to the last byte of the response, in
    /// milliseconds.
    pub request_ms: u64,
    /// Part of `request_ms` that the node took; `None` if the request reached no node.
    pub upstream_ms: Option<u64>,
    pub ingress_bytes: u64,
    pub egress_bytes: u64,
    /// Current time, in seconds since 1970.
    pub now_s: u64,
}

/// Values of the labels that vary between requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values<'a> {
    /// Id or name of the route.
    pub route: &'a [u8],
    /// Path pattern that the request matched.
    pub matched_uri: &'a [u8],
    /// Host pattern that the request matched.
    pub matched_host: &'a [u8],
    /// Id or name of the service.
    pub service: &'a [u8],
    /// Name of the authenticated consumer; empty without one.
    pub consumer: &'a [u8],
    /// Address of the last node tried.
    pub node: &'a [u8],
    /// Values of the variables in [`Settings::variables`], in that order.
    pub extra: &'a [Cow<'a, [u8]>],
}

/// Origin of a response: gateway, proxy, or node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseSource {
    /// The gateway or one of its plugins.
    Gateway,
    /// The gateway, because no node answered. In APISIX this is nginx, which is the value that
    /// dashboards expect.
    Proxy,
    Upstream,
}

impl ResponseSource {
    fn text(self) -> &'static str {
        match self {
            ResponseSource::Gateway => "apisix",
            ResponseSource::Proxy => "nginx",
            ResponseSource::Upstream => "upstream",
        }
    }
}

impl<'a> Values<'a> {
    /// Returns the varying labels with their values, in a fixed order.
    #[inline]
    pub(super) fn each(&self) -> [(LabelName, &'a [u8]); 6] {
        [
            (LabelName::Route, self.route),
            (LabelName::MatchedUri, self.matched_uri),
            (LabelName::MatchedHost, self.matched_host),
            (LabelName::Service, self.service),
            (LabelName::Consumer, self.consumer),
            (LabelName::Node, self.node),
        ]
    }

    fn value(&self, label: LabelName) -> &'a [u8] {
        match label {
            LabelName::RequestType => b"traditional_http",
            LabelName::RequestLlmModel | LabelName::LlmModel | LabelName::ResponseSource => b"",
            _ => self.each().into_iter().find(|(other, _)| *other == label).map_or(b"", |of| of.1),
        }
    }
}

/// Values of the label `type` for latencies, in the order of their cells.
pub(super) const LATENCY_TYPES: [&str; 3] = ["request", "upstream", "apisix"];
/// Values of the label `type` for bandwidth, in the order of their cells.
pub(super) const BANDWIDTH_TYPES: [&str; 2] = ["ingress", "egress"];

/// A label set of one metric on one core.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) family: Family,
    /// Formatted labels, without `type` and `le`.
    pub(super) labels: Arc<str>,
    cells: Box<[AtomicU64]>,
    /// Time of the last count; only maintained if label sets expire.
    touched_s: AtomicU64,
    /// Set once the core has removed the series from its tables.
    is_retired: AtomicBool,
}

impl Series {
    pub(super) fn new(family: Family, labels: Arc<str>, settings: &Settings) -> Self {
        let cells = match family {
            Family::Status => 1,
            Family::Bandwidth => BANDWIDTH_TYPES.len(),
            Family::Latency => LATENCY_TYPES.len() * histogram_cells(settings),
        };
        Self {
            family,
            labels,
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            touched_s: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
        }
    }

    pub(super) fn cells(&self) -> &[AtomicU64] {
        &self.cells
    }

    /// Adds to a cell. Only correct with a single writer: a load and a store.
    #[inline]
    pub(super) fn add(&self, cell: usize, amount: u64) {
        let cell = &self.cells[cell];
        cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Counts a duration. `kind` is an index into [`LATENCY_TYPES`].
    #[inline]
    pub(super) fn observe(&self, kind: usize, duration_ms: u64, settings: &Settings) {
        let bounds = settings.buckets_ms();
        let duration = duration_ms as f64;
        let bucket = bounds.iter().position(|bound| duration <= *bound).unwrap_or(bounds.len());
        let base = kind * histogram_cells(settings);
        self.add(base + bucket, 1);
        self.add(base + bounds.len() + 1, duration_ms);
    }

    /// Records the time of a count. An expired series restarts at zero, as if it had been removed.
    #[inline]
    pub(super) fn touch(&self, now_s: u64, expire_s: u64) {
        if expire_s == 0 {
            return;
        }
        if self.touched_s.load(Relaxed) > 0 && self.is_expired(now_s, expire_s) {
            self.cells.iter().for_each(|cell| cell.store(0, Relaxed));
        }
        self.touched_s.store(now_s, Relaxed);
    }

    pub(super) fn is_expired(&self, now_s: u64, expire_s: u64) -> bool {
        expire_s > 0 && now_s.saturating_sub(self.touched_s.load(Relaxed)) > expire_s
    }

    pub(super) fn retire(&self) {
        self.is_retired.store(true, Relaxed);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Relaxed)
    }
}

/// Returns the number of cells of one histogram: the bounded buckets, the unbounded one, the sum.
pub(super) fn histogram_cells(settings: &Settings) -> usize {
    settings.buckets_ms().len() + 2
}

/// Formats the labels of `served` in `family`, without `type` and `le`.
pub(super) fn labels_of(
    family: Family,
    served: &Served<'_>,
    hidden: &Hidden,
    settings: &Settings,
) -> String {
    let mut text = String::new();
    if family == Family::Status {
        push_label(&mut text, "code", served.code.to_string().as_bytes());
    }
    for label in family.labels() {
        let value: &[u8] = match label {
            label if hidden.hidden_in(family).has(*label) => b"",
            LabelName::ResponseSource => served.source.text().as_bytes(),
            label => served.values.value(*label),
        };
        push_label(&mut text, label.text(), value);
    }
    for extra in &settings.family(family).extra_labels {
        let place = settings.place_of(&extra.variable);
        let value = place.and_then(|place| served.values.extra.get(place));
        push_label(&mut text, &extra.name, value.map_or(b"", |value| value));
    }
    text
}

fn push_label(text: &mut String, name: &str, value: &[u8]) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    push_escaped(text, &value[..value.len().min(LABEL_BYTES_MAX)]);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apisix::family::LabelSet;

    fn served(values: Values<'_>) -> Served<'_> {
        Served {
            code: 200,
            source: ResponseSource::Upstream,
            values,
            request_ms: 7,
            upstream_ms: Some(5),
            ingress_bytes: 10,
            egress_bytes: 20,
            now_s: 100,
        }
    }

    const VALUES: Values<'static> = Values {
        route: b"r1",
        matched_uri: b"/a/*",
        matched_host: b"*.x",
        service: b"s",
        consumer: b"jack",
        node: b"10.0.0.1",
        extra: &[],
    };

    #[test]
    fn labels_stand_in_the_order_that_dashboards_know() {
        let (hidden, settings) = (Hidden::default(), Settings::default());
        let status = labels_of(Family::Status, &served(VALUES), &hidden, &settings);
        assert_eq!(
            status,
            "code=\"200\",route=\"r1\",matched_uri=\"/a/*\",matched_host=\"*.x\",service=\"s\",\
             consumer=\"jack\",node=\"10.0.0.1\",request_type=\"traditional_http\",\
             request_llm_model=\"\",llm_model=\"\",response_source=\"upstream\""
        );
        let latency = labels_of(Family::Latency, &served(VALUES), &hidden, &settings);
        assert_eq!(
            latency,
            "route=\"r1\",service=\"s\",consumer=\"jack\",node=\"10.0.0.1\",\
             request_type=\"traditional_http\",request_llm_model=\"\",llm_model=\"\""
        );
        assert_eq!(latency, labels_of(Family::Bandwidth, &served(VALUES), &hidden, &settings));
    }

    #[test]
    fn hidden_labels_are_empty_where_they_are_hidden() {
        let set = LabelSet::default().with(LabelName::ResponseSource).with(LabelName::RequestType);
        let hidden = Hidden::new([set, LabelSet::default(), LabelSet::default()]);
        let settings = Settings::default();
        let status = labels_of(Family::Status, &served(VALUES), &hidden, &settings);
        assert!(status.contains("request_type=\"\"") && status.ends_with("response_source=\"\""));
        let latency = labels_of(Family::Latency, &served(VALUES), &hidden, &settings);
        assert!(latency.contains("request_type=\"traditional_http\""), "{latency}");
    }

    #[test]
    fn values_are_escaped_and_cut() {
        let mut text = String::new();
        push_label(&mut text, "a", b"x\"y\\z\n\xff");
        assert_eq!(text, "a=\"x\\\"y\\\\z\\n\u{fffd}\"");
        let mut text = String::new();
        push_label(&mut text, "a", &vec![b'x'; LABEL_BYTES_MAX + 1]);
        assert_eq!(text.len(), "a=\"\"".len() + LABEL_BYTES_MAX);
    }

    #[test]
    fn an_expired_set_begins_anew_when_it_is_counted() {
        let series = Series::new(Family::Status, "".into(), &Settings::default());
        for (now_s, expected) in [(10, 1), (15, 2), (21, 1)] {
            series.touch(now_s, 5);
            series.add(0, 1);
            assert_eq!(series.cells()[0].load(Relaxed), expected, "at {now_s}");
        }
        assert!(!series.is_expired(26, 5) && series.is_expired(27, 5));
        assert!(!series.is_expired(1_000, 0), "0 is never");
    }
}
