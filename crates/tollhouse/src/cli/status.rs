//! `tollhouse status`: prints the state of a running gateway from its control API; also usable as a
//! probe.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::configuration::Configuration;
use super::control_client::ControlClient;
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
        stdout::print(&format!("{answer}\n"))?;
    } else if !arguments.ready {
        let found = client.findings()?;
        stdout::print(&describe(client.url(), &answer, &found))?;
    }
    Ok(if answer["ready"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(url: &str, answer: &Value, found: &[Value]) -> String {
    let state = if answer["ready"] == true { "ready" } else { "not ready" };
    let summary = findings::summary(found);
    let summary = if summary.is_empty() { summary } else { format!(", {summary}") };
    let revision = &answer["revision"];
    let routes = counted(answer["routes"].as_u64().unwrap_or(0), "route");
    let head = format!("{url}: {state}{summary}\n  configuration  revision {revision}, {routes}\n");
    head + &findings::render(found)
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
        assert_eq!(describe("http://a", &answer, &found), expected);
        let well = describe("http://a", &json!({"ready": true, "revision": 1, "routes": 0}), &[]);
        assert_eq!(well, "http://a: ready\n  configuration  revision 1, 0 routes\n");
    }
}
