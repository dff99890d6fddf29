//! A request or connection explained by the running gateway, about the configuration that it serves.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tollhouse_config::Bootstrap;
use tollhouse_control::terminal::printable_lines;

use super::ExplainArguments;
use crate::cli::console_client::ConsoleClient;
use crate::cli::stdout;

/// Prints the explanation of the running gateway; `None` if none answers where the configuration
/// says.
///
/// # Errors
/// If the gateway refuses, or does not answer although its URL was given.
pub(super) fn run(
    arguments: &ExplainArguments,
    bootstrap: &Bootstrap,
) -> anyhow::Result<Option<ExitCode>> {
    let is_named = arguments.gateway.is_named();
    let mut client = match ConsoleClient::with(&arguments.gateway, bootstrap) {
        Ok(client) => client,
        Err(error) if is_named => return Err(error),
        Err(_) => return Ok(None),
    };
    let answered = client
        .ask_if_running("explain", &question(arguments))
        .context("the running gateway does not explain it; --offline explains its file or store")?;
    let Some(answer) = answered else {
        let place = format!("http://{}", client.authority());
        if is_named {
            bail!("no gateway answers at {place}");
        }
        eprintln!("no gateway answers at {place}: its file or store is explained");
        return Ok(None);
    };
    let Some(text) = answer["text"].as_str() else {
        bail!("the answer is not understood; is that a Tollhouse of this version?");
    };
    eprintln!("revision {} of http://{}", answer["revision"], client.authority());
    stdout::print(&printable_lines(text))?;
    let is_taken = answer["is_taken"] == true;
    Ok(Some(if is_taken { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

fn question(arguments: &ExplainArguments) -> Value {
    json!({
        "url": arguments.url().to_string(),
        "method": arguments.method,
        "headers": arguments.headers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "remote_addr": arguments.remote_addr.to_string(),
        "body": arguments.body,
        "as_text": true,
    })
}
