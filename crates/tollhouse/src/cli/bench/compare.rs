//! `tollhouse bench compare`: compares results with a first one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::error::BenchError;
use tollhouse_load::report;
use tollhouse_load::report::compare::{Comparison, compare, text};

use super::terminal;

/// Exit code if a figure became worse.
const WORSE: u8 = 1;

/// Arguments of `bench compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The result before, as `--json` wrote it.
    #[arg(value_name = "BEFORE.json")]
    before: PathBuf,
    /// The results to compare with it.
    #[arg(value_name = "AFTER.json", required = true)]
    after: Vec<PathBuf>,
    /// Exit with 1 when a figure is worse by more than this, such as `5%`, and chance does not explain
    /// it. Both sides need `--repeat 3` for that.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    threshold: Option<f64>,
}

/// Prints the comparison of each later result with the first.
///
/// # Errors
/// If a file cannot be read or is not a result.
pub fn run(arguments: &CompareArguments) -> Result<ExitCode, BenchError> {
    let before = report::load(&arguments.before)?;
    let mut is_worse = false;
    for (place, path) in arguments.after.iter().enumerate() {
        let comparison = compare(&before, &report::load(path)?);
        let gap = if place == 0 { "" } else { "\n" };
        terminal::print(&format!("{gap}{}", text(&comparison)))?;
        if let Some(share) = arguments.threshold {
            terminal::print(&losses(&comparison, share))?;
            is_worse |= !comparison.regressions(share).is_empty();
        }
    }
    Ok(if is_worse { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

/// Lists the figures that are worse by more than a share.
fn losses(comparison: &Comparison, share: f64) -> String {
    let mut lines = String::new();
    for (word, found) in
        [("worse", comparison.regressions(share)), ("perhaps worse", comparison.suspicions(share))]
    {
        for (case, figure) in found {
            let loss = figure.loss() * 100.0;
            lines.push_str(&format!(
                "{word} by {loss:.1} %: {}: {}\n",
                case.title(),
                figure.figure.name()
            ));
        }
    }
    lines
}

/// Parses `5%` or `5` as the share 0.05.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    let percent = number.ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("`{text}` is not a share; write 5%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_in_percent() {
        assert_eq!(parse_percent("5%"), Ok(0.05));
        assert_eq!(parse_percent("12.5 %"), Ok(0.125));
        assert!(parse_percent("-1%").is_err() && parse_percent("much").is_err());
    }
}
