//! What Prometheus sees of the traffic under APISIX's names. Which numbers a request adds to is
//! tested beside the plugin; here, that what the plugin is told is true.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Gateway, Origin};

use crate::support::{gateway, upstream};

/// Waits until the metric of this name and these labels has a value.
fn wait_metric(gateway: &Gateway, name: &str, value: f64) {
    wait_for(&format!("{name} {value}"), || (gateway.metric(name) == value).then_some(()));
}

/// One sample of `apisix_http_status`, by the labels that differ here.
fn status(code: u16, route: &str, uri: &str, host: &str, rest: &str, source: &str) -> String {
    format!(
        "apisix_http_status{{code=\"{code}\",route=\"{route}\",matched_uri=\"{uri}\",\
         matched_host=\"{host}\",{rest},request_type=\"traditional_http\",request_llm_model=\"\",\
         llm_model=\"\",response_source=\"{source}\"}}"
    )
}

fn get(gateway: &Gateway, target: &str, host: &str, lines: &str) -> u16 {
    gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")).status()
}

#[test]
fn requests_are_told_apart_by_route_consumer_and_node() {
    let origin = Origin::named("a");
    let resources = json!({
        "routes": [
            {"id": "r", "uris": ["/one", "/two/*"], "hosts": ["a.test", "*.b.test"],
             "service_id": "s", "plugins": {"key-auth": {}, "prometheus": {}}},
            {"id": "silent", "uri": "/silent", "service_id": "s"},
        ],
        "services": [{"id": "s", "upstream": upstream([origin.address()])}],
        "consumers": [{"username": "jack", "plugins": {"key-auth": {"key": "k"}}}],
    });
    let gateway = gateway().set("workers", "2").resources(&resources).start();
    assert_eq!(get(&gateway, "/one", "a.test", "apikey: k\r\n"), 200);
    assert_eq!(get(&gateway, "/two/x", "x.b.test", "apikey: k\r\n"), 200);
    assert_eq!(get(&gateway, "/two/y", "y.b.test", "apikey: k\r\n"), 200);
    assert_eq!(get(&gateway, "/one", "a.test", ""), 401);
    assert_eq!(get(&gateway, "/silent", "a.test", ""), 200);
    let jack = "service=\"s\",consumer=\"jack\",node=\"127.0.0.1\"";
    let nobody = "service=\"s\",consumer=\"\",node=\"\"";
    for (name, count) in [
        (status(200, "r", "/one", "a.test", jack, "upstream"), 1.0),
        (status(200, "r", "/two/*", "*.b.test", jack, "upstream"), 2.0),
        (status(401, "r", "/one", "a.test", nobody, "apisix"), 1.0),
    ] {
        wait_metric(&gateway, &name, count);
    }
    let labels = format!(
        "route=\"r\",{jack},request_type=\"traditional_http\",request_llm_model=\"\",llm_model=\"\""
    );
    for kind in ["request", "upstream", "apisix"] {
        let name = |le: &str| {
            format!("apisix_http_latency_bucket{{type=\"{kind}\",{labels},le=\"{le}\"}}")
        };
        assert_eq!(gateway.metric(&name("+Inf")), 3.0, "{kind}");
        assert_eq!(gateway.metric(&name("60000")), 3.0, "{kind}");
    }
    let bytes =
        |kind: &str| gateway.metric(&format!("apisix_bandwidth{{type=\"{kind}\",{labels}}}"));
    assert!(bytes("ingress") > 100.0 && bytes("egress") > 100.0);
    assert_eq!(gateway.metric("tollhouse_metric_series_folded_total"), 0.0);
}

#[test]
fn a_global_rule_counts_what_no_route_takes_and_nodes_that_fail() {
    let refusing = ClosedPort::new();
    let resources = json!({
        "routes": [{"id": "1", "name": "front", "uri": "/down",
                    "upstream": upstream([refusing.address()])}],
        "global_rules": [{"id": "1", "plugins": {"prometheus": {"prefer_name": true}}}],
    });
    let gateway = gateway().resources(&resources).start();
    assert_eq!(get(&gateway, "/none", "a", ""), 404);
    assert_eq!(get(&gateway, "/down", "a", ""), 502);
    let nobody = "service=\"\",consumer=\"\",node=\"\"";
    wait_metric(&gateway, &status(404, "", "", "", nobody, "apisix"), 1.0);
    let node = "service=\"\",consumer=\"\",node=\"127.0.0.1\"";
    wait_metric(&gateway, &status(502, "front", "/down", "", node, "nginx"), 1.0);
}

#[test]
fn labels_are_disabled_by_metadata_and_counts_outlive_changes() {
    let origin = Origin::named("a");
    let resources = |metadata: Value| {
        json!({
            "routes": [{"id": "1", "uri": "/*", "plugins": {"prometheus": {}},
                        "upstream": upstream([origin.address()])}],
            "plugin_metadata": metadata,
        })
    };
    let gateway = gateway().resources(&resources(json!([]))).start();
    get(&gateway, "/", "a", "");
    let node = "service=\"\",consumer=\"\",node=\"127.0.0.1\"";
    wait_metric(&gateway, &status(200, "1", "/*", "", node, "upstream"), 1.0);
    let disabled = json!({"http_status": ["node", "matched_uri"]});
    gateway.reload(&resources(json!([{"id": "prometheus", "disabled_labels": disabled}])));
    get(&gateway, "/", "a", "");
    let nobody = "service=\"\",consumer=\"\",node=\"\"";
    wait_metric(&gateway, &status(200, "1", "", "", nobody, "upstream"), 1.0);
    assert_eq!(gateway.metric(&status(200, "1", "/*", "", node, "upstream")), 1.0);
}

#[test]
fn the_process_is_told_under_its_names_with_or_without_the_plugin() {
    let origin = Origin::named("a");
    let resources = json!({"routes": [
        {"id": "1", "uri": "/a", "upstream": upstream([origin.address()])},
        {"id": "2", "uri": "/page", "plugins":
            {"public-api": {"uri": "/apisix/prometheus/metrics"}}},
    ]});
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    client.get("/a");
    client.get("/a");
    wait_metric(&gateway, "apisix_http_requests_total", 2.0);
    for (name, value) in [
        ("apisix_etcd_reachable", 1.0),
        ("apisix_nginx_metric_errors_total", 0.0),
        ("apisix_nginx_http_current_connections{state=\"active\"}", 1.0),
        ("apisix_nginx_http_current_connections{state=\"accepted\"}", 1.0),
        ("apisix_nginx_http_current_connections{state=\"handled\"}", 1.0),
        ("apisix_nginx_http_current_connections{state=\"total\"}", 2.0),
        ("apisix_nginx_http_current_connections{state=\"waiting\"}", 1.0),
        ("apisix_nginx_http_current_connections{state=\"writing\"}", 0.0),
    ] {
        wait_metric(&gateway, name, value);
    }
    let page = client.get("/page");
    assert_eq!(page.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = page.text();
    for line in [
        "# HELP apisix_http_requests_total The total number of client requests since APISIX started\n",
        "# TYPE apisix_http_requests_total gauge\n",
        "version=\"3.18.0\"} 1\n",
        "apisix_nginx_http_current_connections{state=\"writing\"} 1\n",
        "tollhouse_requests_open 1\n",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert!(!page.contains("apisix_http_status"), "nothing is counted without the plugin");
}

#[test]
fn the_store_tells_the_revision_of_the_last_change_of_each_kind() {
    let gateway = gateway().without_resources().start();
    let index = |key: &str| gateway.metric(&format!("apisix_etcd_modify_indexes{{key=\"{key}\"}}"));
    let put = |path: &str, object: &Value| {
        assert_eq!(gateway.admin("PUT", path, object).status(), 201);
    };
    put("/upstreams/1", &json!({"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}));
    wait_for("an index of upstreams", || (index("upstreams") > 0.0).then_some(()));
    put("/routes/1", &json!({"uri": "/*", "upstream_id": "1"}));
    wait_for("an index of routes", || (index("routes") > index("upstreams")).then_some(()));
    assert_eq!(index("max_modify_index"), index("routes"));
    assert_eq!(index("x_etcd_index"), index("routes"));
    assert_eq!(index("consumers"), 0.0);
}
