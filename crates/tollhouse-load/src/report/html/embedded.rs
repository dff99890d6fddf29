//! Embedded data for the page's script: the series of each run, reduced to what a chart can show.
//! Histograms and individual samples stay in the result file, so that the page is small enough for
//! mail.

use serde_json::{Value, json};

use crate::report::Report;
use crate::result::{CaseResult, KernelSeries};

/// Maximum number of points of a page, about 80 bytes each.
const POINTS_MAX: usize = 3_000;

/// Maximum number of points of kernel counters per run.
const KERNEL_POINTS_MAX: usize = 60;

/// Minimum number of points of a reduced line, so that its course stays visible.
const POINTS_MIN: usize = 12;

/// Serializes the runs of a report for the script.
pub(super) fn runs(report: &Report) -> String {
    let lines: usize = report.results.iter().map(|result| 1 + result.processes.len()).sum();
    let points = (POINTS_MAX / lines.max(1)).max(POINTS_MIN);
    let results: Vec<Value> = report.results.iter().map(|result| run(result, points)).collect();
    json!({ "results": results }).to_string()
}

fn run(result: &CaseResult, points: usize) -> Value {
    let whole = whole_intervals(result);
    let series = &result.series[..whole];
    let processes = result.processes.iter().map(|process| {
        let mut shown = serde_json::to_value(process).unwrap_or_default();
        if let Some(samples) = shown.get_mut("samples") {
            *samples = packed(samples.as_array().cloned().unwrap_or_default(), points);
        }
        shown
    });
    let shown = series.iter().map(|one| serde_json::to_value(one).unwrap_or_default());
    let shown = packed(shown.collect(), points);
    let kernel = result.kernel.as_ref().map(kernel_counts);
    json!({ "series": shown, "processes": processes.collect::<Vec<_>>(), "kernel": kernel })
}

/// Sums the kernel counters over groups of samples; sums, because most samples are zero.
fn kernel_counts(kernel: &KernelSeries) -> Value {
    let size = kernel.at_ns.len().div_ceil(KERNEL_POINTS_MAX).max(1);
    let sums = |counts: &[u64]| counts.chunks(size).map(|group| group.iter().sum()).collect();
    let ends: Vec<u64> = kernel.at_ns.chunks(size).filter_map(|it| it.last().copied()).collect();
    let (retransmits, overflows): (Vec<u64>, Vec<u64>) =
        (sums(&kernel.retransmits), sums(&kernel.listen_overflows));
    json!({ "at_ns": ends, "retransmits": retransmits, "listen_overflows": overflows })
}

/// Returns the number of full-length intervals. A short last interval is left out because it gives
/// no reliable rate.
fn whole_intervals(result: &CaseResult) -> usize {
    let series = &result.series;
    let longest = series.iter().map(|one| one.span_ns).max().unwrap_or(0);
    match series.last() {
        Some(last) if series.len() > 2 && last.span_ns < longest / 2 => series.len() - 1,
        _ => series.len(),
    }
}

/// Encodes objects with equal keys as one list of keys and rows of values, because repeated keys
/// would dominate the size.
fn packed(mut values: Vec<Value>, points: usize) -> Value {
    thin(&mut values, points);
    let Some(Value::Object(first)) = values.first() else { return json!({"keys": [], "rows": []}) };
    let keys: Vec<String> = first.keys().cloned().collect();
    let row = |value: &Value| keys.iter().map(|key| value[key].clone()).collect::<Value>();
    let rows: Vec<Value> = values.iter().map(row).collect();
    json!({ "keys": keys, "rows": rows })
}

/// Reduces the values to at most `points`, evenly spaced, including the first and the last.
fn thin(values: &mut Vec<Value>, points: usize) {
    if values.len() <= points || points < 2 {
        return;
    }
    let last = values.len() - 1;
    let kept: Vec<Value> =
        (0..points).map(|at| std::mem::take(&mut values[at * last / (points - 1)])).collect();
    *values = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Interval;

    #[test]
    fn a_line_is_thinned_evenly_and_what_is_left_over_at_the_end_is_left_out() {
        let mut values: Vec<Value> = (0..100).map(Value::from).collect();
        thin(&mut values, 5);
        assert_eq!(values, [0, 24, 49, 74, 99]);
        let interval = |span_ns| Interval { span_ns, completed: 1, ..Interval::default() };
        let series = vec![interval(100), interval(100), interval(100), interval(3)];
        let report = Report {
            results: vec![CaseResult { series, ..CaseResult::default() }],
            ..Report::default()
        };
        let value: Value = serde_json::from_str(&runs(&report)).expect("it is JSON");
        let series = &value["results"][0]["series"];
        assert_eq!(series["rows"].as_array().map(Vec::len), Some(3));
        assert_eq!(
            series["rows"][0].as_array().map(Vec::len),
            series["keys"].as_array().map(Vec::len)
        );
    }
}
