//! `tollhouse routes`: lists the routes of a running gateway, searched as in the web console.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::console_client::ConsoleClient;
use super::gateway::Gateway;
use super::registry::table::{Align, Table};
use super::stdout;

/// Number of rows per request: the maximum that the gateway allows.
const PAGE_ROWS: usize = 500;

/// Arguments of `routes`.
#[derive(Debug, Args)]
pub struct RoutesArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Only routes whose id, name, host, path or labels contain this text, ignoring case.
    #[arg(value_name = "TEXT", default_value = "")]
    search: String,
    /// Maximum number of listed routes.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Print the rows as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Prints the table of routes.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &RoutesArguments) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    let mut rows: Vec<Value> = Vec::new();
    let mut total = 0;
    for page in 1.. {
        let wanted = [
            ("q", arguments.search.as_str()),
            ("page", &page.to_string()),
            ("page_size", &PAGE_ROWS.to_string()),
        ];
        let mut answer = client.get("objects/routes", &wanted)?;
        total = answer["total"].as_u64().unwrap_or(0);
        let Some(Value::Array(found)) = answer.get_mut("rows").map(Value::take) else { break };
        // A short page is the last one; after a full page one more request is needed.
        let is_last = found.len() < PAGE_ROWS;
        rows.extend(found);
        if is_last || rows.len() >= arguments.limit {
            break;
        }
    }
    rows.truncate(arguments.limit);
    let text = if arguments.json {
        format!("{}\n", Value::Array(rows))
    } else {
        describe(&rows, total, &arguments.search)
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(rows: &[Value], total: u64, search: &str) -> String {
    if rows.is_empty() {
        return match search {
            "" => "no routes\n".to_owned(),
            _ => format!("no route has {search:?} in its id, name, hosts, paths or labels\n"),
        };
    }
    let columns = ["ID", "NAME", "METHODS", "HOST", "PATH", "PLUGINS", "LEADS TO", "STATE"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
    for row in rows {
        table.push([
            texts(&row["id"]),
            texts(&row["name"]),
            texts(&row["methods"]),
            either(row, "host", "hosts"),
            either(row, "uri", "uris"),
            texts(&row["plugins"]),
            leads_to(row),
            if row["status"] == 0 { "off" } else { "on" }.to_owned(),
        ]);
    }
    let mut text = table.render();
    if let Some(more @ 1..) = total.checked_sub(rows.len() as u64) {
        text.push_str(&format!("… and {more} more; say a text, or a greater --limit\n"));
    }
    text
}

fn either(row: &Value, one: &str, many: &str) -> String {
    let value = if row[one].is_null() { &row[many] } else { &row[one] };
    texts(value)
}

/// Formats a text or number as it is, a list with commas, and null as an empty text.
fn texts(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn leads_to(row: &Value) -> String {
    let named = ["upstream_id", "service_id", "service_name"];
    if let Some(name) = named.into_iter().find(|name| !row[*name].is_null()) {
        let noun = name.strip_suffix("_id").unwrap_or("registered");
        return format!("{noun} {}", texts(&row[name]));
    }
    match row["nodes"].as_u64() {
        Some(count) => counted(count, "node"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn routes_are_rows_and_the_rest_is_counted() {
        let rows = [
            json!({"id": "1", "uri": "/a", "methods": ["GET", "PUT"], "nodes": 2}),
            json!({"id": "2", "name": "b", "uris": ["/b", "/c"], "hosts": ["h"], "status": 0,
                   "plugins": ["cors"], "upstream_id": 7}),
        ];
        let expected = "\
ID  NAME  METHODS  HOST  PATH   PLUGINS  LEADS TO    STATE
1   -     GET,PUT  -     /a     -        2 nodes     on
2   b     -        h     /b,/c  cors     upstream 7  off
… and 3 more; say a text, or a greater --limit
";
        assert_eq!(describe(&rows, 5, ""), expected);
        assert_eq!(describe(&[], 0, ""), "no routes\n");
        assert!(describe(&[], 0, "x").starts_with("no route has \"x\""));
    }
}
