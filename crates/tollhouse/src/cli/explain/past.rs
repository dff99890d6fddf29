//! A past request, by the id that `tollhouse requests` prints: what happened to it, and which route
//! the running gateway would give it now.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use tollhouse_control::terminal::printable_lines;
use tollhouse_stdx::plural::counted;

use super::ExplainArguments;
use crate::cli::console_client::ConsoleClient;
use crate::cli::{requests, stdout};

/// Prints the explanation; the exit code is that of a request that was served or failed.
///
/// # Errors
/// If the gateway cannot be reached, refuses, or has no request of this id.
pub(super) fn run(arguments: &ExplainArguments, id: &str) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    let mut answer = client.get("requests", &[("id", id)])?;
    let row = answer["rows"].get_mut(0).map(Value::take);
    let Some(row) = row else {
        bail!("no request {id} is kept; `tollhouse requests` prints the ids of those that are");
    };
    let decision = client.ask("explain", &question(&row))?;
    stdout::print(&describe(&row, &decision))?;
    let has_failed = row["error"].is_object() || row["status"].as_u64() >= Some(500);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Converts a recorded request to a question; its query, its headers and its body are not recorded.
fn question(row: &Value) -> Value {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let host = if text("host").is_empty() { "localhost" } else { text("host") };
    json!({
        "url": format!("http://{host}{}", text("path")),
        "method": text("method"),
        "remote_addr": text("client"),
    })
}

fn describe(row: &Value, decision: &Value) -> String {
    let mut lines = requests::describe(row);
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            lines.push_str(&format!("{label:<10}  {text}\n"));
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    add("meaning", text(&row["error"]["meaning"]));
    add("remedy", text(&row["error"]["remedy"]));
    if row["is_cut"] == true {
        add(
            "note",
            "host or path are longer than recorded; what follows is about their beginning"
                .to_owned(),
        );
    }
    let route = &decision["route"];
    match route["id"].as_str() {
        Some(id) => add("now", format!("route {id}, {}", text(&route["uri"]))),
        None => add("now", "no route".to_owned()),
    }
    let plugins = decision["plugins"].as_array().map_or(&[][..], Vec::as_slice);
    add("plugins", plugins.iter().map(|it| text(&it["name"])).collect::<Vec<_>>().join(", "));
    let nodes = decision["upstream"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let state = |it: &Value| match it["failures"].as_u64() {
        Some(failures) => format!("fails: {} in a row", counted(failures, "attempt")),
        None => text(&it["status"]),
    };
    let node = |it: &Value| format!("{}:{} ({})", text(&it["host"]), it["port"], state(it));
    add("nodes", nodes.iter().map(node).collect::<Vec<_>>().join(", "));
    let refused = &decision["refused"];
    if refused.is_object() {
        add(
            "refused",
            format!(
                "{} {}: {}",
                refused["status"],
                text(&refused["code"]),
                text(&refused["reason"])
            ),
        );
    }
    printable_lines(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_request_is_told_with_its_meaning_and_what_would_happen_now() {
        let row = json!({
            "id": "1f", "at_ms": 784_111_777_042_u64, "status": 502, "method": "GET", "host": "a", "path": "/x",
            "duration_ms": 3, "route": "r", "client": "10.0.0.1", "cause": "refused", "attempts": [],
            "error": {"code": "upstream_connect_failed", "meaning": "It was refused.", "remedy": "Start it."},
        });
        let decision = json!({
            "route": {"id": "r", "uri": "/*"}, "plugins": [{"name": "cors"}],
            "upstream": {"nodes": [
                {"host": "b", "port": 1, "status": "healthy", "failures": null},
                {"host": "c", "port": 2, "status": "healthy", "failures": 4},
            ]},
        });
        let expected = "\
1994-11-06 08:49:37.042Z 502 GET a/x 3 ms id=1f route=r client=10.0.0.1 cause=\"refused\" code=upstream_connect_failed
meaning     It was refused.
remedy      Start it.
now         route r, /*
plugins     cors
nodes       b:1 (healthy), c:2 (fails: 4 attempts in a row)
";
        assert_eq!(describe(&row, &decision), expected);
        assert_eq!(question(&row)["url"], "http://a/x");
    }
}
