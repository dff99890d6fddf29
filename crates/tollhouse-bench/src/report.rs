//! Files with the results: one JSON file per case and day, and a Markdown table from the newest
//! file of each case. Quick runs are printed but not kept, because they could be mistaken for
//! measurements.

use super::budget::Figure;
use super::case::Case;
use super::measure::Row;
use super::plan::Length;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;
use tollhouse_stdx::civil::CivilTime;

/// Rows, figures and tables that a case produced.
pub(crate) struct CaseResult {
    pub(crate) case: Case,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
    /// Further results, which do not fit into rows or figures.
    pub(crate) tables: Vec<Table>,
}

/// A table that a case defines. Cells are texts and numbers; an absent one is null.
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) cells: Vec<Vec<Value>>,
}

/// Folder of the result files, and the date and machine that each file contains.
pub(crate) struct Report {
    machine: Value,
    date: String,
    folder: PathBuf,
}

impl Report {
    /// Creates the report. Results of a full run go to `bench/results/`, those of a quick run below
    /// the target folder.
    pub(crate) fn new(machine: Value, length: Length) -> Result<Self> {
        let folder = match length {
            Length::Quick => shell::target_directory().join("bench-quick"),
            Length::Full => shell::workspace_root().join("bench/results"),
        };
        std::fs::create_dir_all(&folder)?;
        Ok(Self { machine, date: today(), folder })
    }

    /// Writes the result of one case to a file.
    pub(crate) fn save(&self, result: &CaseResult) -> Result<()> {
        let value = json!({
            "case": result.case.name(),
            "date": self.date,
            "machine": self.machine,
        });
        let value = with_parts(value, result);
        let path = self.folder.join(format!("{}-{}.json", self.date, result.case.name()));
        let text = serde_json::to_string_pretty(&value)? + "\n";
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Writes the Markdown table of all results, from the newest file of every case.
    pub(crate) fn write_summary(&self) -> Result<()> {
        let mut newest: BTreeMap<String, Value> = BTreeMap::new();
        let mut names: Vec<PathBuf> = std::fs::read_dir(&self.folder)?
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
        names.sort();
        for path in names.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")) {
            let text = std::fs::read_to_string(&path)?;
            let value: Value =
                serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            if let Some(case) = value["case"].as_str() {
                newest.insert(case.to_owned(), value);
            }
        }
        let path = self.folder.join("latest.md");
        std::fs::write(&path, summary(&newest))?;
        println!("wrote {}", path.display());
        Ok(())
    }
}

impl CaseResult {
    /// Returns a result without additional tables.
    pub(crate) fn new(case: Case, rows: Vec<Row>, figures: Vec<Figure>) -> Self {
        Self { case, rows, figures, tables: Vec::new() }
    }

    /// Returns the result as Markdown tables, for the terminal.
    pub(crate) fn to_markdown(&self) -> String {
        body(&with_parts(json!({}), self))
    }
}

/// Adds the rows, figures and tables of a result, in the format of the result files.
fn with_parts(mut value: Value, result: &CaseResult) -> Value {
    value["rows"] = result.rows.iter().map(Row::to_json).collect();
    value["figures"] = result.figures.iter().map(Figure::to_json).collect();
    if !result.tables.is_empty() {
        value["tables"] = result.tables.iter().map(Table::to_json).collect();
    }
    value
}

impl Table {
    fn to_json(&self) -> Value {
        json!({ "caption": self.caption, "columns": self.columns, "cells": self.cells })
    }
}

/// Returns today's date in UTC as year, month and day with dashes.
fn today() -> String {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or_default();
    let CivilTime { year, month, day, .. } = CivilTime::from_unix_seconds(seconds);
    format!("{year:04}-{month:02}-{day:02}")
}

fn summary(newest: &BTreeMap<String, Value>) -> String {
    let mut text = String::from(
        "# Latest results\n\nWritten by `cargo x bench`; do not edit. The method, and what it does \
         not show: [README](../README.md).\n",
    );
    let mut last_machine = Value::Null;
    for (case, value) in newest {
        if value["machine"] != last_machine {
            last_machine = value["machine"].clone();
            text.push_str(&machine_line(&last_machine));
        }
        let date = value["date"].as_str().unwrap_or_default();
        text.push_str(&format!("\n## {case} ({date})\n\n{}", body(value)));
    }
    text
}

fn machine_line(machine: &Value) -> String {
    let word = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    // Older result files contain only the release of the kernel.
    let kernel = word("kernel");
    let kernel = if kernel.contains("Linux") { kernel } else { format!("Linux {kernel}") };
    let versions = machine["versions"].as_object();
    let versions: Vec<String> = versions
        .into_iter()
        .flatten()
        .map(|(name, version)| format!("{name}: {}", version.as_str().unwrap_or("unknown")))
        .collect();
    // Older result files do not say where the program came from.
    let binary = machine["binary"].as_str().map(|source| format!(", binary {source}"));
    format!(
        "\nMachine: {}, {} cores, {}; commit {}{}. {}.\n",
        word("cpu"),
        machine["cores"],
        kernel,
        word("commit"),
        binary.unwrap_or_default(),
        versions.join("; ")
    )
}

/// Returns the complete result of a case as Markdown.
fn body(value: &Value) -> String {
    let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut text = rows_table(&list("rows"));
    text.push_str(&figures_table(&list("figures")));
    for table in list("tables") {
        text.push_str(&own_table(&table));
    }
    text
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn rows_table(rows: &[Value]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "| | CPU µs/request | requests/s | p50 µs | p99 µs | errors |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        text.push_str(&format!(
            "| {} | {:.2} | {:.0} | {:.0} | {:.0} | {} |\n",
            row["label"].as_str().unwrap_or_default(),
            number(&row["cpu_us_per_request"]),
            number(&row["requests_per_second"]),
            number(&row["p50_us"]),
            number(&row["p99_us"]),
            row["errors"],
        ));
    }
    text
}

fn figures_table(figures: &[Value]) -> String {
    let mut text = String::new();
    if !figures.is_empty() {
        text.push_str("\n| figure | value | budget | stretch | |\n|---|---|---|---|---|\n");
    }
    for figure in figures {
        // Old results, from before lower bounds existed, do not name their bound.
        let sign = figure["bound"].as_str().unwrap_or("≤");
        let bound =
            |name: &str| figure[name].as_f64().map_or(String::new(), |v| format!("{sign} {v}"));
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            figure["what"].as_str().unwrap_or_default(),
            rounded(number(&figure["value"])),
            bound("budget"),
            bound("stretch"),
            figure["verdict"].as_str().unwrap_or_default(),
        ));
    }
    text
}

fn own_table(table: &Value) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&table["columns"]);
    let mut text = format!("\n{}\n\n", table["caption"].as_str().unwrap_or_default());
    text.push_str(&line(columns.iter().map(cell).collect()));
    text.push_str(&format!("|{}\n", "---|".repeat(columns.len())));
    for row in list(&table["cells"]) {
        text.push_str(&line(list(&row).iter().map(cell).collect()));
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) => rounded(number(value)),
        _ => String::new(),
    }
}

/// Returns large numbers without decimals, and others with three.
fn rounded(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::CPU_AGAINST_NGINX;

    fn result() -> CaseResult {
        let row = Row {
            label: "nginx".to_owned(),
            requests_per_second: 50_000.4,
            p50_us: 900.0,
            p99_us: 2100.0,
            cpu_us_per_request: 12.345,
            errors: 0,
        };
        let figure = Figure::with_budget("CPU against nginx", 0.751, CPU_AGAINST_NGINX);
        CaseResult::new(Case::Plain, vec![row], vec![figure])
    }

    #[test]
    fn tables_show_rows_and_verdicts() {
        let text = result().to_markdown();
        assert!(text.contains("| nginx | 12.35 | 50000 | 900 | 2100 | 0 |"), "{text}");
        assert!(text.contains("| CPU against nginx | 0.751 | ≤ 0.77 | ≤ 0.7 | met |"), "{text}");
    }

    #[test]
    fn a_table_of_its_own_follows_the_figures() {
        let mut result = result();
        result.tables.push(Table {
            caption: "Beside others".to_owned(),
            columns: vec!["what", "ratio"],
            cells: vec![vec![json!("a"), json!(1.2345)], vec![json!("b"), Value::Null]],
        });
        let text = result.to_markdown();
        assert!(text.contains("Beside others\n\n| what | ratio |\n|---|---|\n"), "{text}");
        assert!(text.contains("| a | 1.234 |\n| b |  |\n"), "{text}");
    }

    #[test]
    fn the_summary_takes_the_newest_of_each_case() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report {
            machine: json!({"cpu": "Some CPU", "cores": 2, "kernel": "6", "commit": "abc"}),
            date: "2026-01-01".to_owned(),
            folder: folder.path().to_path_buf(),
        };
        report.save(&result()).unwrap();
        report.date = "2026-01-02".to_owned();
        report.save(&result()).unwrap();
        report.write_summary().unwrap();
        let text = std::fs::read_to_string(folder.path().join("latest.md")).unwrap();
        assert!(text.contains("## plain (2026-01-02)") && !text.contains("2026-01-01"), "{text}");
        assert!(text.contains("Some CPU, 2 cores"), "{text}");
    }
}
