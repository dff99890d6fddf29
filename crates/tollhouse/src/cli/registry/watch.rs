//! `tollhouse registry watch`.

use std::process::ExitCode;
use tollhouse_control::terminal::printable;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tollhouse_stdx::plural::counted;

use super::name::ServiceName;
use super::remote::Remote;
use super::view::Instance;
use crate::cli::admin_client::refusal;
use crate::cli::gateway::Gateway;
use crate::cli::stdout;

/// Maximum length of a line, and of a refusal, in bytes: an instance with the maximum of metadata
/// takes 1.6 MB if each character is escaped.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Service or alias; one that does not exist yet is awaited.
    #[arg(value_name = "NAMESPACE/SERVICE")]
    service: ServiceName,
    /// Print the unchanged lines of the Admin API.
    #[arg(long)]
    json: bool,
}

/// Prints the instances, then every change.
pub fn run(arguments: &WatchArguments) -> anyhow::Result<ExitCode> {
    let bootstrap = match arguments.gateway.load() {
        Ok(bootstrap) => bootstrap,
        Err(code) => return Ok(code),
    };
    let mut remote = Remote::open(&arguments.gateway, &bootstrap)?;
    let path = format!("{}/instances?watch=true", arguments.service.path());
    let (status, body) = remote.open_stream(&path)?;
    remote.runtime().block_on(async {
        if !status.is_success() {
            let answer = Limited::new(body, LINE_BYTES_MAX).collect().await;
            let answer =
                answer.map_err(|error| anyhow!("{status}, and its text: {error}"))?.to_bytes();
            bail!("{}", refusal(status, &answer));
        }
        tokio::select! {
            ended = follow(arguments, body) => ended?,
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
        bail!("the gateway ended the watch");
    })
}

async fn follow(arguments: &WatchArguments, mut body: Incoming) -> anyhow::Result<()> {
    let mut pending = Vec::new();
    let mut known = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the watch was cut off")?.into_data() else { continue };
        pending.extend_from_slice(&data);
        // A body frame may end in the middle of a line; only complete lines are decoded.
        let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else {
            if pending.len() > LINE_BYTES_MAX {
                bail!("a line of the watch is longer than {LINE_BYTES_MAX} bytes");
            }
            continue;
        };
        let rest = pending.split_off(end + 1);
        let whole = std::mem::replace(&mut pending, rest);
        let text = String::from_utf8(whole).context("the stream of changes is not UTF-8")?;
        let mut shown = String::new();
        for line in text.lines() {
            if arguments.json {
                shown.push_str(line);
                shown.push('\n');
            } else if let Some(line) = rendered(line, &arguments.service, &mut known)? {
                shown.push_str(&line);
                shown.push('\n');
            }
        }
        stdout::print(&shown)?;
    }
    Ok(())
}

/// Formats a line of the Admin API's stream; `None` if there is nothing to print. `known` records
/// whether the service existed at the last `synced` line.
fn rendered(
    line: &str,
    service: &ServiceName,
    known: &mut Option<bool>,
) -> anyhow::Result<Option<String>> {
    let value: Value = serde_json::from_str(line).context("the stream of changes is not JSON")?;
    let sign = match value["type"].as_str() {
        Some("added") => '+',
        Some("changed") => '~',
        Some("removed") => '-',
        Some("synced") => return Ok(synced(&value, service, known)),
        _ => return Ok(None),
    };
    let instance: Instance = serde_json::from_value(value["instance"].clone())?;
    let mut text =
        format!("{sign} {} {} weight={}", instance.address(), instance.state(), instance.weight);
    if !instance.version.is_empty() {
        text.push_str(&format!(" version={}", instance.version));
    }
    if !instance.metadata.is_empty() {
        text.push_str(&format!(" {}", instance.labels()));
    }
    text.push_str(&format!(" id={}", instance.id));
    Ok(Some(printable(&text)))
}

/// Returns a message on whether the service exists, if that has changed since the last `synced`
/// line.
fn synced(value: &Value, service: &ServiceName, known: &mut Option<bool>) -> Option<String> {
    let exists = value["exists"].as_bool().unwrap_or_default();
    let before = known.replace(exists);
    match (before, exists) {
        (None, true) => {
            let total = value["total"].as_u64().unwrap_or_default();
            Some(format!("= {} of {service}", counted(total, "instance")))
        }
        (None, false) => Some(format!("= {service} does not exist yet")),
        (Some(true), false) => Some(format!("= {service} was deleted")),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lines_with_a_sign() {
        let service: ServiceName = "ns/svc".parse().expect("a name");
        let mut known = None;
        let table = [
            (
                r#"{"type":"added","instance":{"host":"a","port":1,"weight":5,"healthy":true,"ttl_seconds":5,"id":"i"}}"#,
                Some("+ a:1 healthy weight=5 id=i"),
            ),
            (r#"{"type":"synced","exists":true,"total":1}"#, Some("= 1 instance of ns/svc")),
            (
                r#"{"type":"changed","instance":{"host":"a","port":1,"version":"v","isolated":true,"metadata":{"k":"v\u001b"}}}"#,
                Some("~ a:1 isolated weight=0 version=v k=v? id="),
            ),
            (r#"{"type":"synced","exists":true,"total":1}"#, None),
            (r#"{"type":"alive"}"#, None),
            (r#"{"type":"removed","instance":{}}"#, Some("- :0 unhealthy weight=0 id=")),
            (r#"{"type":"synced","exists":false,"total":0}"#, Some("= ns/svc was deleted")),
        ];
        for (line, expected) in table {
            let shown = rendered(line, &service, &mut known).expect("it is JSON");
            assert_eq!(shown.as_deref(), expected, "{line}");
        }
        assert!(rendered("{", &service, &mut known).is_err());
    }
}
