//! The report of `check` as text: problems below the file they are in, a summary line for each.

use std::fmt::Write;

use tollhouse_config::Loaded;
use tollhouse_model::problem::Severity;
use tollhouse_model::{Kind, Problem, Problems};

use super::count;
use super::resources::Judged;

/// Problems printed for one file: more are not read by anybody, and are counted all the same.
const PROBLEMS_SHOWN_MAX: usize = 1_000;

/// The report on all files.
#[derive(Debug, Default)]
pub(super) struct Report {
    text: String,
    has_errors: bool,
}

impl Report {
    /// What to print.
    pub(super) fn text(&self) -> String {
        self.text.clone()
    }

    /// Whether any file has an error.
    pub(super) fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// A file that could not be read at all.
    pub(super) fn unreadable(&mut self, name: &str, problem: Problem) {
        self.file(name, "", &Problems::from_iter([problem]), "");
    }

    /// A bootstrap file.
    pub(super) fn bootstrap(&mut self, name: &str, problems: &Problems) {
        self.file(name, " (bootstrap)", problems, "");
    }

    /// A file of resources.
    pub(super) fn resources(&mut self, name: &str, judged: &Judged) {
        let mut counts = String::new();
        for (kind, count) in &judged.counts {
            write!(counts, "{}, ", plural(*count, singular(*kind))).expect(STRING);
        }
        self.file(name, " (resources)", &judged.problems, &counts);
    }

    /// Every effective key with its source.
    pub(super) fn keys(&mut self, loaded: &Loaded) {
        for line in loaded.describe().lines() {
            writeln!(self.text, "  {line}").expect(STRING);
        }
    }

    fn file(&mut self, name: &str, taken_for: &str, problems: &Problems, counts: &str) {
        for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
            self.problem(name, problem);
        }
        if let Some(more @ 1..) = problems.len().checked_sub(PROBLEMS_SHOWN_MAX) {
            writeln!(self.text, "{name}: {more} further problems").expect(STRING);
        }
        let (errors, warnings) = count(problems);
        self.has_errors |= errors > 0;
        let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
        writeln!(self.text, "{name}{taken_for}: {counts}{errors}, {warnings}").expect(STRING);
    }

    fn problem(&mut self, name: &str, problem: &Problem) {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Problem { path, value, reason, hint, .. } = problem;
        writeln!(self.text, "{severity}: {name}: {path}: {reason}").expect(STRING);
        if !value.is_empty() {
            writeln!(self.text, "    value: {value}").expect(STRING);
        }
        if !hint.is_empty() {
            writeln!(self.text, "    hint:  {hint}").expect(STRING);
        }
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

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
