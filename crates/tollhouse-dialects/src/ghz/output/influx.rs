//! InfluxDB's line protocol, with the measurements, tags and fields of ghz.

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::Figures;
use crate::ghz::Options;
use go_template::golang;

/// One point for the run.
pub(super) fn summary(figures: &Figures<'_>) -> String {
    let failed = figures.failed();
    let mut tags = tags(figures);
    tags.push(format!("errors={failed}"));
    tags.push(format!("has_errors={}", failed > 0));
    let mut fields = vec![
        format!("count={}", figures.count),
        format!("total={}", figures.total_ns),
        format!("average={}", figures.average_ns),
        format!("fastest={}", figures.fastest_ns),
        format!("slowest={}", figures.slowest_ns),
        format!("rps={:.2}", figures.rate),
    ];
    for (percentage, value_ns) in &figures.latencies {
        match percentage {
            50 => fields.push(format!("median={value_ns}")),
            95 => fields.push(format!("p95={value_ns}")),
            _ => {}
        }
    }
    fields.push(format!("errors={failed}"));
    let ended_ns = figures.ended_ns.max(0);
    format!("ghz_run,{} {} {ended_ns}", tags.join(","), fields.join(","))
}

/// A point for each request.
pub(super) fn details(figures: &Figures<'_>) -> String {
    let tags = tags(figures).join(",");
    let mut out = String::new();
    for detail in &figures.details {
        out.push_str(&format!(
            "ghz_detail,{tags},hasError={} latency={},error=\"{}\",status=\"{}\" {}\n",
            !detail.error.is_empty(),
            detail.latency_ns,
            escaped(&detail.error),
            detail.status,
            detail.ended_ns,
        ));
    }
    out
}

fn tags(figures: &Figures<'_>) -> Vec<String> {
    let options = &figures.options.echo;
    let mut tags = Vec::new();
    if !figures.options.name.is_empty() {
        tags.push(format!("name=\"{}\"", escaped(figures.options.name.trim())));
    }
    if !options.proto.is_empty() {
        tags.push(format!("proto=\"{}\"", options.proto));
    } else if !options.protoset.is_empty() {
        tags.push(format!("Protoset=\"{}\"", options.protoset));
    }
    tags.push(format!("call=\"{}\"", options.call));
    tags.push(format!("host=\"{}\"", options.host));
    tags.push(format!("n={}", options.total));
    tags.extend(concurrency_tags(options));
    tags.extend(load_tags(options));
    let seconds = |nanoseconds: u64| golang::float(nanoseconds as f64 / 1e9);
    tags.push(format!("z={}", options.duration_ns));
    tags.push(format!("timeout={}", seconds(options.timeout_ns)));
    tags.push(format!("dial_timeout={}", seconds(options.dial_timeout_ns)));
    tags.push(format!("keepalive={}", seconds(options.keepalive_ns)));
    tags.push(format!("data={}", escaped(&quoted(&golang::compact(&options.data)))));
    let metadata = options.metadata.as_ref().map(golang::compact);
    tags.push(format!("metadata={}", escaped(&quoted(&metadata.unwrap_or_default()))));
    tags.push(format!("tags={}", escaped(&quoted(&text_of(&figures.options.tags)))));
    tags
}

fn text_of(tags: &BTreeMap<String, String>) -> String {
    if tags.is_empty() { String::new() } else { golang::compact(tags) }
}

fn concurrency_tags(options: &Options) -> Vec<String> {
    if options.concurrency_schedule == "const" {
        return vec![format!("c={}", options.concurrency)];
    }
    vec![
        format!("concurrency-schedule={}", options.concurrency_schedule),
        format!("concurrency-start={}", options.concurrency_start),
        format!("concurrency-end={}", options.concurrency_end),
        format!("concurrency-step={}", options.concurrency_step),
        format!("concurrency-step-duration={}", time(options.concurrency_step_duration_ns)),
        format!("concurrency-max-duration={}", time(options.concurrency_max_duration_ns)),
    ]
}

fn load_tags(options: &Options) -> Vec<String> {
    if options.load_schedule == "const" {
        return vec![format!("rps={}", options.rps)];
    }
    vec![
        format!("load-schedule={}", options.load_schedule),
        format!("load-start={}", options.load_start),
        format!("load-end={}", options.load_end),
        format!("load-step={}", options.load_step),
        format!("load-step-duration={}", time(options.load_step_duration_ns)),
        format!("load-max-duration={}", time(options.load_max_duration_ns)),
    ]
}

fn time(nanoseconds: u64) -> String {
    golang::duration(Duration::from_nanos(nanoseconds))
}

/// A text as a JSON text.
fn quoted(text: &str) -> String {
    golang::compact(&text)
}

/// Spaces, commas and equal signs separate in the line protocol.
fn escaped(text: &str) -> String {
    text.replace(' ', "\\ ").replace(',', "\\,").replace('=', "\\=")
}
