//! Splitting of YAML documents into items.

use serde_json::Value;
use tollhouse_model::{Problem, Problems};

use super::collect::{Collector, Key, path_of};
use super::key::Head;
use super::{Document, Kind, shenyu};
use crate::substitute::{self, Environment};

/// Last line of a complete document.
const END: &str = "#END";

pub(super) fn parse(text: &str, environment: Environment<'_>) -> Result<Document, Problem> {
    if text.trim_end().lines().next_back().map(str::trim_end) != Some(END) {
        let problem = Problem::error("document", "incomplete: its last line is not #END");
        return Err(problem.with_hint("write #END as the last line, after everything else"));
    }
    let mut collector = Collector::default();
    match crate::yaml::parse(text)? {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                match collector.key(&name) {
                    Key::Items(kind) => collect(&mut collector, kind, value, environment),
                    Key::Shenyu => shenyu::collect(&mut collector, value, Some(environment)),
                    Key::Ignored => {}
                }
            }
        }
        other => {
            let reason = "wrong type: expected object";
            let problem = Problem::error("document", reason).with_value(&other);
            return Err(problem.with_hint("begin with a kind of objects, such as \"routes:\""));
        }
    }
    Ok(collector.finish())
}

fn collect(collector: &mut Collector, kind: Kind, value: Value, environment: Environment<'_>) {
    let items = match value {
        Value::Null => return,
        // Some emitters write an empty list as an empty map.
        Value::Object(fields) if fields.is_empty() => return,
        Value::Array(items) => items,
        _ => return collector.no_list(kind),
    };
    for (index, mut item) in items.into_iter().enumerate() {
        let mut problems = Problems::new();
        substitute::substitute(&mut item, &path_of(kind, index), environment, &mut problems);
        let complete = problems.is_empty();
        collector.problems(problems);
        if !item.is_object() {
            collector.no_object(kind, index);
            continue;
        }
        fill_plugins(&mut item);
        let head = Head::from_item(&item);
        if complete {
            collector.item(kind, index, &head, &item.to_string());
        } else {
            collector.withhold(kind, index, &head, &item.to_string());
        }
    }
}

/// Replaces plugins without a configuration (`key-auth:` and nothing after it) by those with an
/// empty one, as APISIX reads them.
fn fill_plugins(item: &mut Value) {
    let plugins = item.get_mut("plugins").and_then(Value::as_object_mut);
    for conf in plugins.into_iter().flat_map(|plugins| plugins.values_mut()) {
        if conf.is_null() {
            *conf = Value::Object(serde_json::Map::new());
        }
    }
}
