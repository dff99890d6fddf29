//! `tollhouse status`: prints the state of a running gateway from its control API; also usable as a
//! probe.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::configuration::Configuration;
use super::control_client::ControlClient;
use super::traffic::{self, Traffic};
use super::{findings, problems, stdout};

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
    /// Print the answer of the control API about the configuration, with the findings.
    #[arg(long)]
    json: bool,
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
    let mut client = ControlClient::open(arguments.control.as_deref(), &loaded.bootstrap)?;
    let mut answer: Value = client.get("/v1/configuration")?;
    if arguments.json {
        answer["findings"] = client.findings()?.into();
        answer["traffic"] = client.get("/v1/traffic")?;
        stdout::print(&format!("{answer}\n"))?;
    } else if !arguments.ready {
        let found = client.findings()?;
        // A gateway of an older version has no such page.
        let traffic = client.get("/v1/traffic").unwrap_or(Value::Null);
        stdout::print(&describe(client.url(), &answer, &traffic, &found))?;
    }
    Ok(if answer["ready"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(url: &str, answer: &Value, traffic: &Value, found: &[Value]) -> String {
    let state = if answer["ready"] == true { "ready" } else { "not ready" };
    let summary = findings::summary(found);
    let summary = if summary.is_empty() { summary } else { format!(", {summary}") };
    let mut text = format!("{url}: {state}{summary}\n");
    let revision = &answer["revision"];
    let routes = counted(answer["routes"].as_u64().unwrap_or(0), "route");
    text.push_str(&format!("  configuration  revision {revision}, {routes}\n"));
    // Problems come first: a reader may see only the first lines.
    text.push_str(&findings::render(found));
    text + &figures(traffic)
}

fn figures(traffic: &Value) -> String {
    let mut text = String::new();
    if let Some(version) = traffic["version"].as_str() {
        let now_s = traffic["now"].as_u64().unwrap_or(0);
        let up_s = now_s.saturating_sub(traffic["started_at"].as_u64().unwrap_or(now_s));
        text.push_str(&format!("  version        {version}, up {}\n", findings::span(up_s)));
    }
    if let Some(seconds) = traffic["seconds"].as_array() {
        let seconds = Traffic::new(seconds.iter());
        text.push_str(&format!("  requests       {}\n", seconds.rates()));
        text.push_str(&format!("  latency        {}\n", seconds.latency()));
    }
    if traffic["nodes"].is_object() {
        text.push_str(&format!("  nodes          {}\n", traffic::nodes(&traffic["nodes"])));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_printed_under_the_state() {
        let answer = json!({"ready": false, "revision": 7, "routes": 1});
        let found = [
            json!({"severity": "problem", "what": "registry is down: the port is taken"}),
            json!({"severity": "warning", "what": "set aside: routes/1.uri: is missing", "remedy": "add it"}),
        ];
        let expected = "http://a: not ready, 1 problem, 1 warning\n  configuration  revision 7, 1 route\n\
                        problem: registry is down: the port is taken\n\
                        warning: set aside: routes/1.uri: is missing\n    add it\n";
        assert_eq!(describe("http://a", &answer, &Value::Null, &found), expected);
        let ready = json!({"ready": true, "revision": 1, "routes": 0});
        let traffic = json!({
            "version": "0.1.0", "started_at": 100, "now": 400,
            "seconds": [{"length_ms": 1000, "requests": 3, "classes": {"2xx": 3}, "p50_ms": 1, "p90_ms": 1, "p99_ms": 2}],
            "nodes": {"total": 2, "healthy": 1, "failing": 1},
        });
        let expected = "\
http://a: ready
  configuration  revision 1, 0 routes
  version        0.1.0, up 5 min
  requests       3.0/s  2xx 3.0
  latency        p50 1 ms  p90 1 ms  p99 2 ms
  nodes          1 of 2 serve, 1 failing
";
        assert_eq!(describe("http://a", &ready, &traffic, &[]), expected);
    }
}
