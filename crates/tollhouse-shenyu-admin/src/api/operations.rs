//! Calls about the admin itself: live instances, recorded changes, and features of ShenYu that are
//! not supported.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::page::{PageRequest, Shape};
use crate::records;

/// First path segments of unsupported features, each with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("registry", "other registries are not followed; services register themselves"),
    ("scale", "nothing is scaled from here"),
    ("alert", "alerts are made of the metrics"),
    ("apidoc", "documents are those of `/api`"),
    ("tag-relation", "tags are members of what they are given to"),
    ("field", "fields of documents are in their text"),
    ("detail", "details of documents are in their text"),
    ("mock", "what was tried is not kept"),
    ("swagger", "services register their documents"),
    ("sandbox", "requests are sent to the gateway itself"),
];

/// Answers the calls about the admin itself. Returns `None` for every other path.
pub(super) fn answer(admin: &ShenyuAdmin, segments: &[&str], call: &Call) -> Option<Outcome> {
    Some(match (&call.method, segments) {
        (&Method::GET, ["instance"]) | (&Method::POST, ["instance", "list", "search"]) => {
            let condition = call.body.get("condition").and_then(Value::as_object);
            let argument = |name: &str| {
                let narrowed = condition.and_then(|it| crate::row::filled(it, name));
                narrowed.or_else(|| call.argument(name))
            };
            paged(call, segments, admin.instances.list(&argument, clock::now_ms()))
        }
        (&Method::GET, ["instance", "analysis", namespace]) => {
            success("query success", admin.instances.analysis(namespace, clock::now_ms()))
        }
        (_, ["instance", ..]) => Err(no_such_path()),
        (&Method::GET, ["operation-record", "log", "list"]) => {
            success("query success", records::recent(&admin.book.read()))
        }
        (&Method::POST, ["operation-record", "log", "list", "search"]) => {
            let keyword = call.body.get("condition").and_then(Value::as_object);
            let keyword = keyword.and_then(|it| crate::row::filled(it, "keyword"));
            let rows = records::search(&admin.book.read(), &keyword.unwrap_or_default());
            paged(call, segments, rows)
        }
        (&Method::GET, ["selector", _, "ai-proxy-apikey", ..]) => paged(call, segments, Vec::new()),
        (_, ["selector", _, "ai-proxy-apikey", ..]) => {
            Err(Refusal::error("keys of AI services are not handed on here"))
        }
        (_, [first, rest @ ..]) => {
            let (_, reason) = ELSEWHERE.iter().find(|(path, _)| path == first)?;
            match (&call.method, rest) {
                // Lists are answered empty, so that the console's pages still open.
                (&Method::GET, []) | (&Method::POST, ["list", "search", ..]) => {
                    paged(call, segments, Vec::new())
                }
                _ => Err(Refusal::error(format!("`/{first}` is not served here: {reason}"))),
            }
        }
        _ => return None,
    })
}

fn paged(call: &Call, segments: &[&str], rows: Vec<Value>) -> Outcome {
    let number = |names: [&str; 2]| names.iter().find_map(|name| call.argument(name)?.parse().ok());
    let page = PageRequest::new(number(["currentPage", "pageNum"]), number(["pageSize", "size"]));
    let shape = if segments.ends_with(&["search"]) { Shape::Search } else { Shape::Pager };
    success("query success", page.shaped(shape, rows, |row| json!(row)))
}
