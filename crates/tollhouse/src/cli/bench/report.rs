//! `tollhouse bench report`: prints a saved result, or a published report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tollhouse_load::error::BenchError;
use tollhouse_load::report::paint::Paint;
use tollhouse_load::report::{self, Report, csv, hgrm, html, prometheus, summary, text};
use tollhouse_load::{honesty, published};

use super::terminal;

/// Arguments of `bench report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Result file, as `--json` wrote it.
    #[arg(value_name = "RESULT.json", required_unless_present = "published")]
    file: Option<PathBuf>,
    /// A published report, instead of a file.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    published: Option<PublishedReport>,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format [default: by the file's extension, else text].
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// Only the cases whose name or subject contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print every case in full instead of a table.
    #[arg(long)]
    full: bool,
}

/// Output format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal.
    Text,
    /// A page with charts.
    Html,
    /// The whole result.
    Json,
    /// A line per case.
    Csv,
    /// The percentile distributions.
    Hgrm,
    /// Prometheus' text format.
    Prometheus,
    /// Figures of each case as JSON, without histograms and series.
    Summary,
}

/// A report published by another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PublishedReport {
    /// Apache ShenYu 2.6.0.
    Shenyu,
    /// Apache ShenYu 2.6.0, English edition.
    ShenyuEnglish,
    /// ngxway's 14 cases.
    Ngxway,
    /// API7 Gateway's 8 cases.
    Api7,
    /// Polaris: four operations on five sizes.
    Polaris,
}

/// Prints the report.
///
/// # Errors
/// If the file cannot be read or is not a result, or the output cannot be written.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, BenchError> {
    let mut report = match (&arguments.file, arguments.published) {
        (Some(file), _) => report::load(file)?,
        (None, Some(PublishedReport::Shenyu)) => published::shenyu(),
        (None, Some(PublishedReport::ShenyuEnglish)) => published::shenyu_english(),
        (None, Some(PublishedReport::Ngxway)) => published::ngxway(),
        (None, Some(PublishedReport::Api7)) => published::api7(),
        (None, Some(PublishedReport::Polaris)) => published::polaris(),
        (None, None) => Report::default(),
    };
    if let Some(text) = &arguments.only {
        keep_only(&mut report, text)?;
    }
    // The warnings are computed again, because an older version, which had fewer rules, may have
    // written the file.
    report.warnings = honesty::evaluate(&report);
    let format = arguments.format.unwrap_or_else(|| by_extension(arguments.output.as_deref()));
    let detail = if arguments.full { Detail::Full } else { Detail::Summary };
    let Some(path) = &arguments.output else {
        terminal::print(&render(&report, format, detail, terminal::paint()))?;
        return Ok(ExitCode::SUCCESS);
    };
    if format == Format::Json {
        report::save(&report, path)?;
    } else {
        tollhouse_load::file::write_text(path, &render(&report, format, detail, Paint::Plain))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn keep_only(report: &mut Report, text: &str) -> Result<(), BenchError> {
    report.results.retain(|result| result.name.contains(text) || result.subject.contains(text));
    report.published.retain(|result| result.name.contains(text) || result.subject.contains(text));
    if report.results.is_empty() && report.published.is_empty() {
        let why = format!("no case has `{text}` in its name or subject");
        return Err(BenchError::Case { key: "--only".into(), why });
    }
    Ok(())
}

fn by_extension(path: Option<&Path>) -> Format {
    let extension =
        path.and_then(Path::extension).unwrap_or_default().to_string_lossy().to_lowercase();
    match extension.as_str() {
        "html" | "htm" => Format::Html,
        "json" => Format::Json,
        "csv" => Format::Csv,
        "hgrm" | "hdr" => Format::Hgrm,
        "prom" => Format::Prometheus,
        _ => Format::Text,
    }
}

/// Amount of detail in a text report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Summary,
    Full,
}

fn render(report: &Report, format: Format, detail: Detail, paint: Paint) -> String {
    match format {
        Format::Text if detail == Detail::Full => text::render_full(report, paint),
        Format::Text => text::render(report, paint, text::Detail::Full),
        Format::Html => html::render(report),
        Format::Json => serde_json::to_string_pretty(report).unwrap_or_default() + "\n",
        Format::Csv => csv::text(report),
        Format::Hgrm => report.results.iter().map(|result| hgrm::text(result.headline())).collect(),
        Format::Prometheus => prometheus::text(report),
        Format::Summary => {
            serde_json::to_string(&summary::summarize(report)).unwrap_or_default() + "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_its_extension_says() {
        for (path, format) in [
            (Some("a/page.HTML"), Format::Html),
            (Some("a.csv"), Format::Csv),
            (Some("a.hgrm"), Format::Hgrm),
            (Some("notes"), Format::Text),
            (None, Format::Text),
        ] {
            assert_eq!(by_extension(path.map(Path::new)), format, "{path:?}");
        }
    }
}
