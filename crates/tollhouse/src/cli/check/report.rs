//! The report of `check` as text: the problems of each file, then a summary line.

use std::fmt::Write;

use tollhouse_config::Loaded;
use tollhouse_load::report::paint::Paint;
use tollhouse_model::{Kind, Problem, Problems};
use tollhouse_stdx::plural::{counted, counted_as};

use super::count;
use super::resources::CheckResult;
use crate::cli::problems;

/// Maximum number of problems printed per file; further ones are only counted.
const PROBLEMS_SHOWN_MAX: usize = 1_000;

/// Text of the report on all checked files.
#[derive(Debug)]
pub(super) struct Report {
    text: String,
    has_errors: bool,
    paint: Paint,
}

impl Report {
    pub(super) fn new(paint: Paint) -> Self {
        Self { text: String::new(), has_errors: false, paint }
    }

    pub(super) fn text(&self) -> String {
        self.text.clone()
    }

    /// Whether any file has an error.
    pub(super) fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Adds a file that could not be read.
    pub(super) fn unreadable(&mut self, name: &str, problem: Problem) {
        self.file(name, "", &Problems::from_iter([problem]), "");
    }

    pub(super) fn bootstrap(&mut self, name: &str, problems: &Problems) {
        self.file(name, " (bootstrap)", problems, "");
    }

    /// Adds a resource file.
    pub(super) fn resources(&mut self, name: &str, checked: &CheckResult) {
        let mut counts = String::new();
        for (kind, count) in &checked.counts {
            write!(counts, "{}, ", counted(*count, singular(*kind))).expect(STRING);
        }
        if let count @ 1.. = checked.shenyu.len() {
            write!(counts, "{}, ", shenyu(count)).expect(STRING);
        }
        self.file(name, " (resources)", &checked.problems, &counts);
    }

    /// Adds a line for every effective bootstrap key, with the source of its value.
    pub(super) fn keys(&mut self, loaded: &Loaded) {
        for line in loaded.describe().lines() {
            writeln!(self.text, "  {line}").expect(STRING);
        }
    }

    fn file(&mut self, name: &str, taken_for: &str, found: &Problems, counts: &str) {
        for problem in found.iter().take(PROBLEMS_SHOWN_MAX) {
            self.text.push_str(&problems::text(name, problem, self.paint));
        }
        if let Some(more @ 1..) = found.len().checked_sub(PROBLEMS_SHOWN_MAX) {
            writeln!(self.text, "{name}: {}", counted(more, "further problem")).expect(STRING);
        }
        let (errors, warnings) = count(found);
        self.has_errors |= errors > 0;
        let errors = painted(errors, "error", |text| self.paint.bad(text));
        let warnings = painted(warnings, "warning", |text| self.paint.doubtful(text));
        writeln!(self.text, "{name}{taken_for}: {counts}{errors}, {warnings}").expect(STRING);
    }
}

const STRING: &str = "writing to a string cannot fail";

fn singular(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => "route",
        Kind::Service => "service",
        Kind::Upstream => "upstream",
        Kind::PluginConfig => "plugin config",
        Kind::GlobalRule => "global rule",
        Kind::Consumer => "consumer",
        Kind::Credential => "credential",
        Kind::ConsumerGroup => "consumer group",
        Kind::PluginMetadata => "plugin metadata object",
        Kind::Proto => "proto",
        Kind::Ssl => "ssl object",
        Kind::StreamRoute => "stream route",
        Kind::Secret => "secret",
    }
}

fn shenyu(count: usize) -> String {
    counted_as(count as u64, "object of ShenYu", "objects of ShenYu")
}

/// Formats a count, coloured unless it is zero.
fn painted(count: usize, noun: &str, paint: impl Fn(String) -> String) -> String {
    let text = counted(count, noun);
    if count == 0 { text } else { paint(text) }
}
