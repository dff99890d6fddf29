//! Environment variables of OpenTelemetry's SDKs, which fill in settings of tracing that neither
//! file nor other variables have.
//!
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::substitute::Environment;

/// Value that a variable gives to a key.
pub(super) struct Given {
    pub(super) key: &'static str,
    pub(super) variable: &'static str,
    pub(super) value: Value,
}

/// Conversion of a variable's text to the value of a key; `None` leaves the key alone.
type Convert = fn(&str) -> Option<Value>;

/// Variables by key; the first one that is set counts.
const VARIABLES: [(&str, &[&str], Convert); 16] = [
    ("tracing.enabled", &["OTEL_TRACES_EXPORTER"], exports),
    (
        "tracing.protocol",
        &["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"],
        text,
    ),
    (
        "tracing.headers",
        &["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
        pairs,
    ),
    (
        "tracing.timeout",
        &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
        milliseconds,
    ),
    (
        "tracing.compression",
        &["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"],
        text,
    ),
    (
        "tracing.tls.ca",
        &["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
        text,
    ),
    (
        "tracing.tls.cert",
        &["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"],
        text,
    ),
    (
        "tracing.tls.key",
        &["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"],
        text,
    ),
    ("tracing.sampler", &["OTEL_TRACES_SAMPLER"], text),
    ("tracing.ratio", &["OTEL_TRACES_SAMPLER_ARG"], text),
    ("tracing.service_name", &["OTEL_SERVICE_NAME"], text),
    ("tracing.resource", &["OTEL_RESOURCE_ATTRIBUTES"], pairs),
    ("tracing.propagators", &["OTEL_PROPAGATORS"], text),
    ("tracing.queue_spans", &["OTEL_BSP_MAX_QUEUE_SIZE"], text),
    ("tracing.batch_spans", &["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], text),
    ("tracing.batch_time", &["OTEL_BSP_SCHEDULE_DELAY"], milliseconds),
];

/// Variables of endpoints: that of the signal is used as it is, the path of the signal is added to
/// the other.
const OWN_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const COMMON_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Whether `OTEL_SDK_DISABLED` turns tracing off, whatever the file says.
pub(super) fn is_disabled(environment: Environment<'_>) -> bool {
    environment("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Values of all variables that are set.
pub(super) fn layer(environment: Environment<'_>) -> Vec<Given> {
    let set = |name: &str| environment(name).filter(|text| !text.trim().is_empty());
    let given = VARIABLES.iter().filter_map(|(key, names, convert)| {
        let (variable, text) = names.iter().find_map(|name| Some((*name, set(name)?)))?;
        Some(Given { key, variable, value: convert(text.trim())? })
    });
    given.chain(endpoint(&set)).collect()
}

fn endpoint(set: &impl Fn(&str) -> Option<String>) -> Option<Given> {
    let given =
        |variable, value: String| Given { key: "tracing.endpoint", variable, value: value.into() };
    if let Some(text) = set(OWN_ENDPOINT) {
        return Some(given(OWN_ENDPOINT, text.trim().to_owned()));
    }
    let text = set(COMMON_ENDPOINT)?;
    let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    let is_grpc = protocol.iter().find_map(|name| set(name)).is_some_and(|it| it == "grpc");
    let base = text.trim().trim_end_matches('/');
    let path = if is_grpc { "" } else { "/v1/traces" };
    Some(given(COMMON_ENDPOINT, format!("{base}{path}")))
}

fn text(text: &str) -> Option<Value> {
    Some(text.into())
}

fn exports(text: &str) -> Option<Value> {
    match text {
        "otlp" => Some(true.into()),
        "none" => Some(false.into()),
        // Other exporters do not exist here.
        _ => None,
    }
}

fn milliseconds(text: &str) -> Option<Value> {
    Some(format!("{text}ms").into())
}

/// Parses `name=value,name=value`; values are percent-encoded. Parts of another form are skipped.
fn pairs(text: &str) -> Option<Value> {
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    let decoded = parts.map(|(name, value)| {
        let value = percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
        (name.trim().to_owned(), Value::from(value))
    });
    Some(decoded.collect::<Map<String, Value>>().into())
}

#[cfg(test)]
mod tests {
    use crate::bootstrap::{Bootstrap, Propagation, SpanProtocol, SpanSampler, Tracing};

    fn load(file: &str, variables: &[(&str, &str)]) -> Tracing {
        let environment = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let loaded = Bootstrap::parse(Some(file), &environment, &[]).expect("valid settings");
        loaded.bootstrap.tracing
    }

    #[test]
    fn variables_fill_in_what_the_file_leaves_out() {
        let variables = [
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317/"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=y"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_SERVICE_NAME", "edge"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,broken"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/etc/own.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/etc/own.key"),
            ("OTEL_PROPAGATORS", "tracecontext,baggage,b3multi"),
            ("OTEL_BSP_SCHEDULE_DELAY", "1000"),
        ];
        let tracing = load("", &variables);
        assert!(tracing.enabled);
        assert_eq!(
            (tracing.url().as_str(), tracing.protocol),
            ("http://collector:4317", SpanProtocol::Grpc)
        );
        assert_eq!((tracing.headers["api-key"].as_str(), tracing.headers.len()), (Some("a b"), 2));
        assert_eq!((tracing.timeout.as_millis(), tracing.batch_time.as_millis()), (2500, 1000));
        assert_eq!((tracing.service_name.as_str(), tracing.resource.len()), ("edge", 1));
        let tls = [&tracing.tls.ca, &tracing.tls.cert, &tracing.tls.key].map(|it| it.as_deref());
        let expected = ["/etc/ca.pem", "/etc/own.pem", "/etc/own.key"];
        assert_eq!(tls, expected.map(|path| Some(std::path::Path::new(path))));
        assert_eq!(tracing.sampler, SpanSampler::ParentRatio);
        assert!((tracing.ratio - 0.25).abs() < 1e-9);
        assert_eq!(tracing.propagators, [Propagation::TraceContext, Propagation::B3Multi]);
        let file =
            "tracing: {service_name: gateway, enabled: false, endpoint: \"http://other:4317\"}";
        let tracing = load(file, &variables);
        assert_eq!((tracing.service_name.as_str(), tracing.enabled), ("gateway", false));
        assert_eq!(tracing.url(), "http://other:4317");
        let own = [("TOLLHOUSE_TRACING_SERVICE_NAME", "own"), ("OTEL_SERVICE_NAME", "edge")];
        assert_eq!(load("", &own).service_name, "own");
    }

    #[test]
    fn the_endpoint_of_the_signal_is_used_as_it_is() {
        let common = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base");
        assert_eq!(load("", &[common]).url(), "http://c:4318/base/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d:4318/spans");
        assert_eq!(load("", &[common, own]).url(), "http://d:4318/spans");
    }

    #[test]
    fn the_switch_of_the_sdk_turns_tracing_off() {
        let off = [("OTEL_SDK_DISABLED", "true")];
        assert!(!load("tracing: {enabled: true}", &off).enabled);
        assert!(load("tracing: {enabled: true}", &[]).enabled);
        assert!(!load("", &[("OTEL_TRACES_EXPORTER", "zipkin")]).enabled);
    }
}
