//! Tests that count requests and check the resulting page.

use std::borrow::Cow;

use super::*;
use crate::apisix::family::{LabelName, LabelSet};
use crate::apisix::process::{BatchQueue, Connections, NodeStatus};
use crate::apisix::series::{ResponseSource, Values};
use crate::apisix::settings::{ExtraLabel, FamilySettings};

fn served(route: &str) -> Served<'_> {
    Served {
        code: 200,
        source: ResponseSource::Upstream,
        values: Values { route: route.as_bytes(), ..Values::default() },
        request_ms: 30,
        upstream_ms: Some(20),
        ingress_bytes: 100,
        egress_bytes: 1_000,
        now_s: 1_000,
    }
}

fn facts() -> ProcessFacts<'static> {
    ProcessFacts { hostname: "box", version: "3.18.0", ..ProcessFacts::default() }
}

/// The samples of one metric.
fn samples(page: &str, name: &str) -> Vec<String> {
    let is_sample =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', '_']));
    page.lines().filter(is_sample).map(str::to_owned).collect()
}

/// Labels that end every label set and are equal in all of these tests.
const REST: &str = "request_type=\"traditional_http\",request_llm_model=\"\",llm_model=\"\"";

#[test]
fn cores_are_added_up() {
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let hidden = Hidden::default();
    for requests in [1, 2, 3] {
        let traffic = Arc::clone(&traffic);
        let core = std::thread::spawn(move || {
            (0..requests).for_each(|_| traffic.count(&hidden, &served("r")));
        });
        core.join().expect("it counts and ends");
    }
    let page = traffic.render(&facts(), 1_000);
    let labels = format!("route=\"r\",service=\"\",consumer=\"\",node=\"\",{REST}");
    assert_eq!(
        samples(&page, "apisix_http_status"),
        [format!(
            "apisix_http_status{{code=\"200\",route=\"r\",matched_uri=\"\",matched_host=\"\",\
             service=\"\",consumer=\"\",node=\"\",{REST},response_source=\"upstream\"}} 6"
        )]
    );
    assert_eq!(
        samples(&page, "apisix_bandwidth"),
        [
            format!("apisix_bandwidth{{type=\"ingress\",{labels}}} 600"),
            format!("apisix_bandwidth{{type=\"egress\",{labels}}} 6000"),
        ]
    );
    let latency = samples(&page, "apisix_http_latency");
    for line in [
        format!("apisix_http_latency_bucket{{type=\"request\",{labels},le=\"20\"}} 0"),
        format!("apisix_http_latency_bucket{{type=\"request\",{labels},le=\"50\"}} 6"),
        format!("apisix_http_latency_bucket{{type=\"request\",{labels},le=\"+Inf\"}} 6"),
        format!("apisix_http_latency_count{{type=\"upstream\",{labels}}} 6"),
        format!("apisix_http_latency_sum{{type=\"upstream\",{labels}}} 120"),
        format!("apisix_http_latency_bucket{{type=\"apisix\",{labels},le=\"5\"}} 0"),
        format!("apisix_http_latency_bucket{{type=\"apisix\",{labels},le=\"10\"}} 6"),
    ] {
        assert!(latency.contains(&line), "{line} in {latency:#?}");
    }
    assert_eq!(latency.len(), 3 * 18);
}

#[test]
fn a_request_that_no_node_saw_has_no_upstream_latency() {
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let served = Served { upstream_ms: None, ..served("r") };
    traffic.count(&Hidden::default(), &served);
    let page = traffic.render(&facts(), 1_000);
    assert!(!page.contains("type=\"upstream\""), "{page}");
    let latency = samples(&page, "apisix_http_latency_sum");
    assert!(
        latency[1].starts_with("apisix_http_latency_sum{type=\"apisix\"")
            && latency[1].ends_with(" 30")
    );
}

#[test]
fn metrics_are_headed_once_and_stand_in_the_order_of_their_names() {
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let facts = ProcessFacts {
        is_store_reachable: true,
        modify_indexes: vec![("routes".into(), 7)],
        requests: 12,
        connections: Connections { accepted: 5, handled: 4, active: 3, ..Connections::default() },
        nodes: vec![NodeStatus {
            name: "/apisix/routes/1".into(),
            ip: "10.0.0.1".into(),
            port: 80,
            is_healthy: false,
        }],
        batches: vec![BatchQueue {
            name: "http logger".into(),
            route_id: "1".into(),
            server_addr: "127.0.0.1".into(),
            entries: 2,
        }],
        ..facts()
    };
    ["a", "b"].iter().for_each(|route| traffic.count(&Hidden::default(), &served(route)));
    let page = traffic.render(&facts, 1_000);
    let headed: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE apisix_")).collect();
    assert_eq!(
        headed,
        [
            "bandwidth counter",
            "batch_process_entries gauge",
            "etcd_modify_indexes gauge",
            "etcd_reachable gauge",
            "http_latency histogram",
            "http_requests_total gauge",
            "http_status counter",
            "nginx_http_current_connections gauge",
            "nginx_metric_errors_total counter",
            "node_info gauge",
            "shared_dict_capacity_bytes gauge",
            "shared_dict_free_space_bytes gauge",
            "upstream_status gauge",
        ]
    );
    for line in [
        "apisix_batch_process_entries{name=\"http logger\",route_id=\"1\",server_addr=\"127.0.0.1\"} 2",
        "apisix_etcd_modify_indexes{key=\"routes\"} 7",
        "apisix_etcd_reachable 1",
        "apisix_http_requests_total 12",
        "apisix_nginx_http_current_connections{state=\"accepted\"} 5",
        "apisix_nginx_http_current_connections{state=\"handled\"} 4",
        "apisix_nginx_http_current_connections{state=\"total\"} 12",
        "apisix_nginx_metric_errors_total 0",
        "apisix_node_info{hostname=\"box\",version=\"3.18.0\"} 1",
        "apisix_upstream_status{name=\"/apisix/routes/1\",ip=\"10.0.0.1\",port=\"80\"} 0",
    ] {
        assert!(page.lines().any(|other| other == line), "{line} in {page}");
    }
}

#[test]
fn an_idle_gateway_has_no_metrics_of_requests() {
    let page = Arc::new(Traffic::new(Settings::default())).render(&facts(), 1_000);
    assert!(
        !page.contains("apisix_http_status") && !page.contains("apisix_http_latency"),
        "{page}"
    );
    assert!(page.contains("apisix_etcd_reachable 0\n"), "{page}");
}

#[test]
fn prefix_buckets_and_extra_labels_are_the_users() {
    let label = ExtraLabel { name: "who".into(), variable: "arg_who".into() };
    let families = [
        FamilySettings { extra_labels: vec![label], expire_s: 0 },
        FamilySettings::default(),
        FamilySettings::default(),
    ];
    let traffic = Arc::new(Traffic::new(Settings::new("my_", &[0.5, 25.0], families)));
    for who in ["a", "a", "b"] {
        let extra = [Cow::Borrowed(who.as_bytes())];
        let mut served = served("r");
        served.values.extra = &extra;
        traffic.count(&Hidden::default(), &served);
    }
    let page = traffic.render(&facts(), 1_000);
    let status = samples(&page, "my_http_status");
    assert!(status[0].ends_with("response_source=\"upstream\",who=\"a\"} 2"), "{status:?}");
    assert!(status[1].ends_with("who=\"b\"} 1"), "{status:?}");
    let latency = samples(&page, "my_http_latency_bucket");
    let bounds: Vec<&str> =
        latency.iter().take(3).filter_map(|line| line.split("le=\"").nth(1)).collect();
    assert_eq!(bounds, ["0.5\"} 0", "25\"} 0", "+Inf\"} 3"], "metrics without the label share it");
}

#[test]
fn requests_that_differ_in_hidden_labels_alone_are_one() {
    let node = LabelSet::default().with(LabelName::Route);
    let hidden = Hidden::new([node, node, LabelSet::default()]);
    let traffic = Arc::new(Traffic::new(Settings::default()));
    ["a", "b", "a"].iter().for_each(|route| traffic.count(&hidden, &served(route)));
    let page = traffic.render(&facts(), 1_000);
    assert_eq!(samples(&page, "apisix_http_status").len(), 1);
    assert!(samples(&page, "apisix_http_status")[0].ends_with(" 3"), "{page}");
    assert_eq!(samples(&page, "apisix_bandwidth").len(), 4, "there the label is shown");
}

#[test]
fn label_sets_beyond_the_bound_are_counted_under_other() {
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let mut core = traffic.core().with_label_sets_max(2);
    let hidden = Hidden::default();
    for route in ["a", "b", "c", "d", "a", "c"] {
        core.count(&traffic, &hidden, &served(route));
    }
    assert_eq!(traffic.folded(), 3);
    let page = traffic.render(&facts(), 1_000);
    let status = samples(&page, "apisix_http_status");
    let counts: Vec<(&str, &str)> = status
        .iter()
        .filter_map(|line| Some((line.split('"').nth(3)?, line.rsplit_once(' ')?.1)))
        .collect();
    assert_eq!(counts, [("a", "2"), ("b", "1"), ("other", "3")]);
    assert!(status[2].contains("matched_uri=\"other\",matched_host=\"other\",service=\"other\""));
}

#[test]
fn what_expires_leaves_the_page_and_makes_room() {
    let expiring = FamilySettings { extra_labels: Vec::new(), expire_s: 60 };
    let families = [expiring.clone(), expiring.clone(), expiring];
    let traffic = Arc::new(Traffic::new(Settings::new("apisix_", &[1.0], families)));
    let mut core = traffic.core().with_label_sets_max(1);
    let hidden = Hidden::default();
    let at = |route, now_s| Served { now_s, ..served(route) };
    core.count(&traffic, &hidden, &at("a", 1_000));
    assert_eq!(samples(&traffic.render(&facts(), 1_060), "apisix_http_status").len(), 1);
    assert_eq!(samples(&traffic.render(&facts(), 1_061), "apisix_http_status").len(), 0);
    core.count(&traffic, &hidden, &at("b", 1_061));
    assert_eq!(traffic.folded(), 0, "a made room");
    let status = samples(&traffic.render(&facts(), 1_061), "apisix_http_status");
    assert!(status.len() == 1 && status[0].contains("route=\"b\""), "{status:?}");
    core.count(&traffic, &hidden, &at("c", 1_062));
    assert_eq!(traffic.folded(), 1, "b is in use");
}

#[test]
fn a_page_of_many_pieces_has_every_label_set_once() {
    const ROUTES: usize = 300;
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let routes: Vec<String> = (0..ROUTES).map(|index| format!("route-{index}")).collect();
    for route in &routes {
        traffic.count(&Hidden::default(), &served(route));
    }
    let (mut rest, mut page) = (traffic.page(&facts(), 1_000), Exposition::new(Format::Text));
    let mut pieces = Vec::new();
    while rest.write(&mut page) {
        pieces.push(page.take());
    }
    assert!(pieces.len() > 3, "{}", pieces.len());
    let page = String::from_utf8(pieces.concat()).expect("text");
    let mut lines = std::collections::HashSet::new();
    for line in page.lines() {
        let name = line.rsplit_once(' ').map_or(line, |(name, _)| name);
        assert!(lines.insert(name.to_owned()), "{name} twice");
    }
    assert_eq!(samples(&page, "apisix_http_status").len(), ROUTES);
    assert_eq!(samples(&page, "apisix_http_latency_count").len(), 3 * ROUTES);
}
