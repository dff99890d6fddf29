//! What holds for every plugin.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness};
use tollhouse_plugin::{PluginType, Scope, Services};

use super::*;

/// Headings of a manual page, in their order; a page may leave out the last two.
const HEADINGS: [&str; 4] = ["# Example", "# Answers", "# Metrics", "# Notes"];

#[test]
fn names_and_files_agree() {
    let catalogue = catalogue();
    let mut seen = HashSet::new();
    for plugin in catalogue.iter() {
        assert!(seen.insert(plugin.name), "{} is listed twice", plugin.name);
        assert!(plugin.schema()["type"] == "object", "{}", plugin.name);
        // Each is compiled when it is first asked for.
        let others = [plugin.metadata_schema(), plugin.consumer_schema()];
        assert!(others.into_iter().flatten().all(Value::is_object), "{}", plugin.name);
    }
    assert_eq!(seen.len(), PAGES.len());
}

#[test]
fn every_page_has_its_headings_in_order() {
    for (name, source) in PAGES {
        let page: Vec<&str> =
            source.lines().take_while(|line| line.starts_with("//!")).map(|l| &l[3..]).collect();
        let found: Vec<&str> =
            page.iter().map(|l| l.trim()).filter(|l| l.starts_with("# ")).collect();
        let mut known = HEADINGS.iter();
        for heading in &found {
            assert!(known.any(|other| other == heading), "{name}: {heading} is out of place");
        }
        assert!(found.contains(&"# Example"), "{name}: no example");
        assert!(found.contains(&"# Answers"), "{name}: no answers");
    }
}

/// Optional fields with listed values that have no default: absent is none of the values, or depends on other fields.
const WITHOUT_DEFAULT: &[&str] = &[
    "acl.external_user_label_field_parser",
    "body-transformer.request.input_format",
    "body-transformer.response.input_format",
    "chaitin-waf.mode",
    "data-mask.request.body_format",
    "openid-connect.client_jwt_assertion_alg",
    "openid-connect.par.endpoint_auth_method",
    "proxy-rewrite.method",
    "traffic-split.rules.weighted_upstreams.upstream.http_version",
    "traffic-split.rules.weighted_upstreams.upstream.proxy_protocol",
];

/// Optional fields below a schema that have listed values and no default.
fn without_default(path: &str, schema: &Value, found: &mut Vec<String>) {
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let is_required = required.is_some_and(|required| required.iter().any(|it| it == name));
        let is_listed = field["enum"].as_array().is_some_and(|values| values.len() > 1);
        if is_listed && !is_required && field.get("default").is_none() {
            found.push(path.clone());
        }
        without_default(&path, field, found);
        without_default(&path, &field["items"], found);
    }
}

#[test]
fn optional_fields_with_listed_values_show_their_default() {
    let mut found = Vec::new();
    for plugin in catalogue().iter() {
        without_default(plugin.name, plugin.schema(), &mut found);
    }
    found.retain(|path| !WITHOUT_DEFAULT.contains(&path.as_str()));
    assert_eq!(found, [""; 0]);
}

/// Services of a process that runs scripts.
fn services() -> Arc<Services> {
    let mut services = Services::new("APISIX/3.18.0");
    services.scripting = Some(Arc::new(tollhouse_lua::Lua::new(tollhouse_lua::Settings {
        memory_bytes: 16 << 20,
        sources: Default::default(),
        attributes: Default::default(),
        outside: Arc::new(crate::ScriptCalls),
    })));
    Arc::new(services)
}

#[test]
fn every_example_is_a_good_conf() {
    let catalogue = catalogue();
    let services = services();
    for (name, source) in PAGES {
        let conf = example(source).unwrap_or_else(|| panic!("{name}: no example in ```json"));
        let conf: serde_json::Value = serde_json::from_str(&conf).expect(name);
        let scope = tollhouse_plugin::Scope {
            owner: "routes/1",
            conf: &conf,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services: &services,
        };
        catalogue.check(name, &conf, &scope).expect(name);
    }
}

/// Those that ask other servers or write files, which is no matter of numbers.
const OUTSIDE: [&str; 24] = [
    "aws-lambda",
    "azure-functions",
    "clickhouse-logger",
    "datadog",
    "elasticsearch-logger",
    "file-logger",
    "forward-auth",
    "google-cloud-logging",
    "grpc-transcode",
    "http-logger",
    "kafka-logger",
    "loggly",
    "loki-logger",
    "opa",
    "openfunction",
    "openwhisk",
    "otlp-logger",
    "proxy-mirror",
    "sls-logger",
    "splunk-hec-logging",
    "syslog",
    "tcp-logger",
    "tencent-cloud-cls",
    "udp-logger",
];

/// Numbers at the ends of what a document can hold.
fn extremes() -> Vec<Value> {
    vec![
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(1e-9),
        json!(1_000_000_000_000_u64),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(-1e308),
    ]
}

/// Where a conf has numbers, or its schema would let it have some at its top.
fn places_of_numbers(schema: &Value, conf: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, at: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Number(_) => drop(found.insert(at.to_owned())),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{at}/{index}"), found);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(field, &format!("{at}/{name}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk(conf, "", &mut found);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let text = field.to_string();
        if text.contains("\"integer\"") || text.contains("\"number\"") {
            found.insert(format!("/{name}"));
        }
    }
    found
}

/// The conf with a number at that place.
fn with_number(conf: &Value, place: &str, number: Value) -> Value {
    let mut conf = conf.clone();
    match conf.pointer_mut(place) {
        Some(there) => *there = number,
        None => drop(conf.as_object_mut().map(|it| it.insert(place[1..].to_owned(), number))),
    }
    conf
}

#[test]
fn no_number_that_is_taken_makes_a_plugin_panic() {
    let catalogue = catalogue();
    let services = services();
    let (mut taken, mut panicked) = (0, Vec::new());
    for (name, source) in PAGES.iter().filter(|(name, _)| !OUTSIDE.contains(name)) {
        let example = example(source).and_then(|text| serde_json::from_str(&text).ok());
        let example: Value = example.unwrap_or_else(|| panic!("{name}: no example"));
        let plugin = catalogue.get(name).expect("it has a page");
        for place in places_of_numbers(plugin.schema(), &example) {
            for number in extremes() {
                let conf = with_number(&example, &place, number);
                let run = || run(plugin, &catalogue, &services, &conf);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(is_taken) => taken += usize::from(is_taken),
                    Err(_) => panicked.push(format!("{name} {conf}")),
                }
            }
        }
    }
    assert_eq!(panicked, [""; 0]);
    assert!(taken > 100, "{taken} confs were taken");
}

/// Whether a conf is taken; then requests and answers go through it.
fn run(plugin: &PluginType, catalogue: &Catalogue, services: &Arc<Services>, conf: &Value) -> bool {
    let scope =
        Scope { owner: "routes/1", conf, metadata: None, protos: None, catalogue, services };
    let Ok(handler) = plugin.compile(conf, &scope) else { return false };
    let mut harness = Harness::with(handler, Arc::clone(services));
    for text in [
        "GET /hello?x=1 HTTP/1.1\nHost: a\nAccept-Encoding: gzip, br\n\n",
        "POST /hello HTTP/1.1\nHost: a\nContent-Type: application/json\n\n{\"a\":1}",
        "GET /hello?x=1 HTTP/1.1\nHost: a\n\n",
    ] {
        let mut exchange = FakeExchange::parse(text, harness.now_ms);
        harness.run(&mut exchange);
        for status in ["200", "500", "304"] {
            let head = format!("{status}\nContent-Type: text/html\nCache-Control: max-age=9");
            harness.respond(&mut exchange, &head, &["<html>", "hello</html>"]);
        }
        harness.now_ms = harness.now_ms.saturating_add(1_500);
    }
    true
}

/// The first JSON block of a manual page.
fn example(source: &str) -> Option<String> {
    let page = source.lines().take_while(|line| line.starts_with("//!"));
    let mut lines = page.map(|line| line[3..].trim());
    lines.find(|line| *line == "```json")?;
    Some(lines.take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"))
}
