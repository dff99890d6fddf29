//! Formatting of the path that a request takes through ShenYu's plugins.

use tollhouse_shenyu::matching::{Candidate, Standing};
use tollhouse_shenyu::model::Condition;
use tollhouse_shenyu_gateway::{Course, CourseEnd, CourseStep, Effect};

use super::super::{ByShenyu, lossy};
use super::Page;

/// Maximum number of selectors or rules listed per plugin; there may be thousands.
const LISTED_MAX: usize = 10;

/// Adds lines with the reason why ShenYu's plugins handle the request, the effect of each plugin,
/// and the result: the path sent to a node, or an answer.
pub(super) fn way(page: &mut Page, shenyu: &ByShenyu, global_plugins: &[String]) {
    let course = &shenyu.course;
    let why = match (shenyu.comes_first, shenyu.is_known()) {
        (true, true) => "which are asked before routes are",
        _ => "as no route takes it",
    };
    let kind = course.rpc_type.map_or("", |rpc_type| rpc_type.name());
    match kind {
        "" => page.line("route", &format!("ShenYu's plugins, {why}")),
        kind => page.line("route", &format!("ShenYu's plugins, {why}, as {kind}")),
    }
    let steps = course.steps.iter().filter(|step| !is_idle(step)).map(step_line);
    // Global rules run first, as for any request.
    let lines: Vec<String> = global_plugins.iter().cloned().chain(steps).collect();
    for (index, line) in lines.iter().enumerate() {
        page.line(if index == 0 { "plugins" } else { "" }, line);
    }
    match &course.end {
        CourseEnd::Node { uri: Some(uri), .. } => page.line("node path", &lossy(uri)),
        CourseEnd::Node { uri: None, .. } => {}
        CourseEnd::Answer { status, body } => {
            page.line("answer", &format!("{status} {}", lossy(body.as_bytes())));
        }
        CourseEnd::Elsewhere { status, location } => {
            page.line("answer", &format!("{status} to {}", lossy(location.as_bytes())));
        }
    }
}

/// Adds the selectors of each plugin, and the rules of the selector that takes the request.
pub(super) fn choices(page: &mut Page, course: &Course) {
    for step in &course.steps {
        let plugin = lossy(step.plugin.as_bytes());
        list(page, &format!("selectors of {plugin}"), &step.choice.selectors);
        if let Some(selector) = winner(&step.choice.selectors) {
            let id = lossy(selector.id.as_bytes());
            list(page, &format!("rules of selector {id}"), &step.choice.rules);
        }
    }
}

/// Whether a plugin neither takes the request nor has an effect on it.
fn is_idle(step: &CourseStep) -> bool {
    step.effect == Effect::Passes && winner(&step.choice.selectors).is_none()
}

fn winner(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().find(|candidate| candidate.standing == Standing::Won)
}

fn step_line(step: &CourseStep) -> String {
    let selector = winner(&step.choice.selectors);
    let chosen = match (selector, winner(&step.choice.rules)) {
        (None, _) => "no selector".to_owned(),
        (Some(selector), None) => format!("selector {}, no rule", named(selector)),
        (Some(selector), Some(rule)) => {
            format!("selector {}, rule {}", named(selector), named(rule))
        }
    };
    let effect = match &step.effect {
        Effect::Passes => "; does nothing".to_owned(),
        Effect::Acts => "; it may answer, which depends on more than its rule".to_owned(),
        Effect::Path { path, percent: 100.. } => {
            format!("; the path is then {}", lossy(path.as_bytes()))
        }
        Effect::Path { path, percent } => {
            format!("; of {percent} % of requests the path is then {}", lossy(path.as_bytes()))
        }
        Effect::Edits => "; edits the request, or the answer to it".to_owned(),
        Effect::NodePath { path, percent: 100.. } => {
            format!("; nodes get {}", lossy(path.as_bytes()))
        }
        Effect::NodePath { path, percent } => {
            format!("; of {percent} % of requests nodes get {}", lossy(path.as_bytes()))
        }
        Effect::Broken(reason) => format!("; does nothing: {}", lossy(reason.as_bytes())),
        Effect::Anew(path) => format!("; begins anew as {}", lossy(path.as_bytes())),
        Effect::Ends => String::new(),
    };
    format!("{}: {chosen}{effect}", lossy(step.plugin.as_bytes()))
}

fn named(candidate: &Candidate) -> String {
    let id = lossy(candidate.id.as_bytes());
    match candidate.name.is_empty() || candidate.name == candidate.id {
        true => id,
        false => format!("{id} ({})", lossy(candidate.name.as_bytes())),
    }
}

fn list(page: &mut Page, title: &str, candidates: &[Candidate]) {
    if candidates.is_empty() {
        return;
    }
    page.plain("");
    page.plain(&format!("{title}, the nearest first"));
    let mut nearest: Vec<&Candidate> = candidates.iter().collect();
    // The sort is stable, so that equal candidates keep their order.
    nearest.sort_by_key(|candidate| distance(candidate.standing));
    let listed = &nearest[..nearest.len().min(LISTED_MAX)];
    let width = listed.iter().map(|it| named(it).chars().count()).max().unwrap_or_default();
    for candidate in listed {
        let outcome = if candidate.standing == Standing::Won { "won " } else { "lost" };
        let (score, sort) = (candidate.score, candidate.sort);
        let why = reason(candidate);
        let name = named(candidate);
        page.plain(&format!("  {outcome}  {name:width$}  score {score}, sort {sort}  {why}"));
    }
    if let Some(more @ 1..) = candidates.len().checked_sub(LISTED_MAX) {
        page.plain(&format!("  and {more} more"));
    }
}

/// Returns how far a candidate is from a match. Conditions are checked in order, so that a
/// candidate that fails a later one is nearer.
fn distance(standing: Standing) -> usize {
    match standing {
        Standing::Won => 0,
        Standing::Outranked => 1,
        Standing::Unclear => 2,
        Standing::Failed(Some(at)) => usize::MAX - 1 - at,
        Standing::Failed(None) => usize::MAX,
    }
}

fn reason(candidate: &Candidate) -> String {
    let condition = candidate.condition.as_ref().map(in_words);
    match (candidate.standing, condition) {
        (Standing::Won, _) => String::new(),
        (Standing::Outranked, _) => "it holds, and another comes before it".to_owned(),
        (Standing::Unclear, Some(condition)) => format!("cannot be evaluated: {condition}"),
        (Standing::Unclear, None) => "cannot be evaluated".to_owned(),
        (Standing::Failed(_), Some(condition)) if candidate.score == 0 => {
            format!("none of its conditions holds, such as {condition}")
        }
        (Standing::Failed(_), Some(condition)) => format!("does not hold: {condition}"),
        (Standing::Failed(_), None) => "it has no conditions, and takes nothing".to_owned(),
    }
}

/// Formats a condition, such as `header x-app = shop`.
fn in_words(condition: &Condition) -> String {
    let name = condition.param_name.as_deref().filter(|name| !matches!(*name, "" | "/"));
    let parts = [
        Some(&*condition.param_type),
        name,
        Some(&*condition.operator),
        condition.param_value.as_deref(),
    ];
    let words: Vec<&str> = parts.into_iter().flatten().collect();
    lossy(words.join(" ").as_bytes())
}
