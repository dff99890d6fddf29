//! Who changed what lately, as ShenYu's home page shows it. It is kept in memory and counts from the start of
//! this process.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::Method;
use serde_json::{Value, json};

use crate::clock;

/// Records that are kept, the newest ones.
const RECORDS_MAX: usize = 500;

/// Characters of a path that are kept.
const PATH_CHARACTERS_MAX: usize = 200;

/// Records of the home page.
const RECENT: usize = 12;

/// The changes that were made.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<VecDeque<Value>>);

impl Records {
    /// Notes a change that was made.
    pub(crate) fn note(&self, user: &str, method: &Method, segments: &[&str]) {
        let (first, rest) = segments.split_first().unwrap_or((&"", &[]));
        let verb = match (method, rest) {
            (&Method::DELETE, _) | (_, ["batchDelete" | "batchDeleted"]) => "DELETE",
            (&Method::POST, [] | ["apply" | "addProxySelector"]) => "CREATE",
            _ => "UPDATE",
        };
        let path: String = segments.join("/").chars().take(PATH_CHARACTERS_MAX).collect();
        let noun = first.replace('-', "_").to_uppercase();
        let record = json!({"id": clock::new_id(), "color": "#409EFF", "operator": user,
            "operationType": format!("{noun}_{verb}"), "context": format!("{method} /{path}"),
            "before": null, "after": null, "operationTime": clock::now_text()});
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(RECORDS_MAX - 1);
        kept.push_front(record);
    }

    /// The newest records, the newest first.
    pub(crate) fn recent(&self) -> Vec<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().take(RECENT).cloned().collect()
    }

    /// All records that mention a text, the newest first.
    pub(crate) fn search(&self, text: &str) -> Vec<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mentions = |record: &&Value| {
            let members = ["context", "operator", "operationType"];
            members
                .iter()
                .any(|member| record[*member].as_str().is_some_and(|it| it.contains(text)))
        };
        kept.iter().filter(mentions).cloned().collect()
    }

    /// Drops those before a time, `yyyy-MM-dd HH:mm:ss`.
    pub(crate) fn drop_before(&self, time: &str) -> usize {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = kept.len();
        kept.retain(|record| record["operationTime"].as_str().is_none_or(|at| at >= time));
        count - kept.len()
    }
}
