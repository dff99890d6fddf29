//! Metrics of routes, upstreams and nodes: what a request adds to, what a reload keeps, and the formats of the page.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{find, run_well};
use tollhouse_testkit::{ClosedPort, Gateway, Origin, RawClient};

use crate::shenyu::{nodes, objects, pair};
use crate::support::{gateway, listener_named, upstream};

/// Trace id of the requests that have one.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Waits until the series has a value.
fn wait_metric(gateway: &Gateway, name: &str, value: f64) {
    wait_for(&format!("{name} {value}"), || (gateway.metric(name) == value).then_some(()));
}

fn resources(origin: &Origin, refusing: &ClosedPort) -> Value {
    json!({
        "routes": [
            {"id": "r1", "uri": "/one", "service_id": "s", "upstream_id": "u"},
            {"id": "r2", "uri": "/down", "upstream": upstream([refusing.address()])},
            {"id": "idle", "uri": "/idle", "upstream_id": "u"},
        ],
        "services": [{"id": "s"}],
        "upstreams": [{"id": "u", "nodes": {origin.address().to_string(): 1}}],
    })
}

/// The series of one route.
fn of_route(metric: &str, route: &str, rest: &str) -> String {
    let (service, upstream) = if route == "r1" { ("s", "u") } else { ("", "") };
    format!("{metric}{{route=\"{route}\",service=\"{service}\",upstream=\"{upstream}\"{rest}}}")
}

#[test]
fn requests_are_counted_by_route_upstream_and_node_and_a_reload_keeps_them() {
    let (origin, refusing) = (Origin::named("a"), ClosedPort::new());
    let node = origin.address();
    let gateway = gateway().set("workers", "2").resources(&resources(&origin, &refusing)).start();
    (0..3).for_each(|_| assert_eq!(gateway.client().get("/one").status(), 200));
    assert_eq!(gateway.client().get("/down").status(), 502);
    let requests = "tollhouse_route_requests_total";
    let (ok, failed) = (",class=\"2xx\"", ",class=\"5xx\"");
    for (name, value) in [
        (of_route(requests, "r1", ok), 3.0),
        (of_route(requests, "r1", failed), 0.0),
        (of_route(requests, "r2", failed), 1.0),
        (of_route("tollhouse_route_request_duration_seconds_count", "r1", ""), 3.0),
        (of_route("tollhouse_route_request_duration_seconds_bucket", "r1", ",le=\"+Inf\""), 3.0),
        ("tollhouse_upstream_requests_total{upstream=\"u\"}".to_owned(), 3.0),
        ("tollhouse_upstream_requests_failed_total{upstream=\"u\"}".to_owned(), 0.0),
        (format!("tollhouse_node_requests_total{{node=\"{node}\",class=\"2xx\"}}"), 3.0),
        (format!("tollhouse_node_response_duration_seconds_count{{node=\"{node}\"}}"), 3.0),
        (format!("tollhouse_node_requests_failed_total{{node=\"{}\"}}", refusing.address()), 1.0),
        ("tollhouse_upstream_duration_seconds_count".to_owned(), 3.0),
    ] {
        wait_metric(&gateway, &name, value);
    }
    let page = page(&gateway, "");
    assert!(!page.text().contains("route=\"idle\""), "a route without requests has no series");
    let mut changed = resources(&origin, &refusing);
    changed["routes"][0]["uri"] = json!("/other");
    changed["routes"].as_array_mut().expect("routes").remove(1);
    gateway.reload(&changed);
    assert_eq!(gateway.client().get("/other").status(), 200);
    wait_metric(&gateway, &of_route(requests, "r1", ok), 4.0);
    assert!(!self::page(&gateway, "").text().contains("route=\"r2\""), "it has no more series");
}

#[test]
fn requests_of_shenyus_rules_are_counted_by_rule() {
    let origin = Origin::named("a");
    let rules = [
        pair("divide", "/order/", nodes([origin.address().port()]), json!({})),
        pair("waf", "/waf", Value::Null, json!({"permission": "reject", "statusCode": "403"})),
    ];
    let gateway = gateway().resources(&objects(&rules)).start();
    assert_eq!(gateway.client().get("/order/1").status(), 200);
    assert_eq!(gateway.client().get("/waf").status(), 403);
    let requests = "tollhouse_route_requests_total";
    let ok = of_route(requests, "shenyu/100", ",class=\"2xx\"");
    wait_metric(&gateway, &ok, 1.0);
    wait_metric(&gateway, &of_route(requests, "shenyu", ",class=\"4xx\""), 1.0);
    // A change of another rule keeps the count.
    gateway.reload(&objects(&rules[..1]));
    assert_eq!(gateway.client().get("/order/2").status(), 200);
    wait_metric(&gateway, &ok, 2.0);
}

#[test]
fn a_node_that_answers_5xx_has_not_failed_to_answer() {
    let failing = Origin::answering("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let resources = json!({"routes": [
        {"id": "r", "uri": "/*", "upstream": upstream([failing.address()])},
    ]});
    let gateway = gateway().resources(&resources).start();
    assert_eq!(gateway.client().get("/").status(), 503);
    let node = failing.address();
    let name = format!("tollhouse_node_requests_total{{node=\"{node}\",class=\"5xx\"}}");
    wait_metric(&gateway, &name, 1.0);
    let name = format!("tollhouse_node_requests_failed_total{{node=\"{node}\"}}");
    assert_eq!(gateway.metric(&name), 0.0, "it answered");
}

/// The metrics page in the format of this header.
fn page(gateway: &Gateway, accept: &str) -> tollhouse_testkit::Message {
    let accept = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
    let metrics = listener_named(gateway, "metrics");
    RawClient::connect(metrics)
        .ask(format!("GET /metrics HTTP/1.1\r\nHost: {metrics}\r\n{accept}\r\n"))
}

/// The metrics page in the format that has exemplars as text.
pub(crate) fn open_metrics(gateway: &Gateway) -> tollhouse_testkit::Message {
    page(gateway, "application/openmetrics-text;version=1.0.0")
}

#[test]
fn the_page_has_the_format_that_the_scraper_asks_for_and_traces_of_requests() {
    let origin = Origin::named("a");
    let resources =
        json!({"routes": [{"id": "own", "uri": "/*", "upstream": upstream([origin.address()])}]});
    let gateway = gateway().resources(&resources).start();
    let request =
        format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n\r\n");
    gateway.client().ask(request);
    let requests = "tollhouse_route_requests_total";
    wait_metric(&gateway, &of_route(requests, "own", ",class=\"2xx\""), 1.0);
    let text = page(&gateway, "text/plain");
    let content_type = text.field("content-type");
    assert_eq!(content_type, Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!text.text().contains(TRACE));
    let open = open_metrics(&gateway);
    let content_type = open.field("content-type");
    assert_eq!(content_type, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let lines = open.text();
    assert!(lines.ends_with("# EOF\n"), "{lines}");
    let bucket = of_route("tollhouse_route_request_duration_seconds_bucket", "own", ",le=");
    let with_trace = lines.lines().find(|line| line.contains(TRACE)).expect("an exemplar");
    assert!(with_trace.starts_with(bucket.trim_end_matches('}')), "{with_trace}");
    let family = "proto=io.prometheus.client.MetricFamily";
    let accept = format!("application/vnd.google.protobuf;{family};encoding=delimited");
    let binary = page(&gateway, &accept);
    let content_type = binary.field("content-type").unwrap_or_default();
    assert!(content_type.starts_with("application/vnd.google.protobuf; proto="), "{content_type}");
    let holds = |text: &str| binary.body.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("tollhouse_route_request_duration_seconds") && holds(TRACE));
    // Each family is preceded by its length, and begins with its name.
    assert_eq!((binary.body[2], &binary.body[4..13]), (0x0a, &b"tollhouse"[..]));
}

/// What Prometheus stores of the page in the format of this header: a line for each sample, native histogram and exemplar.
fn scraped(gateway: &Gateway, accept: &str) -> Option<String> {
    let url = format!("http://{}/metrics", listener_named(gateway, "metrics"));
    let text = run_well(Command::new(find("prometheus-scrape")?).args([url.as_str(), accept]));
    Some(text)
}

#[test]
fn prometheus_reads_all_three_formats_and_stores_native_histograms_and_exemplars() {
    let (origin, refusing) = (Origin::named("a"), ClosedPort::new());
    let mut resources = resources(&origin, &refusing);
    resources["global_rules"] = json!([{"id": "1", "plugins": {"prometheus": {}}}]);
    let gateway = gateway().resources(&resources).start();
    let request = format!(
        "GET /one HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n\r\n"
    );
    gateway.client().ask(request);
    let requests = "tollhouse_route_requests_total";
    let names = "route=\"r1\", service=\"s\", upstream=\"u\"";
    let route = format!("{{__name__=\"{requests}\", class=\"2xx\", {names}}} 1");
    wait_metric(&gateway, &of_route(requests, "r1", ",class=\"2xx\""), 1.0);
    let duration = "tollhouse_route_request_duration_seconds";
    let Some(text) = scraped(&gateway, "text/plain;version=0.0.4") else { return };
    let Some(open) = scraped(&gateway, "application/openmetrics-text;version=1.0.0") else {
        return;
    };
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let Some(native) = scraped(&gateway, accept) else { return };
    for (format, page) in [("text", &text), ("OpenMetrics", &open), ("protobuf", &native)] {
        assert!(page.contains(&format!("sample {route}\n")), "{format}: {page}");
        assert!(page.contains("__name__=\"apisix_http_status\""), "{format}: {page}");
    }
    let bucket = format!("{{__name__=\"{duration}_bucket\", le=\"60.0\", {names}}} 1\n");
    assert!(text.contains(&bucket) && open.contains(&bucket), "{text}");
    assert!(native.contains(&format!("native {{__name__=\"{duration}\", {names}}} 1 ")));
    assert!(!text.contains("exemplar ") && !text.contains("native "));
    for page in [open, native] {
        let exemplar = page.lines().find(|line| line.starts_with("exemplar ")).expect("one");
        assert!(exemplar.contains(duration) && exemplar.contains(TRACE), "{exemplar}");
    }
}

/// Runs promtool with these arguments on this input, and returns what it says.
fn promtool(program: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool can be started");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn the_alert_on_slow_routes_fires_for_native_histograms_too() {
    let Some(program) = find("prometheus-rules") else { return };
    // A hundred observations a minute: the slow route's between 8 and 16 seconds, the other's below one.
    let series = |route: &str, histogram: &str| {
        let name = "tollhouse_route_request_duration_seconds";
        format!("{name}{{job=\"gw\",instance=\"a\",route=\"{route}\"}} {histogram}x40\n")
    };
    let slow = "{{schema:0 sum:0 count:0 offset:4 buckets:[0]}}+{{schema:0 sum:1200 count:100 offset:4 buckets:[100]}}";
    let quick = "{{schema:0 sum:0 count:0 offset:-1 buckets:[0]}}+{{schema:0 sum:40 count:100 offset:-1 buckets:[100]}}";
    // The alert is about routes with traffic.
    let counts = |route: &str| {
        let name = "tollhouse_route_requests_total";
        format!("{name}{{job=\"gw\",instance=\"a\",route=\"{route}\",class=\"2xx\"}} 0+100x40\n")
    };
    let input = [series("slow", slow), series("quick", quick), counts("slow"), counts("quick")];
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/alerts.yaml");
    let rules = rules.display().to_string();
    let fired = promtool(&program, &[&rules, "TollhouseRouteSlow", "35"], &input.concat());
    assert!(fired.contains("route=\"slow\"") && fired.lines().count() == 1, "{fired}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let Some(program) = find("promtool") else { return };
    let (origin, refusing) = (Origin::named("a"), ClosedPort::new());
    let gateway = gateway().resources(&resources(&origin, &refusing)).start();
    gateway.client().get("/one");
    gateway.client().get("/down");
    let requests = "tollhouse_route_requests_total";
    wait_metric(&gateway, &of_route(requests, "r2", ",class=\"5xx\""), 1.0);
    let page = page(&gateway, "text/plain").text();
    // Names of APISIX are as they are, and not ours to choose.
    let is_own = |line: &&str| !line.contains("apisix_");
    let own: String = page.lines().filter(is_own).map(|line| format!("{line}\n")).collect();
    assert!(own.contains("tollhouse_node_requests_total"), "{own}");
    assert_eq!(promtool(&program, &["check", "metrics"], &own), "");
    let said = promtool(&program, &["check", "metrics"], &page);
    assert!(said.lines().all(|line| line.starts_with("apisix_")), "{said}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_alerts_and_they_fire_when_they_should() {
    let Some(program) = find("promtool") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus");
    let said =
        run_well(Command::new(&program).args(["check", "rules"]).arg(folder.join("alerts.yaml")));
    let rules = fs::read_to_string(folder.join("alerts.yaml")).expect("the file");
    let count = rules.matches("- alert: ").count();
    assert!(said.contains(&format!("{count} rules found")), "{said}");
    let tests = folder.join("alerts_test.yaml");
    run_well(Command::new(&program).args(["test", "rules"]).arg(tests));
}
