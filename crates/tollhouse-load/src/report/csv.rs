//! Report as CSV (RFC 4180): one line per case, plain numbers, times in milliseconds.

use super::Report;
use crate::distribution::Distribution;
use crate::failure::FailureClass;
use crate::result::{CaseResult, End, ProcessSeries};

/// Percentiles that have a column.
const PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Renders all results, with a header line.
pub fn text(report: &Report) -> String {
    let mut heads: Vec<String> = [
        "subject",
        "case",
        "repetition",
        "end",
        "loop",
        "concurrency",
        "workers",
        "seconds",
        "intended_rate",
        "rate",
        "goodput",
        "completed",
        "succeeded",
        "failed",
        "unsent",
        "unfinished",
        "mean_ms",
        "stdev_ms",
        "min_ms",
    ]
    .map(str::to_owned)
    .to_vec();
    heads.extend(PERCENTILES.map(|percent| format!("p{percent}_ms")));
    heads.extend(
        ["max_ms", "uncorrected_p99_ms", "first_byte_p99_ms", "connect_p99_ms"].map(str::to_owned),
    );
    heads.extend(FailureClass::ALL.map(|class| format!("failed_{class}")));
    heads.extend(
        [
            "received_bytes",
            "sent_bytes",
            "connections_opened",
            "generator_cpu_seconds",
            "other_cpu_seconds",
            "other_rss_bytes_max",
            "missed_thresholds",
        ]
        .map(str::to_owned),
    );
    let mut text = line(&heads);
    for result in &report.results {
        text.push_str(&line(&cells(result)));
    }
    text
}

fn cells(result: &CaseResult) -> Vec<String> {
    let counts = &result.counts;
    let times = result.headline();
    let end = match result.end {
        End::Completed => "completed",
        End::Interrupted => "interrupted",
    };
    let mut cells = vec![
        result.subject.clone(),
        result.name.clone(),
        result.repetition.to_string(),
        end.to_owned(),
        if result.open_loop { "open" } else { "closed" }.to_owned(),
        result.concurrency.to_string(),
        result.workers.to_string(),
        format!("{:.3}", result.elapsed_ns as f64 / 1e9),
        result.intended_rate.map_or_else(String::new, |rate| format!("{rate:.2}")),
        format!("{:.2}", result.rate),
        format!("{:.2}", result.goodput),
    ];
    let numbers =
        [counts.completed, counts.succeeded, counts.failed, counts.unsent, counts.unfinished];
    cells.extend(numbers.map(|count| count.to_string()));
    cells.extend([times.mean_ns, times.stdev_ns, times.min_ns as f64].map(milliseconds));
    cells.extend(PERCENTILES.map(|percent| percentile(times, percent)));
    cells.push(milliseconds(times.max_ns as f64));
    let uncorrected = result.latency.as_ref().map(|_| percentile(&result.response_time, 99.0));
    // Empty in a closed loop, where nothing is corrected: repeating the same figure would look
    // significant.
    cells.push(uncorrected.unwrap_or_default());
    cells.push(percentile(&result.first_byte, 99.0));
    cells.push(percentile(&result.connect, 99.0));
    cells.extend(
        FailureClass::ALL.map(|class| {
            counts.failures.get(class.as_str()).copied().unwrap_or_default().to_string()
        }),
    );
    let bytes = [counts.received_bytes, counts.sent_bytes, counts.connections_opened];
    cells.extend(bytes.map(|count| count.to_string()));
    let (own, others): (Vec<&ProcessSeries>, Vec<&ProcessSeries>) =
        result.processes.iter().partition(|process| process.role == "generator");
    let seconds = |processes: &[&ProcessSeries]| -> String {
        format!(
            "{:.3}",
            processes.iter().map(|process| process.cpu_seconds()).fold(0.0, |sum, one| sum + one)
        )
    };
    cells.extend([seconds(&own), seconds(&others)]);
    cells.push(others.iter().map(|process| process.rss_bytes_max).sum::<u64>().to_string());
    cells.push(result.missed_thresholds.join("; "));
    cells
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.4}", nanoseconds / 1e6)
}

fn percentile(times: &Distribution, percent: f64) -> String {
    times.percentile_ns(percent).map_or_else(String::new, |value| milliseconds(value as f64))
}

fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    let mut line = cells.iter().map(quoted).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_cell_for_every_heading() {
        let result = CaseResult {
            name: "a, \"b\"".into(),
            response_time: Distribution {
                count: 1,
                max_ns: 2_500_000,
                percentiles: vec![(99.0, 2_000_000)],
                ..Distribution::default()
            },
            ..CaseResult::default()
        };
        let report = Report { results: vec![result], ..Report::default() };
        let text = text(&report);
        let [heads, cells] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("two lines: {text}")
        };
        assert!(cells.starts_with(",\"a, \"\"b\"\"\",0,completed,closed,"), "{cells}");
        let cells = cells.replace("\"a, \"\"b\"\"\"", "name");
        let heads: Vec<&str> = heads.split(',').collect();
        let cells: Vec<&str> = cells.split(',').collect();
        assert_eq!(heads.len(), cells.len());
        let cell = |head: &str| cells[heads.iter().position(|it| *it == head).expect(head)];
        assert_eq!((cell("p99_ms"), cell("max_ms"), cell("p50_ms")), ("2.0000", "2.5000", ""));
        assert_eq!(cell("failed_timeout"), "0");
    }
}
