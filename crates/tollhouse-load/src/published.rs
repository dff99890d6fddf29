//! Benchmark reports published by others, in our report format: figures exactly as printed,
//! including mistakes, with nothing added. The rules of honesty check them like any other report,
//! and suites show them beside their own measurements.
//!
//! The files are in `published/`; `tollhouse bench report` accepts them directly. A table has no
//! [`case`](crate::result::CaseResult::case) and usually no counts; those fields are empty.

use crate::report::Report;
use crate::result::CaseResult;

/// Returns the report of Apache ShenYu 2.6.0, Chinese edition: direct, netty and webClient at 600
/// to 1200 connections.
pub fn shenyu() -> Report {
    read(include_str!("published/shenyu.json"))
}

/// Returns the report of Apache ShenYu 2.6.0, English edition: direct, and the gateway at 600 to
/// 1000 connections.
pub fn shenyu_english() -> Report {
    read(include_str!("published/shenyu-english.json"))
}

/// Returns ngxway's sample of its 14 cases.
pub fn ngxway() -> Report {
    read(include_str!("published/ngxway.json"))
}

/// Returns the eight cases of API7 Gateway's baseline.
pub fn api7() -> Report {
    read(include_str!("published/api7.json"))
}

/// Returns the report of Polaris: four operations on five sizes of machines.
pub fn polaris() -> Report {
    read(include_str!("published/polaris.json"))
}

/// Returns the published figures for a suite as rows for [`Report::published`], with the source in
/// their subject. Empty for suites without published figures.
pub fn rows(suite: &str) -> Vec<CaseResult> {
    let (source, report) = match suite {
        "shenyu" => ("ShenYu 2.6.0", shenyu()),
        "ngxway" => ("ngxway", ngxway()),
        "api7" => ("API7", api7()),
        "polaris" => ("Polaris", polaris()),
        _ => return Vec::new(),
    };
    let mut rows = report.results;
    for row in &mut rows {
        row.subject = match row.subject == source {
            true => format!("{source}, published"),
            false => format!("{source} {}, published", row.subject),
        };
    }
    rows
}

fn read(text: &str) -> Report {
    serde_json::from_str(text).expect("the tests read every published file")
}

#[cfg(test)]
mod tests;
