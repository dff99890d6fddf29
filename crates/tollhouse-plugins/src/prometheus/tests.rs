//! Exchanges in, page out.

use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
use tollhouse_plugin::{Catalogue, PluginType};
use tollhouse_telemetry::apisix::ProcessFacts;

use super::*;

const TRANSFER: Transfer<'static> = Transfer {
    status: 200,
    upstream_status: Some(200),
    is_upstream_answer: true,
    bytes_received: 100,
    bytes_sent: 2_000,
    body_bytes_sent: 1_900,
    started_unix_ms: 0,
    request_ms: 40,
    upstream_ms: Some(30),
    upstream: "10.0.0.1:80",
    route_id: "r1",
    service_id: "s1",
    consumer: "jack",
    error_code: None,
};

fn exchange() -> FakeExchange {
    FakeExchange::parse("GET /a?who=me HTTP/1.1\n\n", 0)
        .with_variable("matched_uri", "/*")
        .with_variable("matched_host", "test.com")
        .with_variable("route_name", "front")
        .with_variable("service_name", "shop")
}

fn services(attributes: Value) -> Arc<Services> {
    let mut services = Services::new("APISIX/3.18.0");
    services.attributes.insert("prometheus".into(), attributes);
    Arc::new(services)
}

/// The page after these exchanges.
fn page(conf: Value, attributes: Value, metadata: Value, transfers: &[Transfer<'_>]) -> String {
    let services = services(attributes);
    let among = Catalogue::new([PluginType::new::<Prometheus>()]);
    let handler = configure_among::<Prometheus>(&conf, &services, &among, Some(&metadata))
        .expect("the conf is good");
    let mut harness = Harness::with(handler, Arc::clone(&services));
    for transfer in transfers {
        harness.log(&mut exchange(), *transfer);
    }
    traffic(&services).render(&ProcessFacts::default(), 0)
}

fn plain(transfers: &[Transfer<'_>]) -> String {
    page(json!({}), json!({}), json!({}), transfers)
}

/// The first line that begins like this.
fn line<'p>(page: &'p str, start: &str) -> &'p str {
    page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {page}"))
}

#[test]
fn an_exchange_is_counted_with_all_labels() {
    let page = plain(&[TRANSFER, TRANSFER]);
    assert_eq!(
        line(&page, "apisix_http_status"),
        "apisix_http_status{code=\"200\",route=\"r1\",matched_uri=\"/*\",matched_host=\"test.com\",\
         service=\"s1\",consumer=\"jack\",node=\"10.0.0.1\",request_type=\"traditional_http\",\
         request_llm_model=\"\",llm_model=\"\",response_source=\"upstream\"} 2"
    );
    let rest = "route=\"r1\",service=\"s1\",consumer=\"jack\",node=\"10.0.0.1\",\
                request_type=\"traditional_http\",request_llm_model=\"\",llm_model=\"\"";
    for (start, value) in [
        ("apisix_bandwidth{type=\"ingress\",", "200"),
        ("apisix_bandwidth{type=\"egress\",", "4000"),
        ("apisix_http_latency_sum{type=\"request\",", "80"),
        ("apisix_http_latency_sum{type=\"upstream\",", "60"),
        ("apisix_http_latency_sum{type=\"apisix\",", "20"),
    ] {
        assert_eq!(line(&page, start), format!("{start}{rest}}} {value}"));
    }
}

#[test]
fn it_is_told_who_answered() {
    let own = Transfer { upstream: "", upstream_ms: None, upstream_status: None, ..TRANSFER };
    let failed = Transfer { upstream_ms: None, status: 502, ..TRANSFER };
    for (transfer, source) in [(TRANSFER, "upstream"), (own, "apisix"), (failed, "nginx")] {
        let page = plain(&[transfer]);
        let status = line(&page, "apisix_http_status");
        assert!(status.contains(&format!("response_source=\"{source}\"")), "{status}");
    }
    let page = plain(&[failed]);
    assert!(line(&page, "apisix_http_latency_sum{type=\"upstream\"").ends_with(" 40"), "{page}");
    assert!(line(&page, "apisix_http_latency_sum{type=\"apisix\"").ends_with(" 0"), "{page}");
}

#[test]
fn a_client_that_went_away_counts_as_499() {
    let page = plain(&[Transfer { status: 0, ..TRANSFER }]);
    assert!(line(&page, "apisix_http_status").contains("code=\"499\""), "{page}");
}

#[test]
fn names_are_preferred_where_there_are_any() {
    let page = page(json!({"prefer_name": true}), json!({}), json!({}), &[TRANSFER]);
    let bandwidth = line(&page, "apisix_bandwidth");
    assert!(bandwidth.contains("route=\"front\",service=\"shop\""), "{bandwidth}");

    let services = services(json!({}));
    let among = Catalogue::new([PluginType::new::<Prometheus>()]);
    let conf = json!({"prefer_name": true});
    let handler = configure_among::<Prometheus>(&conf, &services, &among, None).expect("good");
    let mut nameless = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
    let mut harness = Harness::with(handler, Arc::clone(&services));
    harness.log(&mut nameless, TRANSFER);
    let page = traffic(&services).render(&ProcessFacts::default(), 0);
    assert!(line(&page, "apisix_bandwidth").contains("route=\"r1\",service=\"s1\""), "{page}");
}

#[test]
fn disabled_labels_are_empty() {
    let metadata = json!({"disabled_labels": {"http_status": ["node", "matched_uri"]}});
    let page = page(json!({}), json!({}), metadata, &[TRANSFER]);
    let status = line(&page, "apisix_http_status");
    assert!(status.contains("matched_uri=\"\",matched_host=\"test.com\""), "{status}");
    assert!(status.contains("node=\"\""), "{status}");
    assert!(line(&page, "apisix_bandwidth").contains("node=\"10.0.0.1\""), "{page}");
}

#[test]
fn metadata_names_labels_that_can_be_disabled() {
    let plugin = PluginType::new::<Prometheus>();
    let refusal = |labels: Value| {
        plugin
            .check_metadata(&json!({"disabled_labels": labels}))
            .err()
            .map_or(String::new(), String::from)
    };
    assert_eq!(refusal(json!({"http_latency": ["node"], "llm_latency": ["route_id"]})), "");
    for wrong in [json!({"http_status": ["code"]}), json!({"bandwidth": ["matched_uri"]})] {
        assert!(refusal(wrong).contains("matches none of the enum values"));
    }
    let refused = [
        (
            json!({"http_statuses": ["node"]}),
            "additional properties forbidden, found http_statuses",
        ),
        (json!({"http_status": "node"}), "wrong type: expected array, got string"),
    ];
    for (wrong, expected) in refused {
        assert!(refusal(wrong).ends_with(expected), "{expected}");
    }
}

#[test]
fn attributes_name_metrics_and_tell_more_apart() {
    let attributes = json!({
        "metric_prefix": "edge_",
        "default_buckets": [15, 55],
        "refresh_interval": 5,
        "metrics": {
            "http_status": {"extra_labels": [{"who": "$arg_who"}, {"bad name": "$host"}], "expire": 60},
            "http_latency": {"extra_labels": [{"code": "$arg_none"}]},
        },
    });
    let page = page(json!({}), attributes, json!({}), &[TRANSFER]);
    assert!(line(&page, "edge_http_status").contains("response_source=\"upstream\",who=\"me\"} 1"));
    let bucket = line(&page, "edge_http_latency_bucket");
    assert!(bucket.contains("llm_model=\"\",code=\"\",le=\"15\"} 0"), "{bucket}");
    let services = services(json!({"metric_prefix": "no good"}));
    assert_eq!(attributes::settings(&services).prefix, "apisix_");
}

#[test]
fn a_node_is_told_by_its_address() {
    for (node, address) in [("10.0.0.1:80", "10.0.0.1"), ("[::1]:80", "::1"), ("", "")] {
        assert_eq!(address_of(node), address);
    }
}

#[test]
fn bad_confs_are_refused() {
    let refusal = Harness::refusal::<Prometheus>(&json!({"prefer_name": "yes"}));
    assert_eq!(
        refusal,
        "property \"prefer_name\" validation failed: wrong type: expected boolean, got string"
    );
}
