//! Warnings: problems of the data plane with what a call has written. The call is valid and counts as
//! a success, but the answer names the objects that do not serve.

use std::collections::BTreeSet;

use axum::response::AppendHeaders;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use tollhouse_web::{WARNING, WARNINGS_MAX, warning_line, warning_value};

use crate::row;
use crate::table::Table;
use crate::tables::{Name, Tables, namespace};

/// Member of an answer with the problems.
pub(crate) const WARNINGS: &str = "warnings";

/// Folder of ShenYu's objects in the paths of problems.
const FOLDER: &str = "shenyu/";

/// Problems of the data plane with its configuration.
pub trait ProblemSource: Send + Sync {
    /// Returns the problems whose path is accepted by `is_meant`, such as `shenyu/rule/7`. Each has
    /// `path`, `reason` and `hint`.
    fn problems_with(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Value>;
}

/// Objects that a call has written, by table and id.
pub(crate) type Written = BTreeSet<(Table, String)>;

/// Problems with the objects of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Warnings(Vec<Value>);

impl Warnings {
    /// Finds the problems with written objects, and with those that depend on them: rules and
    /// selectors of a plugin, rules of a selector.
    pub(crate) fn find(source: &dyn ProblemSource, tables: &Tables, written: &Written) -> Self {
        Self(source.problems_with(&|path| is_concerned(tables, written, path)))
    }

    /// Keeps the warnings about objects that `is_visible` accepts.
    pub(crate) fn retain(&mut self, is_visible: impl Fn(Table, &str) -> bool) {
        self.0.retain(|problem| {
            let object = problem["path"].as_str().and_then(object_at);
            object.is_some_and(|(table, id)| is_visible(table, &id))
        });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Describes the first problem and names its object; `None` without problems.
    pub(crate) fn line(&self) -> Option<String> {
        let first = self.0.first()?;
        let text = |member: &str| first[member].as_str().unwrap_or_default();
        let object = text("path").strip_prefix(FOLDER).unwrap_or_default();
        let reason = format!("{object}: {}", text("reason"));
        Some(warning_line(&reason, text("hint"), self.0.len()))
    }

    /// Returns the header of the answer; empty without problems.
    pub(crate) fn header(&self) -> AppendHeaders<Option<(HeaderName, HeaderValue)>> {
        let value = self.line().and_then(|line| warning_value(&line));
        AppendHeaders(value.map(|value| (WARNING, value)))
    }

    /// Returns the first problems.
    pub(crate) fn into_json(mut self) -> Value {
        self.0.truncate(WARNINGS_MAX);
        Value::Array(self.0)
    }
}

/// Parses the path of a problem into table and id.
fn object_at(path: &str) -> Option<(Table, String)> {
    let (table, id) = path.strip_prefix(FOLDER)?.split_once('/')?;
    let table = Table::ALL.into_iter().find(|it| it.segment() == table)?;
    Some((table, id.to_owned()))
}

/// Whether a problem is about a written object, or about one that depends on it.
fn is_concerned(tables: &Tables, written: &Written, path: &str) -> bool {
    let Some(object) = object_at(path) else { return false };
    if written.contains(&object) {
        return true;
    }
    let (table, id) = object;
    let selector = match table {
        Table::Rule => {
            let rule = tables.get(table, &id);
            rule.and_then(|rule| row::text(&rule.row, "selectorId"))
        }
        Table::Selector | Table::ProxySelector => Some(id),
        _ => None,
    };
    selector.is_some_and(|selector| is_selector_written(tables, written, selector))
}

/// Whether a selector, its nodes or its plugin were written.
fn is_selector_written(tables: &Tables, written: &Written, id: String) -> bool {
    let plugin = tables.get(Table::Selector, &id).and_then(|selector| {
        let name = Name {
            table: Table::Plugin,
            namespace: namespace(&selector.row),
            parent: String::new(),
            name: row::text(&selector.row, "pluginName")?,
        };
        tables.ids(&name).next().map(str::to_owned)
    });
    plugin.is_some_and(|plugin| written.contains(&(Table::Plugin, plugin)))
        || written.contains(&(Table::DiscoveryUpstream, id.clone()))
        || written.contains(&(Table::Selector, id))
}
