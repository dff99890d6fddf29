//! Requested load test: parsing, limits, and allowed targets.

use std::net::IpAddr;

use serde::Deserialize;

/// Limits of one load test: total seconds, and connections.
pub(super) const SECONDS_MAX: u64 = 600;
pub(super) const CONNECTIONS_MAX: u32 = 2_000;
const REPEAT_MAX: u64 = 10;
const THRESHOLDS_MAX: usize = 10;
const THRESHOLD_BYTES_MAX: usize = 100;

/// Maximum length of an accepted URL in bytes.
const URL_BYTES_MAX: usize = 2_000;

/// Load test that an operator requested in the console.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchRequest {
    pub(super) url: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default = "BenchRequest::connections")]
    pub(super) connections: u32,
    #[serde(default = "BenchRequest::seconds")]
    pub(super) seconds: u64,
    #[serde(default = "BenchRequest::repeat")]
    pub(super) repeat: u64,
    /// Total requests per second; as fast as possible if unset.
    #[serde(default)]
    pub(super) rate: Option<u64>,
    /// Conditions such as `p99 < 50ms`, which the result meets or misses.
    #[serde(default)]
    pub(super) thresholds: Vec<String>,
}

impl BenchRequest {
    fn connections() -> u32 {
        10
    }

    fn seconds() -> u64 {
        10
    }

    fn repeat() -> u64 {
        3
    }

    /// Returns the arguments of `tollhouse bench`, without the path of the result. The name is not
    /// an argument, because comparisons match cases by their parameters and not by their names.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all: Vec<String> = ["bench", "http"].map(str::to_owned).into();
        all.extend(["--connections".into(), self.connections.to_string()]);
        all.extend(["--duration".into(), format!("{}s", self.seconds)]);
        all.extend(["--repeat".into(), self.repeat.to_string()]);
        all.extend(self.rate.into_iter().flat_map(|rate| ["--rate".into(), rate.to_string()]));
        // One argument each, so that none is read as an option.
        all.extend(self.thresholds.iter().map(|threshold| format!("--threshold={threshold}")));
        // The URL follows `--`, so that it is never read as an option.
        all.extend(["--".into(), self.url.clone()]);
        all
    }

    /// Rejects values above the limits, and targets that are not allowed.
    pub(super) fn check(&self, targets: &[String]) -> Result<(), String> {
        let within = |name: &str, value: u64, max: u64| match value {
            0 => Err(format!("{name}: is at least 1")),
            value if value > max => Err(format!("{name}: is at most {max}")),
            _ => Ok(()),
        };
        within("connections", self.connections.into(), CONNECTIONS_MAX.into())?;
        within("seconds", self.seconds, SECONDS_MAX)?;
        within("repeat", self.repeat, REPEAT_MAX)?;
        if self.seconds * self.repeat > SECONDS_MAX {
            return Err(format!("seconds: all repetitions together take at most {SECONDS_MAX} s"));
        }
        if let Some(rate) = self.rate {
            within("rate", rate, 10_000_000)?;
        }
        if self.name.len() > 100 || self.name.chars().any(char::is_control) {
            return Err("name: is at most 100 bytes of one line".to_owned());
        }
        let is_long =
            |text: &String| text.len() > THRESHOLD_BYTES_MAX || text.chars().any(char::is_control);
        if self.thresholds.len() > THRESHOLDS_MAX || self.thresholds.iter().any(is_long) {
            return Err(format!(
                "thresholds: are at most {THRESHOLDS_MAX}, each of at most {THRESHOLD_BYTES_MAX} bytes"
            ));
        }
        // The load generator parses them; a typing error is found before anything is started.
        if let Some(text) = self.thresholds.iter().find(|text| !text.contains(['<', '>'])) {
            return Err(format!(
                "thresholds: expected a condition such as p99 < 50ms, not {text:?}"
            ));
        }
        let (host, authority) = authority_of(&self.url)?;
        // The console must not direct load at machines that the operator has not allowed.
        let is_here = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_named = targets.iter().any(|target| *target == authority || *target == host);
        if is_here || is_named {
            return Ok(());
        }
        Err(format!(
            "url: {authority} is neither on this machine nor named in console.bench_targets"
        ))
    }
}

/// Returns the host, and host with port, of a URL.
fn authority_of(url: &str) -> Result<(String, String), String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or("url: begins with http:// or https://")?;
    if url.len() > URL_BYTES_MAX || url.chars().any(|it| it.is_control() || it == ' ' || it == '\\')
    {
        return Err("url: not a valid URL".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    if authority.is_empty() || authority.contains('@') {
        return Err("url: needs a host, and no user".to_owned());
    }
    let host = match authority.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default().to_owned(),
        None => authority.split(':').next().unwrap_or_default().to_owned(),
    };
    Ok((host, authority))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wanted(value: Value) -> Result<(), String> {
        let wanted: BenchRequest =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        wanted.check(&["load.example:8080".to_owned()])
    }

    #[test]
    fn only_this_machine_and_named_targets_are_measured_and_within_bounds() {
        for (value, expected) in [
            (json!({"url": "http://127.0.0.1:9080/"}), None),
            (json!({"url": "http://[::1]:9080/x?y"}), None),
            (json!({"url": "http://LOCALHOST/"}), None),
            (json!({"url": "https://load.example:8080/a"}), None),
            (json!({"url": "http://load.example/"}), Some("neither on this machine")),
            (json!({"url": "http://10.0.0.1/"}), Some("neither on this machine")),
            (json!({"url": "http://127.0.0.1@10.0.0.1/"}), Some("no user")),
            (json!({"url": "http://127.0.0.1.example/"}), Some("neither on this machine")),
            (json!({"url": "http://localhost\\@10.0.0.1/"}), Some("not a valid URL")),
            (json!({"url": "file:///etc/passwd"}), Some("begins with http")),
            (json!({"url": "--json"}), Some("begins with http")),
            (json!({"url": "http://localhost/", "seconds": 601}), Some("at most 600")),
            (json!({"url": "http://localhost/", "seconds": 100, "repeat": 7}), Some("together")),
            (json!({"url": "http://localhost/", "connections": 0}), Some("at least 1")),
            (json!({"url": "http://localhost/", "json": "/x"}), Some("unknown field")),
            (json!({"url": "http://localhost/", "thresholds": ["p99 < 50ms"]}), None),
            (
                json!({"url": "http://localhost/", "thresholds": ["fast"]}),
                Some("a condition such as"),
            ),
            (
                json!({"url": "http://localhost/", "thresholds": vec!["p99 < 1s"; 11]}),
                Some("at most 10"),
            ),
        ] {
            let refused = wanted(value.clone()).err();
            match (refused, expected) {
                (None, None) => {}
                (Some(text), Some(part)) => assert!(text.contains(part), "{value}: {text}"),
                (refused, expected) => panic!("{value}: {refused:?}, expected {expected:?}"),
            }
        }
    }
}
