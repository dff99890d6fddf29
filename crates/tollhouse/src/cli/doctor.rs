//! `tollhouse doctor`: reports what is wrong with a running gateway, and with the configured engines
//! (etcd, MySQL, MariaDB, PostgreSQL, Redis), with remedies. The control crate examines them. The
//! command changes nothing, and examines the engines without a running gateway too.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tokio::runtime::Builder;
use tollhouse_config::Bootstrap;
use tollhouse_control::doctor::{Finding, examine};

use super::configuration::Configuration;
use super::control_client::ControlClient;
use super::{findings, problems, stdout};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when nothing is wrong, 1 when something is. Notes do not count. What is wrong with the \
                  instances of a running registry is told by tollhouse registry doctor."
)]
pub struct DoctorArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// URL of the gateway's control API, such as `http://127.0.0.1:9090`; by default the configured
    /// one, if a gateway answers there.
    #[arg(long, value_name = "URL")]
    control: Option<String>,
    /// Print the findings as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Prints the findings; the exit code tells whether there is a problem.
///
/// # Errors
/// If the configuration of an engine is invalid, or no gateway answers at the URL given.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let gateway = ask_gateway(arguments, &loaded.bootstrap)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let examination = runtime.block_on(examine(&loaded.bootstrap))?;
    let engines = examination.findings.iter().map(Finding::to_json);
    let mut found: Vec<Value> = gateway.findings.into_iter().chain(engines).collect();
    found.sort_by_key(rank);
    let text = if arguments.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        let engines: String =
            examination.looked_at.iter().map(|line| format!("{line}\n")).collect();
        format!("{}\n{engines}{}", gateway.looked_at, render(&found))
    };
    stdout::print(&text)?;
    Ok(if findings::are_notes(&found) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Report of the running gateway.
struct GatewayReport {
    looked_at: String,
    findings: Vec<Value>,
}

/// Asks the gateway. One that does not answer is an error only if its URL was given.
fn ask_gateway(
    arguments: &DoctorArguments,
    bootstrap: &Bootstrap,
) -> anyhow::Result<GatewayReport> {
    let control = arguments.control.as_deref();
    let asked = ControlClient::open(control, bootstrap).and_then(|mut client| {
        let looked_at = format!("the gateway at {} answers", client.url());
        Ok(GatewayReport { findings: client.findings()?, looked_at })
    });
    asked.or_else(|error| match control {
        Some(_) => Err(error),
        None => {
            let looked_at = format!("no gateway was examined: {error}");
            Ok(GatewayReport { looked_at, findings: Vec::new() })
        }
    })
}

/// Returns the position of a severity in the order of findings.
fn rank(finding: &Value) -> u8 {
    match finding["severity"].as_str() {
        Some("problem") => 0,
        Some("warning") => 1,
        _ => 2,
    }
}

fn render(found: &[Value]) -> String {
    if found.is_empty() { "nothing is wrong\n".to_owned() } else { findings::render(found) }
}

/// Formats findings as lines.
pub(super) fn render_findings(found: &[Finding]) -> String {
    render(&found.iter().map(Finding::to_json).collect::<Vec<_>>())
}
