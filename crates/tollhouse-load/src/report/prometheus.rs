//! Report in Prometheus' text format, for a push gateway or a textfile collector. Base units:
//! seconds and bytes. Percentiles become the quantiles of a summary.

use std::fmt::Write as _;

use super::Report;
use crate::distribution::Distribution;
use crate::result::{CaseResult, ProcessSeries};

/// Function that extracts a figure of a process.
type Figure = fn(&ProcessSeries) -> f64;

/// Quantiles of a summary, as percentiles.
const QUANTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Metric types used in a report.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Summary,
}

/// Renders all results in Prometheus' text format.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    // All samples of a metric family are adjacent, as the format requires.
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&CaseResult) -> f64| {
        head(&mut text, name, help, Kind::Gauge);
        for result in &report.results {
            line(&mut text, name, &labels(result), of(result));
        }
    };
    gauge("goodput_requests_per_second", "Successful requests a second.", &|it| it.goodput);
    gauge("rate_requests_per_second", "Completed requests a second.", &|it| it.rate);
    gauge("duration_seconds", "How long was measured.", &|it| it.elapsed_ns as f64 / 1e9);
    gauge("concurrency", "Connections times streams.", &|it| it.concurrency as f64);
    gauge("requests", "Requests that ended.", &|it| it.counts.completed as f64);
    gauge("unsent_requests", "Requests due but never sent.", &|it| it.counts.unsent as f64);
    gauge("received_bytes", "Bytes received.", &|it| it.counts.received_bytes as f64);
    gauge("sent_bytes", "Bytes sent.", &|it| it.counts.sent_bytes as f64);
    gauge("missed_thresholds", "Thresholds that are not met.", &|it| {
        it.missed_thresholds.len() as f64
    });
    failures(&mut text, report);
    summary(&mut text, report, "response_time_seconds", "From sending to the last byte.", |it| {
        Some(&it.response_time)
    });
    summary(
        &mut text,
        report,
        "latency_seconds",
        "From the intended start to the last byte.",
        |it| it.latency.as_ref(),
    );
    summary(&mut text, report, "first_byte_seconds", "From sending to the first byte.", |it| {
        Some(&it.first_byte)
    });
    processes(&mut text, report);
    text
}

fn failures(text: &mut String, report: &Report) {
    let name = "failed_requests";
    head(text, name, "Requests that failed, by class.", Kind::Gauge);
    for result in &report.results {
        for (class, count) in &result.counts.failures {
            let labels = format!("{},class=\"{}\"", labels(result), escaped(class));
            line(text, name, &labels, *count as f64);
        }
    }
}

fn summary<'a>(
    text: &mut String,
    report: &'a Report,
    name: &str,
    help: &str,
    of: impl Fn(&'a CaseResult) -> Option<&'a Distribution>,
) {
    let results = report.results.iter();
    let known: Vec<_> = results.filter_map(|result| Some((result, of(result)?))).collect();
    if known.is_empty() {
        return;
    }
    head(text, name, help, Kind::Summary);
    for (result, times) in known {
        let labels = labels(result);
        for percent in QUANTILES {
            if let Some(value) = times.percentile_ns(percent) {
                let labels = format!("{labels},quantile=\"{}\"", percent / 100.0);
                line(text, name, &labels, value as f64 / 1e9);
            }
        }
        let sum = times.mean_ns / 1e9 * times.count as f64;
        line(text, &format!("{name}_sum"), &labels, sum);
        line(text, &format!("{name}_count"), &labels, times.count as f64);
    }
}

fn processes(text: &mut String, report: &Report) {
    let figures: [(&str, &str, Figure); 2] = [
        ("process_cpu_seconds", "CPU used while measuring.", ProcessSeries::cpu_seconds),
        ("process_resident_bytes_max", "The most memory seen.", |it| it.rss_bytes_max as f64),
    ];
    for (name, help, of) in figures {
        head(text, name, help, Kind::Gauge);
        for result in &report.results {
            for process in &result.processes {
                let labels = format!("{},role=\"{}\"", labels(result), escaped(&process.role));
                line(text, name, &labels, of(process));
            }
        }
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: Kind) {
    let kind = match kind {
        Kind::Gauge => "gauge",
        Kind::Summary => "summary",
    };
    writeln!(text, "# HELP tollhouse_bench_{name} {help}\n# TYPE tollhouse_bench_{name} {kind}")
        .expect("writing to a string cannot fail");
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    writeln!(text, "tollhouse_bench_{name}{{{labels}}} {value}")
        .expect("writing to a string cannot fail");
}

fn labels(result: &CaseResult) -> String {
    format!(
        "subject=\"{}\",case=\"{}\",repetition=\"{}\"",
        escaped(&result.subject),
        escaped(&result.name),
        result.repetition
    )
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_labels_and_base_units() {
        let mut result = CaseResult {
            name: "a \"b\"\\".into(),
            subject: "direct".into(),
            repetition: 1,
            goodput: 1234.5,
            response_time: Distribution {
                count: 4,
                mean_ns: 2_000_000.0,
                percentiles: vec![(99.0, 3_000_000)],
                ..Distribution::default()
            },
            ..CaseResult::default()
        };
        result.counts.failures.insert("timeout".into(), 3);
        let text = text(&Report { results: vec![result], ..Report::default() });
        let labels = r#"subject="direct",case="a \"b\"\\",repetition="1""#;
        for expected in [
            format!("tollhouse_bench_goodput_requests_per_second{{{labels}}} 1234.5"),
            format!("tollhouse_bench_failed_requests{{{labels},class=\"timeout\"}} 3"),
            format!("tollhouse_bench_response_time_seconds{{{labels},quantile=\"0.99\"}} 0.003"),
            format!("tollhouse_bench_response_time_seconds_sum{{{labels}}} 0.008"),
            format!("tollhouse_bench_response_time_seconds_count{{{labels}}} 4"),
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
        assert!(!text.contains("latency_seconds"), "a closed loop has no latency:\n{text}");
    }
}
