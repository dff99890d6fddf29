//! Measurement session: runs the cases of a plan one after the other, repeats them as configured,
//! and keeps a report that is complete after every case.
//!
//! Repetitions are interleaved: all cases, then all again, so that a machine that slows down
//! affects every case alike. Baselines are repeated at the end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::case::secrets;
use crate::error::BenchError;
use crate::honesty;
use crate::plan::{DIRECT, Plan, PlannedCase};
use crate::report::{self, Environment, Report};
use crate::result::{CaseResult, End};
use crate::run::{self, Progress, Settings, Stop};

/// Role of this process among the watched ones.
const GENERATOR: &str = "generator";

/// Settings of a session in addition to its plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Command line that repeats the session.
    pub command: Vec<String>,
    /// File for the report, written after every case.
    pub save: Option<PathBuf>,
    /// Signal that ends the current case and the session.
    pub stop: Stop,
    /// Environment, if already collected; otherwise it is collected at the start.
    pub environment: Option<Environment>,
}

/// Event of a session, for observers.
#[derive(Debug)]
pub enum Event<'a> {
    Began(Place<'a>),
    Progress(&'a Progress<'a>),
    Ended(&'a CaseResult),
}

/// Position of a case in a session.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub planned: &'a PlannedCase,
    /// Number of the measurement, from 1.
    pub number: usize,
    pub count: usize,
    /// Number of the repetition, from 1.
    pub repetition: u32,
}

#[derive(Debug)]
pub struct Session {
    pub report: Report,
    /// Error that ended the session early; the report holds the results until then.
    pub failed: Option<BenchError>,
}

/// Measures a plan.
///
/// # Errors
/// If nothing could be measured, or the report cannot be saved.
pub fn run(
    plan: &Plan,
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    // All cases are validated first, so that an error in the last case does not appear after an
    // hour.
    for planned in &plan.cases {
        planned.case.validate()?;
    }
    let mut report = begin(plan, options);
    let order = order(plan);
    let mut failed = None;
    for (index, (planned, repetition)) in order.iter().enumerate() {
        let place =
            Place { planned, number: index + 1, count: order.len(), repetition: *repetition };
        observe(Event::Began(place));
        let watch = plan.watch.iter().chain(&planned.watch).cloned().collect();
        let settings = Settings { watch, stop: options.stop.clone() };
        let measured = run::run(&planned.case, &settings, &mut |progress| {
            observe(Event::Progress(progress));
        });
        let mut result = match measured {
            Ok(result) => result,
            // A later error keeps the results before it.
            Err(error) if report.results.is_empty() => return Err(error),
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        complete(&mut result, planned, *repetition, &report.command);
        observe(Event::Ended(&result));
        let is_interrupted = result.end == End::Interrupted;
        report.results.push(result);
        report.warnings = honesty::evaluate(&report);
        // Saved after each case, so that a killed session leaves its results.
        if let Some(path) = &options.save {
            report::save(&report, path)?;
        }
        if is_interrupted || options.stop.is_stopped() {
            break;
        }
    }
    Ok(Session { report, failed })
}

/// Completes a result with subject, repetition, and the case without secrets.
fn complete(result: &mut CaseResult, planned: &PlannedCase, repetition: u32, command: &[String]) {
    result.case = Some(planned.case.without_secrets());
    result.subject.clone_from(&planned.subject);
    result.repetition = repetition;
    // The kernel's command line of this process may contain credentials.
    for process in result.processes.iter_mut().filter(|process| process.role == GENERATOR) {
        process.command = command.join(" ");
    }
}

/// Creates the report before the first measurement.
fn begin(plan: &Plan, options: &Options) -> Report {
    let hidden: Vec<&str> = plan.cases.iter().flat_map(|planned| planned.case.secrets()).collect();
    let source = plan.source.as_ref();
    let source = source.map(|(name, text)| (name.clone(), secrets::masked(text, &hidden)));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Report {
        title: plan.name.clone(),
        about: plan.about.clone(),
        command: secrets::masked_command(&options.command),
        environment: options.environment.clone().unwrap_or_else(Environment::collect),
        created_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        configurations: source.into_iter().collect(),
        ..Report::default()
    }
}

/// Returns all measurements of the session in order, with their repetition.
fn order(plan: &Plan) -> Vec<(&PlannedCase, u32)> {
    let rounds = (1..=plan.repeat.max(1))
        .flat_map(|repetition| plan.cases.iter().map(move |planned| (planned, repetition)));
    let last = plan.repeat.max(1) + 1;
    let is_baseline = |planned: &&PlannedCase| plan.baseline.is_some() && planned.subject == DIRECT;
    let again = plan.cases.iter().filter(is_baseline).map(|planned| (planned, last));
    let has_others = plan.cases.iter().any(|planned| planned.subject != DIRECT);
    rounds.chain(again.filter(|_| has_others)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use tollhouse_mock::{Behaviour, Mock};

    fn names(plan: &str) -> Vec<String> {
        let plan = Plan::parse(plan).expect("a plan");
        let shown = |(planned, repetition): &(&PlannedCase, u32)| {
            format!("{} {repetition}", planned.case.name)
        };
        order(&plan).iter().map(shown).collect()
    }

    #[test]
    fn repetitions_go_round_and_a_baseline_comes_again_at_the_end() {
        let cases = "cases: [{name: a, target: h}, {name: b, target: h}]";
        assert_eq!(names(cases), ["a 1", "b 1"]);
        assert_eq!(names(&format!("repeat: 2\n{cases}")), ["a 1", "b 1", "a 2", "b 2"]);
        assert_eq!(names(&format!("baseline: a\n{cases}")), ["a 1", "b 1", "a 2"]);
        assert_eq!(names("baseline: a\ncases: [{name: a, target: h}]"), ["a 1"]);
    }

    fn short(target: &str) -> Case {
        let mut case = Case::new(target);
        case.load.requests = Some(20);
        case.load.connections = 2;
        case
    }

    #[test]
    fn a_session_keeps_what_it_measured_although_a_later_case_fails() {
        let mock = Mock::start(Behaviour::default()).expect("loopback has ports");
        let mut plan = Plan::from_case(short(&format!("http://{}/", mock.address())));
        plan.cases.extend(Plan::from_case(short("http://127.0.0.1:1/")).cases);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("result.json");
        let options = Options { save: Some(path.clone()), ..Options::default() };
        let mut seen = Vec::new();
        let session = run(&plan, &options, &mut |event| match event {
            Event::Began(place) => seen.push(format!("{} of {}", place.number, place.count)),
            Event::Progress(_) => (),
            Event::Ended(result) => seen.push(format!("{} done", result.counts.succeeded)),
        })
        .expect("one case was measured");
        assert_eq!(seen, ["1 of 2", "20 done", "2 of 2"]);
        let failed = session.failed.expect("nothing listens there").to_string();
        assert!(failed.contains("127.0.0.1:1"), "{failed}");
        let kept = report::load(&path).expect("a report");
        assert_eq!(kept.results.len(), 1);
        assert_eq!(kept.results[0].counts, session.report.results[0].counts);
        assert!(!kept.environment.label.is_empty() && !kept.warnings.is_empty());
    }

    #[test]
    fn nothing_measured_is_an_error_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("result.json");
        let options = Options { save: Some(path.clone()), ..Options::default() };
        let plan = Plan::from_case(short("http://127.0.0.1:1/"));
        assert!(run(&plan, &options, &mut |_| ()).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn a_stopped_session_ends_with_the_case_under_way() {
        let mock = Mock::start(Behaviour::default()).expect("loopback has ports");
        let mut case = short(&format!("http://{}/", mock.address()));
        case.load.requests = None;
        case.load.duration = Some(Duration::from_secs(60));
        let mut plan = Plan::from_case(case);
        plan.repeat = 2;
        let options = Options::default();
        let session = run(&plan, &options, &mut |event| {
            if matches!(event, Event::Progress(_)) {
                options.stop.stop();
            }
        })
        .expect("something was measured");
        let [result] = session.report.results.as_slice() else { panic!("one result") };
        assert_eq!(result.end, End::Interrupted);
    }
}
