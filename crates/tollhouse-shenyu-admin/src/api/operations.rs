//! Calls about the admin itself: instances that live, changes that were made, and what has no counterpart
//! here.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::page::{PageRequest, Shape};
use crate::records;

/// First segments of what this admin does not do: why not.
const ELSEWHERE: &[(&str, &str)] = &[
    ("registry", "other registries are not followed; services register themselves"),
    ("scale", "nothing is scaled from here"),
    ("alert", "alerts are made of the metrics"),
    ("apidoc", "documents are those of `/api`"),
    ("tag-relation", "tags are members of what they are given to"),
    ("field", "fields of documents are in their text"),
    ("detail", "details of documents are in their text"),
    ("mock", "what was tried is not kept"),
    ("swagger", "documents come of services that register"),
    ("sandbox", "requests are sent to the gateway itself"),
];

/// Answers what is about the admin itself; `None` for everything else.
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
            let found = records::search(&admin.book.read(), &keyword.unwrap_or_default());
            paged(call, segments, found)
        }
        (&Method::GET, ["selector", _, "ai-proxy-apikey", ..]) => paged(call, segments, Vec::new()),
        (_, ["selector", _, "ai-proxy-apikey", ..]) => {
            Err(Refusal::error("keys of AI services are not handed on here"))
        }
        (_, [first, rest @ ..]) => {
            let (_, reason) = ELSEWHERE.iter().find(|(path, _)| path == first)?;
            match (&call.method, rest) {
                // Pages of consoles open, and are empty.
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
