//! Queries to a running gateway: control API, metrics and access log.

use std::net::SocketAddr;

use serde_json::Value;

use super::Gateway;
use crate::client::RawClient;
use crate::patience::wait_for;

impl Gateway {
    /// Fetches `path` from the control API.
    ///
    /// # Panics
    ///
    /// If the response is not JSON.
    pub fn control(&self, path: &str) -> Value {
        let text = fetch(self.control, path);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Returns the configuration in service, with `revision`, `routes` and `problems`.
    pub fn configuration(&self) -> Value {
        self.control("/v1/configuration")
    }

    /// Returns the revision in service, as the control API reports it.
    pub fn revision(&self) -> u64 {
        self.configuration()["revision"].as_u64().expect("revisions are numbers")
    }

    /// Waits until the configuration in service satisfies `check`.
    pub fn wait_configuration(&self, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || Some(self.configuration()).filter(|now| check(now)))
    }

    /// Returns the value of a metric. `name` includes the labels as printed; a missing metric is 0.
    pub fn metric(&self, name: &str) -> f64 {
        let page = fetch(self.metrics, "/metrics");
        let values = page.lines().filter_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(' ')?;
            value.trim().parse::<f64>().ok()
        });
        values.sum()
    }

    /// Returns the number of requests that failed with an error code.
    pub fn failures(&self, code: &str) -> f64 {
        self.metric(&format!("tollhouse_requests_failed_total{{code=\"{code}\"}}"))
    }

    /// Waits until `count` requests have failed with an error code. Failures are counted shortly
    /// after their responses are sent.
    pub fn wait_failures(&self, code: &str, count: u32) {
        wait_for(&format!("{count} failures with {code}"), || {
            (self.failures(code) >= f64::from(count)).then_some(())
        });
    }

    /// Waits for the JSON access-log line of a request to `target`. The log must go to standard
    /// output (see [`super::GatewayBuilder::log_requests`]).
    pub fn log_line(&self, target: &str) -> Value {
        self.output.wait_line(target, |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["request_uri"] == target).then_some(line)
        })
    }
}

fn fetch(address: SocketAddr, path: &str) -> String {
    let mut client = RawClient::connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: control\r\nConnection: close\r\n\r\n");
    client.ask(request).text()
}
