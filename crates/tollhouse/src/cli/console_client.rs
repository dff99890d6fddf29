//! What commands ask of a running gateway under `/console/v1`, as the web console does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::admin_client::{AdminClient, refusal};
use super::gateway::Gateway;

/// A gateway whose console's calls are answered.
pub struct ConsoleClient {
    client: AdminClient,
}

impl ConsoleClient {
    /// Finds the gateway; connects with the first question.
    ///
    /// # Errors
    /// The Admin API is off or speaks TLS. The inner error is the exit code of a configuration of no use.
    pub fn open(gateway: &Gateway) -> anyhow::Result<Result<Self, ExitCode>> {
        match gateway.load() {
            Ok(bootstrap) => Ok(Ok(Self { client: gateway.client(&bootstrap)? })),
            Err(code) => Ok(Err(code)),
        }
    }

    /// The answer to a question, such as `requests` with the arguments that are not empty.
    ///
    /// # Errors
    /// Nobody answers, the gateway refuses, or it is none.
    pub fn get(&mut self, call: &str, arguments: &[(&str, &str)]) -> anyhow::Result<Value> {
        let path = path_of(call, arguments);
        let (status, body) = self.client.ask("GET", &path, Bytes::new())?;
        if !status.is_success() {
            bail!("{}", refusal(status, &body));
        }
        serde_json::from_slice(&body)
            .context("the answer is not understood; is that the Admin API of a Tollhouse?")
    }

    /// Has the gateway do what a call without a body asks for.
    ///
    /// # Errors
    /// Nobody answers, or the gateway refuses.
    pub fn post(&mut self, call: &str) -> anyhow::Result<()> {
        let (status, body) = self.client.ask("POST", &path_of(call, &[]), Bytes::new())?;
        if !status.is_success() {
            bail!("{}", refusal(status, &body));
        }
        Ok(())
    }

    /// Waits until it is time for the next question; the connection learns meanwhile if it was closed.
    pub fn wait(&self, time: Duration) {
        // A timer is made where the runtime is, which it belongs to.
        self.client.runtime().block_on(async { tokio::time::sleep(time).await });
    }
}

fn path_of(call: &str, arguments: &[(&str, &str)]) -> String {
    let mut path = format!("/console/v1/{call}");
    for (name, value) in arguments.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        let table: [(&[(&str, &str)], &str); 3] = [
            (&[], "/console/v1/requests"),
            (&[("code", ""), ("q", "")], "/console/v1/requests"),
            (&[("q", "a&b c"), ("status", "5xx")], "/console/v1/requests?q=a%26b%20c&status=5xx"),
        ];
        for (arguments, expected) in table {
            assert_eq!(path_of("requests", arguments), expected);
        }
    }
}
