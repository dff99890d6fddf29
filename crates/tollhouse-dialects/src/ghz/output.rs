//! A result as ghz prints it, in its formats: what reads ghz's output reads this.
//!
//! Times are those that ghz reports: from sending to the end of the answer, also when a rate was asked
//! for. What a stalled server hides that way is in our own reports, which count from the intended start.

mod figures;
mod json;
mod prometheus;
mod summary;

use crate::ghz::{Format, GhzOptions};
use tollhouse_load::report::figure;
use tollhouse_load::result::CaseResult;

use figures::Figures;

/// The text of a format. The page ([`Format::Html`]) is our own ([`tollhouse_load::report::html`]); asked for it,
/// this gives the summary.
pub fn text(result: &CaseResult, options: &GhzOptions) -> String {
    let figures = Figures::new(result, options);
    match options.format {
        Format::Summary | Format::Html => summary::text(&figures),
        Format::Csv => summary::csv(&figures),
        Format::Json => go_template::golang::json::to_text(&json::Report::from_figures(&figures)),
        Format::Prometheus => prometheus::text(&figures),
    }
}

/// What ghz's way of counting leaves out, when a rate was asked for: from sending on, a request that had
/// to wait for its turn took no time.
pub fn remark(result: &CaseResult) -> Option<String> {
    let from_due_ns = result.latency.as_ref()?.percentile_ns(99.0)?;
    let from_sending_ns = result.response_time.percentile_ns(99.0)?;
    Some(format!(
        "times are those from sending, as in ghz (p99 {}); from when requests were due p99 is {}",
        figure::time(from_sending_ns as f64),
        figure::time(from_due_ns as f64),
    ))
}

#[cfg(test)]
mod tests;
