//! `/console/v1/objects/{kind}`: a search over all objects of a kind, by what people remember of them. Only the rows
//! of a page are read from the store.

use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::context::Admin;
use crate::index::facts::Facts;
use crate::limits::OBJECTS_PER_TURN;
use crate::reply::Reply;
use crate::resource::{self, Layout};

/// Rows of a page where nobody says.
const ROWS: usize = 50;

/// Most rows of a page.
const ROWS_MAX: usize = 500;

/// Longest text that is searched for, in bytes.
const SEARCH_BYTES_MAX: usize = 256;

/// Fields that rows have, beside ids and names of plugins. None of them is secret.
const FIELDS: [&str; 22] = [
    "name",
    "desc",
    "uri",
    "uris",
    "host",
    "hosts",
    "methods",
    "priority",
    "status",
    "labels",
    "service_id",
    "upstream_id",
    "plugin_config_id",
    "group_id",
    "username",
    "type",
    "scheme",
    "sni",
    "snis",
    "server_port",
    "service_name",
    "update_time",
];

/// Answers a search: `q` is found in id, name, hosts, paths and labels, whatever its case.
pub(super) async fn list(admin: &Admin, call: &Call, kind: &str) -> Result<Value, Reply> {
    let resource = resource::find(kind).filter(|it| !matches!(it.layout, Layout::Child(_)));
    let resource =
        resource.ok_or_else(|| Reply::bad(format!("there are no objects of kind {kind}")))?;
    let number = |name: &str| call.arguments.get(name).and_then(|text| text.parse().ok());
    let page: usize = number("page").unwrap_or(1).max(1);
    let rows: usize = number("page_size").unwrap_or(ROWS).clamp(1, ROWS_MAX);
    let search = call.arguments.get("q").unwrap_or_default().trim().to_lowercase();
    if search.len() > SEARCH_BYTES_MAX {
        return Err(Reply::bad(format!("q is longer than {SEARCH_BYTES_MAX} bytes")));
    }
    admin.index.catch_up().await?;
    let paths = matching(admin, resource.name, &search).await;
    let skip = (page - 1).saturating_mul(rows);
    let mut found = Vec::new();
    for path in paths.iter().skip(skip).take(rows) {
        let key = admin.key_of(path);
        if let Some(entry) = admin.parts.store.get(&key).await? {
            found.push(row(path, &entry.value, entry.mod_revision.0));
        }
    }
    Ok(json!({ "total": paths.len(), "page": page, "page_size": rows, "rows": found }))
}

/// Paths of all objects that match, by creation.
async fn matching(admin: &Admin, collection: &str, search: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut last = None;
    loop {
        let mut seen = 0;
        let after = last.take();
        {
            let known = admin.index.known();
            for creation in known.created_after(collection, after.as_ref()).take(OBJECTS_PER_TURN) {
                seen += 1;
                let path = &*creation.1;
                if search.is_empty() || known.facts(path).is_some_and(|it| has(path, it, search)) {
                    found.push(path.to_owned());
                }
                if seen == OBJECTS_PER_TURN {
                    last = Some(creation.clone());
                    break;
                }
            }
        }
        if seen < OBJECTS_PER_TURN {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

fn has(path: &str, facts: &Facts, search: &str) -> bool {
    let id = path.split_once('/').map_or(path, |(_, id)| id);
    let listed = &facts.listed;
    let texts = listed.name.iter().chain(&listed.uris).chain(&listed.hosts).chain(&listed.labels);
    contains(id, search) || texts.into_iter().any(|text| contains(text, search))
}

/// Whether lower-case `search` is found, whatever the case of ASCII letters. Allocates nothing: it looks at
/// hundreds of thousands of texts.
fn contains(text: &str, search: &str) -> bool {
    let (text, search) = (text.as_bytes(), search.as_bytes());
    text.windows(search.len()).any(|part| part.eq_ignore_ascii_case(search))
}

fn row(path: &str, value: &[u8], revision: u64) -> Value {
    let mut row = Map::new();
    row.insert("id".into(), path.split_once('/').map_or(path, |(_, id)| id).into());
    row.insert("revision".into(), revision.into());
    let Ok(Value::Object(mut fields)) = serde_json::from_slice::<Value>(value) else {
        return row.into();
    };
    for name in FIELDS {
        if let Some(field) = fields.remove(name) {
            row.insert(name.into(), field);
        }
    }
    if let Some(Value::Object(plugins)) = fields.get("plugins") {
        row.insert("plugins".into(), plugins.keys().map(String::as_str).collect());
    }
    let upstream = fields.get("upstream").unwrap_or(&Value::Null);
    let nodes = fields.get("nodes").or_else(|| upstream.get("nodes"));
    let count = match nodes {
        Some(Value::Array(nodes)) => Some(nodes.len()),
        Some(Value::Object(nodes)) => Some(nodes.len()),
        _ => None,
    };
    if let Some(count) = count {
        row.insert("nodes".into(), count.into());
    }
    if let Some(service) = upstream.get("service_name") {
        row.insert("service_name".into(), service.clone());
    }
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_plugins_and_none_of_their_secrets() {
        let value = json!({
            "uri": "/a", "plugins": {"key-auth": {"key": "hidden"}}, "secret": "hidden",
            "upstream": {"nodes": {"a:1": 1, "b:2": 1}},
        });
        let row = row("routes/1", value.to_string().as_bytes(), 7);
        let expected = json!({
            "id": "1", "revision": 7, "uri": "/a", "plugins": ["key-auth"], "nodes": 2,
        });
        assert_eq!(row, expected);
    }

    #[test]
    fn text_is_found_in_any_case() {
        assert!(contains("Orders-API", "ders-a"));
        assert!(!contains("or", "orders"));
    }
}
