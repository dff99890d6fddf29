//! `tollhouse top`: an overview of a running gateway, refreshed every second.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::console_client::ConsoleClient;
use super::gateway::Gateway;
use super::{findings, stdout};

/// Interval between refreshes; the gateway samples its traffic every second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of seconds over which rates are averaged. Rates over a shorter period fluctuate; those
/// over a longer one lag behind.
const SECONDS: u64 = 10;

/// Number of findings shown, so that they fit a terminal; the worst come first.
const FINDINGS_MAX: usize = 5;

/// Escape sequence that moves to the top left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Print the overview once and exit.
    #[arg(long)]
    once: bool,
    /// Print the overview and the samples of the last ten seconds as one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Prints the overview every second until Ctrl-C.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    // Only a terminal is cleared, because the codes would disturb a file or a pipe.
    let clears = !arguments.once && !arguments.json && io::stdout().is_terminal();
    loop {
        let overview = client.get("overview", &[])?;
        let live = client.get("live", &[])?;
        let now = live["now"].as_u64().unwrap_or(0);
        let seconds: Vec<&Value> = live["seconds"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|second| second["at"].as_u64().is_some_and(|at| at + SECONDS >= now))
            .collect();
        let text = if arguments.json {
            format!("{}\n", serde_json::json!({"overview": overview, "seconds": seconds}))
        } else {
            format!("{}{}", if clears { CLEAR } else { "" }, describe(&overview, &seconds, now))
        };
        stdout::print(&text)?;
        if arguments.once {
            return Ok(ExitCode::SUCCESS);
        }
        client.wait(INTERVAL);
    }
}

fn describe(overview: &Value, seconds: &[&Value], now_s: u64) -> String {
    let text = |name: &str| overview[name].as_str().unwrap_or_default();
    let up_s = now_s.saturating_sub(overview["started_at"].as_u64().unwrap_or(now_s));
    let ready = if overview["is_ready"] == true { "ready" } else { "not ready" };
    let mut lines = format!(
        "{}: {ready}, version {}, revision {}, {}, up {}\n",
        text("hostname"),
        text("version"),
        overview["revision"],
        counted(overview["routes_in_service"].as_u64().unwrap_or(0), "route"),
        findings::span(up_s),
    );
    let length_ms: u64 = seconds.iter().filter_map(|it| it["length_ms"].as_u64()).sum();
    let per_second = |count: u64| count as f64 * 1000.0 / length_ms.max(1) as f64;
    let requests = seconds.iter().filter_map(|it| it["requests"].as_u64()).sum();
    lines.push_str(&format!("  requests     {:.1}/s", per_second(requests)));
    for (class, count) in summed(seconds, "classes") {
        lines.push_str(&format!("  {class} {:.1}", per_second(count)));
    }
    // A second without requests has no latencies, so that those of the last second with requests
    // are shown.
    let last = seconds.iter().rev().find(|it| !it["p50_ms"].is_null());
    let latency = |name: &str| last.and_then(|it| it[name].as_u64()).map(|ms| format!("{ms} ms"));
    let [p50, p90, p99] =
        ["p50_ms", "p90_ms", "p99_ms"].map(|name| latency(name).unwrap_or_else(|| "-".to_owned()));
    lines.push_str(&format!("\n  latency      p50 {p50}  p90 {p90}  p99 {p99}\n"));
    let connections = seconds.last().and_then(|it| it["connections"].as_u64()).unwrap_or(0);
    lines.push_str(&format!("  connections  {connections}\n"));
    let nodes = &overview["nodes"];
    lines.push_str(&format!("  nodes        {} of {} serve", nodes["healthy"], nodes["total"]));
    for state in ["failing", "unhealthy", "unresolved"] {
        if let Some(count @ 1..) = nodes[state].as_u64() {
            lines.push_str(&format!(", {count} {state}"));
        }
    }
    lines.push('\n');
    for (code, count) in summed(seconds, "failures") {
        lines.push_str(&format!("  failures     {code} {:.1}/s\n", per_second(count)));
    }
    let found = overview["findings"].as_array().map_or(&[][..], Vec::as_slice);
    lines.push_str(&findings::render(&found[..found.len().min(FINDINGS_MAX)]));
    if let Some(more @ 1..) = found.len().checked_sub(FINDINGS_MAX) {
        lines.push_str(&format!("… and {more} more; see `tollhouse status`\n"));
    }
    lines
}

/// Sums the counts in the field `name` over all seconds, by their key, such as an error code.
fn summed(seconds: &[&Value], name: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in seconds.iter().filter_map(|it| it[name].as_object()).flatten() {
        *sums.entry(key.clone()).or_default() += count.as_u64().unwrap_or(0);
    }
    sums
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_of_all_seconds_and_latencies_of_the_last_that_has_some() {
        let overview = json!({
            "hostname": "gw", "version": "1", "revision": 7, "routes_in_service": 2, "started_at": 100, "is_ready": true,
            "nodes": {"healthy": 1, "failing": 1, "unhealthy": 0, "unresolved": 0, "total": 2},
            "findings": [{"severity": "problem", "what": "node a:1 fails"}],
        });
        let seconds = [
            json!({"length_ms": 1000, "requests": 30, "classes": {"2xx": 28, "5xx": 2}, "failures": {"no_nodes": 2},
                   "p50_ms": 1, "p90_ms": 2, "p99_ms": 9, "connections": 5}),
            json!({"length_ms": 1000, "requests": 0, "classes": {}, "failures": {}, "p50_ms": null, "p90_ms": null,
                   "p99_ms": null, "connections": 3}),
        ];
        let seconds: Vec<&Value> = seconds.iter().collect();
        let expected = "\
gw: ready, version 1, revision 7, 2 routes, up 3 min
  requests     15.0/s  2xx 14.0  5xx 1.0
  latency      p50 1 ms  p90 2 ms  p99 9 ms
  connections  3
  nodes        1 of 2 serve, 1 failing
  failures     no_nodes 1.0/s
problem: node a:1 fails
";
        assert_eq!(describe(&overview, &seconds, 280), expected);
        assert!(describe(&overview, &[], 280).contains("requests     0.0/s\n"));
    }
}
