//! Prometheus text format with ghz's names. In contrast to ghz, labels are in alphabetical order
//! and buckets are cumulative, as the format requires.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::figures::Figures;
use go_template::golang::float;

/// Labels with default values, which are always present.
const ALWAYS: [(&str, &str); 12] = [
    ("import-paths", ""),
    ("skipTLS", "false"),
    ("async", "false"),
    ("count-errors", "false"),
    ("rps", "0"),
    ("concurrency", "0"),
    ("connections", "0"),
    ("skipFirst", "0"),
    ("duration", "0"),
    ("timeout", "0"),
    ("dial-timeout", "0"),
    ("keepalive", "0"),
];

pub(super) fn text(figures: &Figures<'_>) -> String {
    let mut out = Exposition { labels: labels(figures), text: String::new() };
    out.gauge("ghz_run_count", figures.count as f64);
    out.gauge("ghz_run_total", figures.total_ns as f64);
    out.gauge("ghz_run_average", figures.average_ns as f64);
    out.gauge("ghz_run_fastest", figures.fastest_ns as f64);
    out.gauge("ghz_run_slowest", figures.slowest_ns as f64);
    out.gauge("ghz_run_rps", figures.rate);
    out.kind("ghz_run_histogram", "histogram");
    let mut up_to_here = 0;
    for bucket in &figures.histogram {
        up_to_here += bucket.count;
        let mark = float(bucket.mark);
        out.line("ghz_run_histogram_bucket", Some(("le", &mark)), up_to_here as f64);
    }
    let all = figures.count as f64;
    out.line("ghz_run_histogram_bucket", Some(("le", "+Inf")), all);
    out.line("ghz_run_histogram_sum", None, figures.total_ns as f64);
    out.line("ghz_run_histogram_count", None, all);
    out.kind("ghz_run_latency", "summary");
    for (percentage, value_ns) in &figures.latencies {
        let quantile = float(f64::from(*percentage) / 100.0);
        out.line("ghz_run_latency", Some(("quantile", &quantile)), *value_ns as f64);
    }
    out.line("ghz_run_latency_sum", None, figures.total_ns as f64);
    out.line("ghz_run_latency_count", None, all);
    out.gauge("ghz_run_errors", figures.failed() as f64);
    out.text
}

struct Exposition {
    labels: String,
    text: String,
}

impl Exposition {
    fn kind(&mut self, name: &str, kind: &str) {
        writeln!(self.text, "# TYPE {name} {kind}").expect("a string takes any text");
    }

    fn gauge(&mut self, name: &str, value: f64) {
        self.kind(name, "gauge");
        self.line(name, None, value);
    }

    fn line(&mut self, name: &str, more: Option<(&str, &str)>, value: f64) {
        let more = more.map(|(label, text)| format!(",{label}=\"{text}\"")).unwrap_or_default();
        let labels = &self.labels;
        writeln!(self.text, "{name}{{{labels}{more}}} {}", float(value))
            .expect("a string takes any text");
    }
}

/// Returns the settings as labels. Data and metadata are omitted, because they may be long or
/// secret.
fn labels(figures: &Figures<'_>) -> String {
    let echo = &figures.options.echo;
    let mut labels: BTreeMap<String, String> =
        ALWAYS.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    if let Ok(Value::Object(options)) = serde_json::to_value(echo) {
        for (name, value) in options {
            let text = match value {
                Value::String(text) => text,
                Value::Array(items) => {
                    let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                    items.join(",")
                }
                Value::Object(_) | Value::Null => continue,
                scalar => scalar.to_string(),
            };
            labels.insert(name, text);
        }
    }
    labels.remove("data");
    for (schedule, kind) in
        [(&echo.concurrency_schedule, "concurrency-"), (&echo.load_schedule, "load-")]
    {
        // ghz omits the keys of a schedule that is not used.
        if schedule == "const" {
            labels.retain(|name, _| !name.starts_with(kind));
        }
    }
    labels.insert("name".into(), figures.options.name.clone());
    labels.insert("end_reason".into(), figures.end_reason.into());
    let written: BTreeMap<String, String> =
        labels.into_iter().map(|(name, text)| (name.replace('-', "_"), escaped(&text))).collect();
    let pairs: Vec<String> =
        written.iter().map(|(name, text)| format!("{name}=\"{text}\"")).collect();
    pairs.join(",")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
