//! Adds the problems that the data plane has with a written object to the answer to the write.
//! Without them, a write that is accepted but has no effect would show only in the log.

use std::borrow::Cow;

use serde_json::Value;
use tollhouse_web::{WARNING, WARNINGS_MAX, warning_line, warning_value};

use crate::context::Admin;
use crate::index::Contents;
use crate::reply::Reply;

/// Field of the answer with the problems, beside `value`.
const WARNINGS: &str = "warnings";

/// Adds the data plane's problems with the object in `reply`. Call it once the object is in
/// service.
pub(crate) fn with_warnings(admin: &Admin, reply: Reply) -> Reply {
    let Some(source) = &admin.parts.console else { return reply };
    let answer = reply.value().unwrap_or_default();
    let key = answer.get("node").unwrap_or(&answer).get("key").and_then(Value::as_str);
    let Some(path) = key.and_then(|key| key.strip_prefix(&admin.key_of(""))) else { return reply };
    let mut problems = source.problems_at(&in_configuration(path));
    let contents = admin.index.contents();
    problems.retain(|problem| is_about(&contents, &place_in_store(problem), path));
    with_problems(reply, problems)
}

/// Adds the data plane's problems with the whole document.
pub(crate) fn with_all_warnings(admin: &Admin, reply: Reply) -> Reply {
    match &admin.parts.console {
        Some(source) => with_problems(reply, source.problems_at("")),
        None => reply,
    }
}

/// Returns the path of the object that contains a place such as `routes/1.uri`: the longest prefix
/// that is the path of an existing object, because ids may contain dots.
pub(crate) fn object_at<'p>(contents: &Contents, place: &'p str) -> Option<&'p str> {
    ends(place).rev().map(|end| &place[..end]).find(|path| contents.exists(path))
}

/// Returns the place of a problem in the form that begins with the object's path in the store.
pub(crate) fn place_in_store(problem: &Value) -> Cow<'_, str> {
    let path = problem["path"].as_str().unwrap_or_default();
    match path.strip_prefix("credentials/") {
        Some(rest) => Cow::Owned(format!("consumers/{rest}")),
        None => Cow::Borrowed(path),
    }
}

/// Converts the store path of an object to the path that configuration problems use: credentials
/// are under `credentials/`, not under their consumer.
fn in_configuration(path: &str) -> Cow<'_, str> {
    match path.strip_prefix("consumers/") {
        Some(rest) if rest.contains('/') => Cow::Owned(format!("credentials/{rest}")),
        _ => Cow::Borrowed(path),
    }
}

/// Whether a place is inside the object at `path`, and not inside another object whose path is
/// longer. The object at `path` may be missing in the index.
fn is_about(contents: &Contents, place: &str, path: &str) -> bool {
    let is_below = place
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let is_longer = |end: &usize| *end > path.len() && contents.exists(&place[..*end]);
    is_below && !ends(place).any(|end| is_longer(&end))
}

/// Iterates over the positions in a place at which an object path may end.
fn ends(place: &str) -> impl DoubleEndedIterator<Item = usize> + '_ {
    let inner = place.char_indices().filter(|(_, letter)| ".[".contains(*letter));
    inner.map(|(at, _)| at).chain([place.len()])
}

/// Adds problems to a reply; the first becomes its header.
pub(crate) fn with_problems(reply: Reply, mut problems: Vec<Value>) -> Reply {
    let Some(first) = problems.first() else { return reply };
    let text = |name: &str| first[name].as_str().unwrap_or_default();
    let line = warning_line(text("reason"), text("hint"), problems.len());
    problems.truncate(WARNINGS_MAX);
    let reply = reply.with_field(WARNINGS, Value::Array(problems));
    match warning_value(&line) {
        Some(value) => reply.with(WARNING, value),
        None => reply,
    }
}
