//! Plan files: a list of cases in YAML, with defaults, matrices and the processes to watch.
//!
//! A case of a plan is a [`Case`] with three more keys: `subject` (the measured system), `matrix`
//! (lists of values; the case is repeated for each combination) and `watch` (processes watched
//! during this case only). Errors name file, line, column and key.

mod merge;
mod node;
mod problem;
mod read;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::node::{Kind, Node};
use self::problem::{Problem, unfit};
use crate::case::{Body, Case, GrpcData, Load};
use crate::error::BenchError;
use crate::report::text::table;
use crate::resource::Watched;

/// Size limit of a plan file in bytes.
const PLAN_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of repetitions of a plan, enough for any statistics.
pub const REPEAT_MAX: u32 = 1_000;
/// Subject name of a baseline, by which reports recognize it.
pub const DIRECT: &str = "direct";
/// Top-level keys of a plan.
const KEYS: [&str; 7] = ["name", "about", "repeat", "baseline", "watch", "defaults", "cases"];

/// A plan: cases to measure one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Title of the report.
    pub name: String,
    /// A few sentences about the measurement.
    pub about: String,
    /// Number of repetitions of the whole plan; at least 1.
    pub repeat: u32,
    /// Baseline cases, by name or subject. They are measured again after the other cases, and their
    /// subject becomes [`DIRECT`].
    pub baseline: Option<String>,
    /// Processes to watch during every case.
    pub watch: Vec<Watched>,
    /// Cases in the order of the plan; never empty.
    pub cases: Vec<PlannedCase>,
    /// Name and text of the plan file.
    pub source: Option<(String, String)>,
}

/// Case of a plan, with its subject and the processes to observe.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCase {
    /// Measured system: `direct`, `tollhouse`, `nginx`, ….
    pub subject: String,
    pub case: Case,
    /// Processes to watch during this case, in addition to those of the plan.
    pub watch: Vec<Watched>,
}

impl Plan {
    /// Creates a plan with one case.
    pub fn from_case(mut case: Case) -> Self {
        if case.name.is_empty() {
            case.name = case.without_secrets().target;
        }
        let name = case.name.clone();
        let cases = vec![PlannedCase { subject: String::new(), case, watch: Vec::new() }];
        Self { name, repeat: 1, cases, ..Self::default() }
    }

    /// Reads a plan file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid; the message names the place.
    pub fn load(path: &Path) -> Result<Self, BenchError> {
        let text = crate::file::read_text(path, PLAN_BYTES_MAX)?;
        let mut plan =
            Self::parse(&text).map_err(|why| BenchError::File { path: path.to_owned(), why })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for planned in &mut plan.cases {
            find_beside(&mut planned.case, folder);
        }
        let name =
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if plan.name.is_empty() {
            plan.name = path
                .file_stem()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        }
        plan.source = Some((name, text));
        Ok(plan)
    }

    /// Removes every case whose name and subject do not contain this text.
    ///
    /// # Errors
    /// If no case is left.
    pub fn keep_only(&mut self, text: &str) -> Result<(), BenchError> {
        let all: Vec<String> = self.cases.iter().map(|planned| planned.case.name.clone()).collect();
        self.cases
            .retain(|planned| planned.case.name.contains(text) || planned.subject.contains(text));
        if self.cases.is_empty() {
            let why = format!("no case has `{text}` in its name; there are: {}", all.join(", "));
            return Err(BenchError::Case { key: "cases".into(), why });
        }
        Ok(())
    }

    /// Lists the cases, one a line, with the duration of each.
    pub fn listed(&self) -> String {
        let mut rows = Vec::new();
        let mut whole = Duration::ZERO;
        let mut has_counts = false;
        for planned in &self.cases {
            let load = &planned.case.load;
            let length = match (load.duration, load.requests) {
                (None, Some(requests)) => {
                    // The duration of a number of requests is not known in advance.
                    has_counts = true;
                    format!("{requests} requests")
                }
                (duration, _) => {
                    let length = load.warm_up + duration.unwrap_or(Load::DURATION_DEFAULT);
                    whole += length * self.repeat.max(1);
                    tollhouse_stdx::fine_duration::format(length)
                }
            };
            let case = &planned.case;
            rows.push(vec![
                case.name.clone(),
                planned.subject.clone(),
                case.target.clone(),
                length,
            ]);
        }
        let mut text = table::columns(&rows, 0).join("\n");
        let more = if has_counts { " and what the requests take" } else { "" };
        let runs = if self.repeat > 1 { format!(" {} times", self.repeat) } else { String::new() };
        text.push_str(&format!(
            "\n{} cases{runs}, {}{more}\n",
            self.cases.len(),
            crate::report::figure::time(whole.as_nanos() as f64)
        ));
        text
    }

    /// Parses the text of a plan.
    ///
    /// # Errors
    /// If the plan is invalid; the message holds line, column and key.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text).map_err(|problem| problem.to_string())
    }
}

fn parse(text: &str) -> Result<Plan, Problem> {
    let mut root = node::read(text)?;
    check_keys(&root)?;
    let text_of = |root: &mut Node, key: &str| match root.take(key) {
        Some(node) => read::from_node::<String>(&node).map_err(|problem| problem.within(key)),
        None => Ok(String::new()),
    };
    let mut plan = Plan {
        name: text_of(&mut root, "name")?,
        about: text_of(&mut root, "about")?,
        repeat: repeat(root.take("repeat"))?,
        watch: watched(root.take("watch"))?,
        ..Plan::default()
    };
    let defaults = root.take("defaults");
    plan.cases = cases(&root, defaults.as_ref())?;
    plan.baseline = baseline(root.get("baseline"), &mut plan.cases)?;
    Ok(plan)
}

fn check_keys(root: &Node) -> Result<(), Problem> {
    let Kind::Map(entries) = &root.kind else {
        return Err(unfit(root, "a map with `cases:`"));
    };
    for (key, _) in entries {
        if !KEYS.contains(&key.text.as_str()) {
            let unknown: Problem = serde::de::Error::unknown_field(&key.text, &KEYS);
            return Err(unknown.at(key.at).within(&key.text));
        }
    }
    Ok(())
}

fn repeat(node: Option<Node>) -> Result<u32, Problem> {
    let Some(node) = node else { return Ok(1) };
    let count: u32 = read::from_node(&node).map_err(|problem| problem.within("repeat"))?;
    if count == 0 || count > REPEAT_MAX {
        return Err(unfit(&node, &format!("1 to {REPEAT_MAX}")).within("repeat"));
    }
    Ok(count)
}

/// Parses the processes to watch, each as text (`target=port:9080`) or as a map with `role` and
/// `what`.
fn watched(node: Option<Node>) -> Result<Vec<Watched>, Problem> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let Kind::List(items) = &node.kind else {
        return Err(unfit(&node, "a list such as [target=port:9080]").within("watch"));
    };
    let one = |(index, item): (usize, &Node)| {
        let read = match item.scalar() {
            Some(text) => text.parse().map_err(|why: String| Problem::new(why).at(item.at)),
            None => read::from_node(item),
        };
        read.map_err(|problem: Problem| problem.within(&format!("[{index}]")).within("watch"))
    };
    items.iter().enumerate().map(one).collect()
}

fn cases(root: &Node, defaults: Option<&Node>) -> Result<Vec<PlannedCase>, Problem> {
    let Some(list) = root.get("cases") else {
        return Err(
            Problem::new("`cases` is missing; write a list of at least one case").at(root.at)
        );
    };
    let items = match &list.kind {
        Kind::List(items) if !items.is_empty() => items,
        _ => return Err(unfit(list, "a list of at least one case").within("cases")),
    };
    let mut planned = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let within = |problem: Problem| problem.within(&format!("[{index}]")).within("cases");
        for node in case_nodes(item, defaults).map_err(within)? {
            planned.push(planned_case(node).map_err(within)?);
        }
        if planned.len() > merge::CASES_MAX {
            let why = format!("are more than {}; split the plan", merge::CASES_MAX);
            return Err(Problem::new(why).at(list.at).within("cases"));
        }
    }
    Ok(planned)
}

/// Applies defaults and matrix to an entry of `cases`; returns one tree per case.
fn case_nodes(item: &Node, defaults: Option<&Node>) -> Result<Vec<Node>, Problem> {
    if !matches!(item.kind, Kind::Map(_)) {
        return Err(unfit(item, "a map with `target:`"));
    }
    let mut case =
        defaults.map_or_else(|| item.clone(), |defaults| merge::with_defaults(item, defaults));
    let matrix = case.take("matrix");
    merge::multiplied(case, matrix.as_ref())
}

fn planned_case(mut node: Node) -> Result<PlannedCase, Problem> {
    let subject = match node.take("subject") {
        Some(subject) => read::from_node(&subject).map_err(|problem| problem.within("subject"))?,
        None => String::new(),
    };
    let watch = watched(node.take("watch"))?;
    // Messages written as YAML are converted to JSON text, in which templates are expanded.
    if let Some(message) = node.get_mut("grpc.data.json").filter(|node| node.scalar().is_none()) {
        message.kind = Kind::Text(message.to_json().to_string());
    }
    let mut case: Case = read::from_node(&node)?;
    if case.name.is_empty() {
        case.name = case.without_secrets().target;
    }
    case.validate().map_err(|error| match error {
        BenchError::Case { key, why } => {
            let at = node.nearest(&key).at;
            Problem::new(why).at(at).within(&key)
        }
        BenchError::Target { target, why } => {
            Problem::new(format!("`{target}` {why}")).at(node.nearest("target").at).within("target")
        }
        other => Problem::new(other.to_string()).at(node.at),
    })?;
    Ok(PlannedCase { subject, case, watch })
}

fn baseline(node: Option<&Node>, cases: &mut [PlannedCase]) -> Result<Option<String>, Problem> {
    let Some(node) = node else { return Ok(None) };
    let name: String = read::from_node(node).map_err(|problem| problem.within("baseline"))?;
    let is_meant =
        |planned: &&mut PlannedCase| planned.case.name == name || planned.subject == name;
    let mut found = cases.iter_mut().filter(is_meant).peekable();
    if found.peek().is_none() {
        return Err(unfit(node, "the name or the subject of one of the cases").within("baseline"));
    }
    for planned in found {
        planned.subject = DIRECT.to_owned();
    }
    Ok(Some(name))
}

/// Resolves relative paths of a case against the folder of its plan.
fn find_beside(case: &mut Case, folder: &Path) {
    let beside = |path: &mut PathBuf| {
        if path.is_relative() {
            *path = folder.join(&*path);
        }
    };
    if let Some(Body::File(path)) = &mut case.http.body {
        beside(path);
    }
    let tls = &mut case.tls;
    let files = [&mut case.http.urls_file, &mut tls.ca, &mut tls.cert, &mut tls.key];
    files.into_iter().flatten().for_each(beside);
    let Some(call) = &mut case.grpc else { return };
    [&mut call.proto, &mut call.protoset].into_iter().flatten().for_each(beside);
    call.import_paths.iter_mut().for_each(beside);
    if let Some(GrpcData::JsonFile(path) | GrpcData::BinaryFile(path)) = &mut call.data {
        beside(path);
    }
}

#[cfg(test)]
mod tests;
