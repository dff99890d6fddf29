//! Options on the output of a measurement: result files, text, and progress.

use std::path::{Path, PathBuf};

use clap::Args;
use tollhouse_load::case::Threshold;
use tollhouse_load::error::BenchError;
use tollhouse_load::file;
use tollhouse_load::plan::{Plan, REPEAT_MAX};
use tollhouse_load::report::text::Detail;
use tollhouse_load::report::{self, Report, csv, hgrm, html, prometheus};
use tollhouse_load::resource::Watched;

use super::terminal;

/// Options on watched processes and thresholds, for commands that make their own plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionArguments {
    /// Name of the case in the report.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of runs; three or more tell a difference from chance.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEAT_MAX)))]
    repeat: u32,
    /// Watch a process: `pid:123`, `port:9080` or `command:nginx`, prefixed with `ROLE=` if it is
    /// not the target; may be repeated.
    #[arg(long, value_name = "[ROLE=]PROCESS", value_parser = parse_watched)]
    watch: Vec<Watched>,
    /// Condition that must hold, such as 'p99 < 50ms', 'failure_rate < 1%', 'goodput > 20000', or
    /// the exit code is 1; may be repeated.
    #[arg(long, value_name = "CONDITION")]
    threshold: Vec<Threshold>,
}

impl SessionArguments {
    /// Adds these options to a plan with a single case.
    pub fn complete(&self, plan: &mut Plan) {
        plan.repeat = self.repeat;
        plan.watch.clone_from(&self.watch);
        for planned in &mut plan.cases {
            planned.case.thresholds.clone_from(&self.threshold);
            if let Some(name) = &self.name {
                planned.case.name.clone_from(name);
            }
        }
        plan.name.clone_from(&plan.cases[0].case.name);
    }
}

/// Parses a process to watch; the default role is the target.
fn parse_watched(text: &str) -> Result<Watched, String> {
    let is_bare = ["pid:", "port:", "command:"].iter().any(|kind| text.starts_with(kind));
    if is_bare { format!("target={text}").parse() } else { text.parse() }
}

/// Options on result files.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    /// Write the whole result as JSON, for `bench report` and `bench compare`; updated after every
    /// case.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the percentile distribution (HdrHistogram's .hgrm; one file per case).
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write one line per case, for spreadsheets.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write Prometheus' text format.
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Print only errors: no progress, no text.
    #[arg(short, long)]
    quiet: bool,
    /// Print all warnings in full, not only the gravest.
    #[arg(long, conflicts_with = "quiet")]
    verbose: bool,
}

impl OutputArguments {
    /// Adds default JSON and HTML files, for commands whose results are always kept.
    #[must_use]
    pub fn with_defaults(&self, stem: &str) -> Self {
        let mut outputs = self.clone();
        outputs.json.get_or_insert_with(|| format!("{stem}.json").into());
        outputs.html.get_or_insert_with(|| format!("{stem}.html").into());
        outputs
    }

    /// Prints the names of the written files.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn print_written_files(&self) -> Result<(), BenchError> {
        if self.quiet {
            return Ok(());
        }
        let files = [&self.json, &self.html, &self.csv, &self.prometheus];
        let names = files.into_iter().flatten().map(|path| path.display().to_string());
        terminal::print(&format!("\nwritten: {}\n", names.collect::<Vec<_>>().join(", ")))
    }

    /// Returns how the text shows warnings.
    pub fn warning_detail(&self) -> Detail {
        if self.verbose { Detail::Full } else { Detail::Brief }
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns the path of the JSON result file, if one is requested.
    pub fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Checks that the folders of all result files exist, so that an error is found before hours
    /// are spent on measuring.
    ///
    /// # Errors
    /// The first file whose folder does not exist.
    pub fn check(&self) -> Result<(), BenchError> {
        let files = [&self.json, &self.html, &self.hgrm, &self.csv, &self.prometheus];
        files.into_iter().flatten().try_for_each(|path| file::check_writable(path))
    }

    /// Writes all requested result files.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub fn write(&self, report: &Report) -> Result<(), BenchError> {
        if let Some(path) = &self.json {
            report::save(report, path)?;
        }
        if let Some(path) = &self.html {
            file::write_text(path, &html::render(report))?;
        }
        if let Some(path) = &self.csv {
            file::write_text(path, &csv::text(report))?;
        }
        if let Some(path) = &self.prometheus {
            file::write_text(path, &prometheus::text(report))?;
        }
        if let Some(path) = &self.hgrm {
            for (index, result) in report.results.iter().enumerate() {
                let text = hgrm::text(result.headline());
                file::write_text(&numbered(path, index, report.results.len()), &text)?;
            }
        }
        Ok(())
    }
}

/// Returns the path of the file for the case at `index`: `page.hgrm` for a single case, or
/// `page-1.hgrm`, `page-2.hgrm` and so on for several.
fn numbered(path: &Path, index: usize, count: usize) -> PathBuf {
    if count == 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", index + 1));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use tollhouse_load::resource::Selector;

    use super::*;

    #[test]
    fn a_process_without_a_role_is_the_target() {
        for (text, role, what) in [
            ("port:9080", "target", Selector::Port(9080)),
            ("upstream=pid:5", "upstream", Selector::Pid(5)),
            ("command:a=b", "target", Selector::Command("a=b".into())),
        ] {
            assert_eq!(parse_watched(text), Ok(Watched::new(role, what)), "{text}");
        }
        assert!(parse_watched("nginx").is_err());
    }

    #[test]
    fn several_cases_have_a_file_each() {
        assert_eq!(numbered(Path::new("a/b.hgrm"), 0, 1), Path::new("a/b.hgrm"));
        assert_eq!(numbered(Path::new("a/b.hgrm"), 1, 2), Path::new("a/b-2.hgrm"));
        assert_eq!(numbered(Path::new("b"), 0, 2), Path::new("b-1"));
    }
}
