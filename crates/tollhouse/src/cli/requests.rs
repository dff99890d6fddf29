//! `tollhouse requests`: prints recent requests of a running gateway, and with `--follow` new ones.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Duration;
use tollhouse_control::terminal::printable;

use clap::Args;
use serde_json::Value;

use super::console_client::ConsoleClient;
use super::gateway::Gateway;
use super::{findings, stdout};

/// Interval between polls of `--follow`. Each core keeps hundreds of requests, and at most ten
/// successful ones a second, so that few are missed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Default of `--lines`: number of earlier requests to print.
const LINES_DEFAULT: usize = 50;

/// Arguments of `requests`.
#[derive(Debug, Args)]
pub struct RequestsArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Only requests whose method, host, path, client or nodes contain this text.
    #[arg(value_name = "TEXT", default_value = "")]
    search: String,
    /// Only failures of this code, such as `upstream_connect_failed`.
    #[arg(long, value_name = "CODE", default_value = "")]
    code: String,
    /// Only this status, such as `502`, or class, such as `5xx`.
    #[arg(long, value_name = "STATUS", default_value = "", value_parser = parse_status)]
    status: String,
    /// Only requests of the route with this id.
    #[arg(long, value_name = "ID", default_value = "")]
    route: String,
    /// Only requests that took this many milliseconds or longer.
    #[arg(long, value_name = "MILLISECONDS")]
    slower: Option<u64>,
    /// Continue with new requests until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Maximum number of earlier requests to print.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = LINES_DEFAULT)]
    lines: usize,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Prints the requests, the newest last.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &RequestsArguments) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    let RequestsArguments { search, code, status, route, slower, .. } = arguments;
    let slower = slower.map(|ms| ms.to_string()).unwrap_or_default();
    let wanted = [
        ("q", &**search),
        ("code", code),
        ("status", status),
        ("route", route),
        ("slower_ms", &slower),
    ];
    let mut before = HashMap::new();
    let mut is_first = true;
    loop {
        let mut answer = client.get("requests", &wanted)?;
        let rows = match answer.get_mut("rows").map(Value::take) {
            Some(Value::Array(rows)) => rows,
            _ => Vec::new(),
        };
        // Each response contains all requests that the gateway keeps, including those printed
        // already.
        let (mut new, seen) = unseen(rows, &before);
        before = seen;
        if is_first {
            new.drain(..new.len().saturating_sub(arguments.lines));
        }
        if is_first && new.is_empty() && !arguments.json {
            eprintln!("{}", nothing_recorded(&wanted));
        }
        let line = |row: &Value| if arguments.json { format!("{row}\n") } else { describe(row) };
        stdout::print(&new.iter().map(line).collect::<String>())?;
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        is_first = false;
        client.wait(FOLLOW_INTERVAL);
    }
}

/// Parses a status such as `502`, a class such as `5xx`, or the empty default, which matches every
/// status.
fn parse_status(text: &str) -> Result<String, String> {
    let is_status = |text: &str| text.parse().is_ok_and(|status: u16| (100..600).contains(&status));
    let class = text.strip_suffix("xx").map(|digit| format!("{digit}00"));
    match text.is_empty() || is_status(class.as_deref().unwrap_or(text)) {
        true => Ok(text.to_owned()),
        false => Err("expected a status such as 502, or a class such as 5xx".to_owned()),
    }
}

/// Returns the message for an empty list, with the active filters.
fn nothing_recorded(wanted: &[(&str, &str)]) -> String {
    let conditions: Vec<String> = wanted
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{} {value}", if *name == "q" { "text" } else { name }))
        .collect();
    if conditions.is_empty() {
        return "nothing recorded: no request since the start".to_owned();
    }
    let all = printable(&conditions.join(", "));
    format!(
        "nothing recorded with {all}; each core keeps 256 failures, some of each kind, and samples of the rest"
    )
}

/// Number of occurrences of each row in a response, because the rows of two requests in the same
/// millisecond may be equal.
type RowCounts = HashMap<String, usize>;

/// Returns the rows that were not in the previous response, oldest first, and the row counts of
/// this response. `rows` is newest first; `before` has the counts of the previous response.
fn unseen(rows: Vec<Value>, before: &RowCounts) -> (Vec<Value>, RowCounts) {
    let mut seen = RowCounts::new();
    let mut new = Vec::new();
    for row in rows {
        let text = row.to_string();
        let count = seen.entry(text.clone()).or_default();
        *count += 1;
        if *count > before.get(&text).copied().unwrap_or(0) {
            new.push(row);
        }
    }
    new.reverse();
    (new, seen)
}

/// Formats a request as a line: time, outcome, attempts with the time each took, cause and code.
pub(super) fn describe(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let at_ms = row["at_ms"].as_u64().unwrap_or(0);
    let date = findings::date(at_ms);
    let mut line = format!(
        "{}.{:03}Z {} {} {}{} {} ms",
        date.trim_end_matches('Z'),
        at_ms % 1000,
        row["status"],
        text("method"),
        text("host"),
        text("path"),
        row["duration_ms"],
    );
    for label in ["id", "trace_id", "unrecorded_trace_id", "route", "consumer", "client"] {
        if !text(label).is_empty() {
            line.push_str(&format!(" {label}={}", text(label)));
        }
    }
    let attempts = row["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    if !attempts.is_empty() {
        let attempts: Vec<String> = attempts.iter().map(attempt).collect();
        line.push_str(&format!(" attempts={}", attempts.join(",")));
    }
    if !text("plugin").is_empty() {
        line.push_str(&format!(" plugin={}", text("plugin")));
    }
    if !text("cause").is_empty() {
        line.push_str(&format!(" cause={:?}", text("cause")));
    }
    if let Some(code) = row["error"]["code"].as_str() {
        line.push_str(&format!(" code={code}"));
    }
    // Paths come from clients, and control characters must not reach a terminal.
    let mut line = printable(&line);
    line.push('\n');
    line
}

/// Formats an attempt, such as `10.0.0.7:80(502 in 3ms)`; an attempt without an answer shows its
/// error code.
fn attempt(attempt: &Value) -> String {
    let node = attempt["node"].as_str().unwrap_or_default();
    let outcome = match attempt["code"].as_str() {
        Some(code) => code.to_owned(),
        None => attempt["status"].to_string(),
    };
    format!("{node}({outcome} in {}ms)", attempt["took_ms"].as_u64().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_a_line_without_what_a_terminal_would_obey() {
        let row = json!({
            "at_ms": 784_111_777_042_u64, "status": 502, "method": "GET", "host": "a", "path": "/x\u{1b}[2J\u{202e}",
            "duration_ms": 3, "route": "r", "consumer": "", "client": "10.0.0.1",
            "id": "1f", "trace_id": "ab", "cause": "Connection refused", "plugin": "",
            "attempts": [
                {"node": "b:1", "status": 502, "code": "upstream_connect_failed", "took_ms": 1},
                {"node": "c:1", "status": 503, "code": null, "took_ms": 2},
            ],
            "error": {"code": "upstream_connect_failed"},
        });
        let expected = "1994-11-06 08:49:37.042Z 502 GET a/x?[2J? 3 ms id=1f trace_id=ab route=r client=10.0.0.1 \
                        attempts=b:1(upstream_connect_failed in 1ms),c:1(503 in 2ms) \
                        cause=\"Connection refused\" code=upstream_connect_failed\n";
        assert_eq!(describe(&row), expected);
    }

    #[test]
    fn a_status_that_does_not_exist_is_refused() {
        for good in ["502", "5xx", "100", ""] {
            assert_eq!(parse_status(good).as_deref(), Ok(good));
        }
        for wrong in ["abc", "7xx", "5x", "50", "600", "xx"] {
            assert!(parse_status(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_empty_list_is_told_with_its_conditions() {
        let told = nothing_recorded(&[("q", "a"), ("code", ""), ("status", "5xx")]);
        assert!(told.starts_with("nothing recorded with text a, status 5xx; "), "{told}");
        assert!(nothing_recorded(&[("q", "")]).contains("no request since the start"));
    }

    #[test]
    fn each_request_is_printed_once_and_the_oldest_first() {
        let (new, seen) = unseen(vec![json!(3), json!(1), json!(1)], &RowCounts::new());
        assert_eq!(new, [1, 1, 3]);
        let (new, seen) = unseen(vec![json!(4), json!(3), json!(3), json!(1)], &seen);
        assert_eq!(new, [3, 4]);
        let (new, _) = unseen(vec![json!(4), json!(3)], &seen);
        assert_eq!(new, Vec::<Value>::new());
    }
}
