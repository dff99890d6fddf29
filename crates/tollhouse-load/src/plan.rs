//! Plan files: a list of cases in YAML, with defaults, matrices and the processes to watch.
//!
//! A case of a plan is a [`Case`] as it stands, and has three keys more: `subject` (what is measured),
//! `matrix` (values that multiply it) and `watch` (processes of this case alone). Whatever is wrong is told with file, line, column and key.

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

/// The largest plan read, in bytes.
const PLAN_BYTES_MAX: u64 = 4 << 20;
/// Most times a plan is repeated: enough for any statistics.
pub const REPEAT_MAX: u32 = 1_000;
/// The subject of a baseline, by which reports find it.
pub const DIRECT: &str = "direct";
/// The keys of a plan.
const KEYS: [&str; 7] = ["name", "about", "repeat", "baseline", "watch", "defaults", "cases"];

/// What to measure, one case after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// What the report calls itself.
    pub name: String,
    /// A few sentences about what is measured how.
    pub about: String,
    /// How often all of it is measured; at least 1.
    pub repeat: u32,
    /// The cases (by their name or subject) that everything else is compared with: they are measured again
    /// after the others, and their subject is [`DIRECT`].
    pub baseline: Option<String>,
    /// Processes to watch during every case.
    pub watch: Vec<Watched>,
    /// The cases; never empty.
    pub cases: Vec<PlannedCase>,
    /// Name and text of the file it was read from.
    pub source: Option<(String, String)>,
}

/// A case of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCase {
    /// What is measured: `direct`, `tollhouse`, `nginx`, ….
    pub subject: String,
    /// How.
    pub case: Case,
    /// Processes to watch during this case, beside those of the plan.
    pub watch: Vec<Watched>,
}

impl Plan {
    /// A plan of one case.
    pub fn from_case(mut case: Case) -> Self {
        if case.name.is_empty() {
            case.name = case.without_secrets().target;
        }
        let name = case.name.clone();
        let cases = vec![PlannedCase { subject: String::new(), case, watch: Vec::new() }];
        Self { name, repeat: 1, cases, ..Self::default() }
    }

    /// Reads a plan file. Files that it names are looked for beside it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
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

    /// Leaves out every case that has not this text in its name or subject.
    ///
    /// # Errors
    /// When none is left.
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

    /// The cases, one a line, with how long each takes.
    pub fn listed(&self) -> String {
        let mut rows = Vec::new();
        let mut whole = Duration::ZERO;
        let mut has_counts = false;
        for planned in &self.cases {
            let load = &planned.case.load;
            let length = match (load.duration, load.requests) {
                (None, Some(requests)) => {
                    // How long a number of requests takes is what is to be measured.
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

    /// Reads the text of a plan.
    ///
    /// # Errors
    /// What is wrong with it, with line, column and key.
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

/// The processes, each as text (`target=port:9080`) or as a map with `role` and `what`.
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

/// The trees of one entry of `cases`, defaults and matrix applied.
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
    // Messages may be written as YAML; they travel as JSON text, in which templates are filled in.
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

/// Relative paths of a case are meant from the folder of its plan.
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
