//! The page in a headless Chromium: all charts are drawn, no error is raised, and a screenshot is kept
//! under the target folder for people to look at.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tollhouse_load::report::{Report, html};
use tollhouse_load::{honesty, published};
use tollhouse_testkit::program;

use super::fixture;

/// A browser starts slowly on a busy machine.
const BROWSER_TIME_MAX: Duration = Duration::from_secs(120);

/// Without these it looks for updates, asks for a sandbox, and draws by a device that is not there.
const QUIET: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Writes the page of a report, has the browser draw it, and gives the document as it is then.
fn look(chromium: &Path, name: &str, report: &Report) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report-html");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let page = folder.join(format!("{name}.html"));
    std::fs::write(&page, html::render(report)).expect("the target folder can be written");
    let screenshot = folder.join(format!("{name}.png"));
    // One of an earlier run must not stand for this one's; there may be none.
    let _ = std::fs::remove_file(&screenshot);
    let profile = tempfile::tempdir().expect("a folder can be made");
    let mut command = Command::new(chromium);
    command.args(QUIET).arg(format!("--user-data-dir={}", profile.path().display()));
    command.args(["--dump-dom", "--virtual-time-budget=4000"]);
    command.args(["--window-size=1280,5200", "--hide-scrollbars"]);
    command.arg(format!("--screenshot={}", screenshot.display()));
    command.arg(format!("file://{}", page.display()));
    let ran = program::run_within(&mut command, BROWSER_TIME_MAX);
    assert!(ran.status.success(), "{command:?}:\n{}", ran.text);
    assert!(screenshot.is_file(), "no {}:\n{}", screenshot.display(), ran.text);
    ran.text
}

/// The value of an attribute of the document's first element.
fn attribute<'d>(document: &'d str, name: &str) -> Option<&'d str> {
    let tag = &document[document.find("<html")?..];
    let tag = &tag[..tag.find('>')?];
    let value = tag.split_once(&format!("{name}=\""))?.1;
    value.split('"').next()
}

/// Has a page drawn and counts its charts.
fn check(name: &str, report: &Report, charts: usize) {
    let Some(chromium) = program::find("chromium") else { return };
    let document = look(&chromium, name, report);
    assert_eq!(attribute(&document, "data-errors"), None, "{name}");
    assert_eq!(attribute(&document, "data-ready"), Some(charts.to_string().as_str()), "{name}");
    assert_eq!(document.matches("<canvas").count(), charts, "{name}");
}

#[test]
fn a_browser_draws_a_closed_loop_of_several_runs() {
    check("shenyu", &fixture::shenyu(), 8);
}

#[test]
fn a_browser_draws_many_cases_of_one_run() {
    check("ngxway", &fixture::ngxway(), 8);
}

#[test]
fn a_browser_draws_an_open_loop() {
    check("open-loop", &fixture::open_loop(), 8);
}

#[test]
fn a_browser_draws_what_was_only_published() {
    let mut report = published::ngxway();
    report.warnings = honesty::evaluate(&report);
    check("published-ngxway", &report, 2);
}
