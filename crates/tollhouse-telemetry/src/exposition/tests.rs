//! Tests of the formats on one small page.

use prost::Message;

use super::messages::{Metric, kinds};
use super::*;
use crate::exemplars::TraceId;
use crate::histogram::{Histogram, SCHEMA, ZERO_THRESHOLD_S};

/// A `MetricFamily` as a reader decodes it.
#[derive(Clone, PartialEq, prost::Message)]
struct Family {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

/// A page with a counter, a gauge, and a histogram with an exemplar.
fn page(format: Format) -> Vec<u8> {
    let mut page = Exposition::new(format);
    page.family("x_requests_total", "Requests \"answered\".", "counter");
    page.sample(&labels([("route", "a\"b"), ("class", "2xx")]), 7u64);
    page.family("x_status", "A counter with another name.", "counter");
    page.sample("", 1u64);
    page.family("x_open", "Open ones.", "gauge");
    page.sample("", -2i64);
    page.family("x_seconds", "Durations.", "histogram");
    let histogram = Histogram::default();
    [0, 1, 3, 60_001].into_iter().for_each(|ms| histogram.observe_ms(ms));
    let mut totals = Totals::default();
    histogram.add_to(&mut totals);
    let mut exemplars = [None; CLASSIC_BUCKETS];
    let trace = TraceId::new([0xab; 16]).expect("a trace");
    exemplars[2] = Some(Exemplar { trace, duration_ms: 3, unix_ms: 1_500 });
    page.durations("route=\"r\"", &totals, &exemplars);
    page.finish()
}

fn text(format: Format) -> String {
    String::from_utf8(page(format)).expect("text")
}

fn families(mut page: &[u8]) -> Vec<Family> {
    let mut all = Vec::new();
    while !page.is_empty() {
        all.push(Family::decode_length_delimited(&mut page).expect("a family"));
    }
    all
}

#[test]
fn the_text_format_has_cumulative_buckets_and_no_exemplars() {
    let text = text(Format::Text);
    assert!(text.starts_with(
        "# HELP x_requests_total Requests \"answered\".\n# TYPE x_requests_total counter\n\
         x_requests_total{route=\"a\\\"b\",class=\"2xx\"} 7\n\
         # HELP x_status A counter with another name.\n# TYPE x_status counter\nx_status 1\n"
    ));
    assert!(text.contains("x_open -2\n"), "{text}");
    for line in [
        "x_seconds_bucket{route=\"r\",le=\"0.001\"} 2\n",
        "x_seconds_bucket{route=\"r\",le=\"0.002\"} 2\n",
        "x_seconds_bucket{route=\"r\",le=\"0.005\"} 3\n",
        "x_seconds_bucket{route=\"r\",le=\"60\"} 3\nx_seconds_bucket{route=\"r\",le=\"+Inf\"} 4\n",
        "x_seconds_count{route=\"r\"} 4\nx_seconds_sum{route=\"r\"} 60.005\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("trace_id") && !text.contains("EOF"), "{text}");
}

#[test]
fn openmetrics_has_exemplars_and_an_end() {
    let text = text(Format::OpenMetrics);
    for line in [
        "# HELP x_requests Requests \\\"answered\\\".\n# TYPE x_requests counter\nx_requests_total{",
        "# TYPE x_status unknown\nx_status 1\n",
        "le=\"0.005\"} 3 # {trace_id=\"abababababababababababababababab\"} 0.003 1.5\n",
        "le=\"60.0\"} 3\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.ends_with("x_seconds_sum{route=\"r\"} 60.005\n# EOF\n"), "{text}");
}

#[test]
fn protocol_buffers_have_native_histograms() {
    let families = families(&page(Format::Protobuf));
    let names: Vec<_> = families.iter().filter_map(|family| family.name.as_deref()).collect();
    assert_eq!(names, ["x_requests_total", "x_status", "x_open", "x_seconds"]);
    let [requests, _, open, seconds] = &families[..] else { panic!("{families:?}") };
    assert_eq!(requests.kind, Some(kinds::COUNTER));
    let label = &requests.metric[0].label[0];
    assert_eq!((label.name.as_deref(), label.value.as_deref()), (Some("route"), Some("a\"b")));
    assert_eq!(requests.metric[0].counter.and_then(|value| value.value), Some(7.0));
    assert_eq!(open.metric[0].gauge.and_then(|value| value.value), Some(-2.0));
    let histogram = seconds.metric[0].histogram.as_ref().expect("a histogram");
    assert_eq!((histogram.sample_count, histogram.sample_sum), (Some(4), Some(60.005)));
    assert_eq!(histogram.bucket.len(), CLASSIC_BUCKETS);
    assert_eq!(histogram.bucket[15].upper_bound, Some(f64::INFINITY));
    let exemplar = histogram.bucket[2].exemplar.as_ref().expect("an exemplar");
    assert_eq!((exemplar.value, histogram.exemplars.len()), (Some(0.003), 1));
    assert_eq!(histogram.schema, Some(SCHEMA));
    assert_eq!((histogram.zero_threshold, histogram.zero_count), (Some(ZERO_THRESHOLD_S), Some(1)));
    let listed: u32 = histogram.positive_span.iter().filter_map(|span| span.length).sum();
    assert_eq!(histogram.positive_span[0].offset, Some(-79));
    assert_eq!(listed as usize, histogram.positive_delta.len());
    let (mut count, mut total) = (0, 0);
    for delta in &histogram.positive_delta {
        count += delta;
        total += count;
    }
    assert_eq!(total, 3, "all but the one in the zero bucket");
}

#[test]
fn a_metric_goes_on_after_a_piece_was_taken() {
    for format in [Format::Text, Format::Protobuf] {
        let mut page = Exposition::new(format);
        page.family("x_total", "Help.", "counter");
        page.sample("a=\"1\"", 1u64);
        let mut all = page.take();
        page.sample("a=\"2\"", 2u64);
        all.extend(page.finish());
        match format {
            Format::Protobuf => {
                let families = families(&all);
                assert!(families.iter().all(|family| family.name.as_deref() == Some("x_total")));
                assert_eq!(families.len(), 2);
            }
            _ => {
                let text = String::from_utf8(all).expect("text");
                assert!(text.ends_with("x_total{a=\"1\"} 1\nx_total{a=\"2\"} 2\n"), "{text}");
                assert_eq!(text.matches("# TYPE").count(), 1);
            }
        }
    }
}

#[test]
fn labels_are_read_back_as_they_were_written() {
    let value = "a\"b\\c\nd,e=\"f\" é";
    let text = labels([("one", value), ("two", ""), ("three", "x")]);
    let pairs = label_pairs(&text);
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, it)| (&**name, &**it)).collect();
    assert_eq!(pairs, [("one", value), ("two", ""), ("three", "x")]);
    assert_eq!(label_pairs(""), []);
}
