//! `tollhouse status`: prints the state of a running gateway from its control API; also usable as a
//! probe.

use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::admin_client::AdminClient;
use super::configuration::Configuration;
use super::{problems, stdout};

/// Maximum number of problems printed; `check` and the control API have all.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// URL of the gateway's control API, such as `http://127.0.0.1:9090`; by default the configured
    /// one.
    #[arg(long, value_name = "URL")]
    control: Option<String>,
    /// Print nothing, and exit with 1 unless the gateway is ready for traffic: for the probes of container
    /// runtimes.
    #[arg(long, conflicts_with = "json")]
    ready: bool,
    /// Print the unchanged answer of the control API.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct StatusResponse {
    ready: bool,
    revision: u64,
    routes: u64,
    problems: Vec<Value>,
    refused: Vec<Value>,
    down: Vec<Down>,
}

#[derive(Debug, Deserialize)]
struct Down {
    part: String,
    reason: String,
}

/// Prints the state. The exit code is 1 if the gateway is not ready.
///
/// # Errors
/// If the gateway does not answer, or another server does.
pub fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let url = match (&arguments.control, loaded.bootstrap.listen.control.first()) {
        (Some(url), _) => url.clone(),
        (None, Some(address)) => {
            format!("http://{}", tollhouse_control::banner::reachable(*address))
        }
        (None, None) => {
            bail!("listen.control is off; turn it on, or give another one with --control")
        }
    };
    // An empty key, because the control API needs none and the key of the Admin API must not be
    // sent to it.
    let mut client = AdminClient::open(&url, Some(""), &loaded.bootstrap)?;
    let (status, body) = client.ask("GET", "/v1/configuration", Bytes::new())?;
    if !status.is_success() {
        bail!("{url} answers {status}; is that the control API of a Tollhouse?");
    }
    let answer: StatusResponse = serde_json::from_slice(&body)
        .context("the answer is not understood; is that the control API of a Tollhouse?")?;
    if arguments.json {
        stdout::print(&format!("{}\n", String::from_utf8_lossy(&body).trim_end()))?;
    } else if !arguments.ready {
        stdout::print(&describe(&url, &answer))?;
    }
    Ok(if answer.ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(url: &str, answer: &StatusResponse) -> String {
    let StatusResponse { revision, routes, problems, refused, down, .. } = answer;
    let state = if answer.ready { "ready" } else { "not ready" };
    let mut text =
        format!("{url}: {state}\n  configuration  revision {revision}, {routes} routes\n");
    for Down { part, reason } in down {
        text.push_str(&format!("  down           {part}: {reason}\n"));
    }
    for problem in refused {
        text.push_str(&format!("  refused        {}\n", described(problem)));
    }
    for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        let is_warning = problem.get("severity").and_then(Value::as_str) == Some("warning");
        let label = if is_warning { "warning  " } else { "set aside" };
        text.push_str(&format!("  {label}      {}\n", described(problem)));
    }
    if let Some(more @ 1..) = problems.len().checked_sub(PROBLEMS_SHOWN_MAX) {
        text.push_str(&format!("  … and {more} further problems\n"));
    }
    text
}

fn described(problem: &Value) -> String {
    let part = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    let (path, reason, hint) = (part("path"), part("reason"), part("hint"));
    match (path.is_empty() && reason.is_empty(), hint.is_empty()) {
        (true, _) => problem.to_string(),
        (false, true) => format!("{path}: {reason}"),
        (false, false) => format!("{path}: {reason}; {hint}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_printed_line_by_line() {
        let answer = json!({
            "ready": false, "revision": 7, "routes": 2, "refused": [],
            "problems": [
                {"severity": "error", "path": "routes/1.uri", "reason": "is missing", "hint": "add it"},
                {"severity": "warning", "path": "stream_routes/1", "reason": "no listener", "hint": ""},
            ],
            "down": [{"part": "registry", "reason": "the port is taken"}],
        });
        let answer: StatusResponse = serde_json::from_value(answer).expect("it is one");
        let expected = "http://a: not ready\n  configuration  revision 7, 2 routes\n  \
                        down           registry: the port is taken\n  \
                        set aside      routes/1.uri: is missing; add it\n  \
                        warning        stream_routes/1: no listener\n";
        assert_eq!(describe("http://a", &answer), expected);
    }
}
