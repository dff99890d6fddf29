//! Client of a running gateway's `/console/v1` API, which the web console uses too.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use hyper::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tollhouse_config::Bootstrap;

use super::admin_client::{AdminClient, refusal};
use super::gateway::Gateway;

/// Connection to a gateway whose console API is enabled.
pub struct ConsoleClient {
    client: AdminClient,
}

impl ConsoleClient {
    /// Locates the gateway; the first request opens the connection.
    ///
    /// # Errors
    /// If the Admin API is off or uses TLS. The inner error is the exit code for an invalid
    /// configuration.
    pub fn open(gateway: &Gateway) -> anyhow::Result<Result<Self, ExitCode>> {
        match gateway.load() {
            Ok(bootstrap) => Ok(Ok(Self::with(gateway, &bootstrap)?)),
            Err(code) => Ok(Err(code)),
        }
    }

    /// Locates the gateway of a configuration.
    ///
    /// # Errors
    /// If the Admin API is off or uses TLS.
    pub fn with(gateway: &Gateway, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Ok(Self { client: gateway.client(bootstrap)? })
    }

    /// Sends a GET request, such as `requests`; empty arguments are left out.
    ///
    /// # Errors
    /// If the gateway does not answer, refuses, or answers with something else than JSON.
    pub fn get(&mut self, call: &str, arguments: &[(&str, &str)]) -> anyhow::Result<Value> {
        let path = path_of(call, arguments);
        let (status, body) = self.client.ask("GET", &path, Bytes::new())?;
        decode(status, &body)
    }

    /// Sends a question in a POST request; returns the answer.
    ///
    /// # Errors
    /// For the reasons of [`get`](Self::get).
    pub fn ask(&mut self, call: &str, question: &Value) -> anyhow::Result<Value> {
        let body = Bytes::from(question.to_string());
        let (status, body) = self.client.ask("POST", &path_of(call, &[]), body)?;
        decode(status, &body)
    }

    /// Sends a question in a POST request; returns `None` if no server answers.
    ///
    /// # Errors
    /// If the gateway refuses, or answers with something else than JSON.
    pub fn ask_if_running(
        &mut self,
        call: &str,
        question: &Value,
    ) -> anyhow::Result<Option<Value>> {
        let body = Bytes::from(question.to_string());
        match self.client.ask("POST", &path_of(call, &[]), body) {
            Ok((status, body)) => decode(status, &body).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Host and port of the gateway.
    pub fn authority(&self) -> &str {
        self.client.authority()
    }

    /// Sends a POST request without a body.
    ///
    /// # Errors
    /// If the gateway does not answer, or refuses.
    pub fn post(&mut self, call: &str) -> anyhow::Result<()> {
        let (status, body) = self.client.ask("POST", &path_of(call, &[]), Bytes::new())?;
        if !status.is_success() {
            bail!("{}", refusal(status, &body));
        }
        Ok(())
    }

    /// Waits before the next request. Runs the connection's tasks meanwhile, so that a connection
    /// closed by the gateway is noticed.
    pub fn wait(&self, time: Duration) {
        // The timer must be created within the runtime.
        self.client.runtime().block_on(async { tokio::time::sleep(time).await });
    }
}

fn decode(status: StatusCode, body: &[u8]) -> anyhow::Result<Value> {
    if !status.is_success() {
        bail!("{}", refusal(status, body));
    }
    serde_json::from_slice(body)
        .context("the answer is not understood; is that the Admin API of a Tollhouse?")
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
