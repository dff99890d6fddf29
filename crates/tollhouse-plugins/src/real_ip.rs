//! Takes the client's address from a variable of the request, such as a header or argument that a
//! proxy in front has set.
//!
//! Later plugins, variables, nodes and logs see the new address. Routes are matched before that.
//!
//! # Example
//! ```json
//! {"source": "http_x_forwarded_for", "trusted_addresses": ["10.0.0.0/8"], "recursive": true}
//! ```
//!
//! # Answers
//! None: if no address is found, the request keeps its original one.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, RequestContext, Scope, Step};

use crate::shared::confs::addresses::{AddressText, Addresses};

/// Configuration of `real-ip`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Proxies whose addresses are trusted to set the variable. Unset: all are trusted.
    #[schemars(length(min = 1))]
    pub trusted_addresses: Option<Vec<AddressText>>,
    /// Variable with the address, with or without a port: `http_x_forwarded_for` (its last element
    /// is used), `http_x_real_ip`, `arg_realip` and so on.
    #[schemars(length(min = 1))]
    pub source: String,
    /// Whether trusted addresses at the end of `X-Forwarded-For` are skipped; off by default. Set
    /// it if several trusted proxies follow each other.
    #[serde(default)]
    pub recursive: bool,
}

#[derive(Debug)]
pub struct RealIp {
    trusted: Option<Addresses>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Last address in `X-Forwarded-For`.
    LastHop,
    /// Last element of `X-Forwarded-For` that is not trusted.
    LastForeignHop,
    Variable(Variable),
}

const FORWARDED_FOR: &str = "X-Forwarded-For";

impl Plugin for RealIp {
    const NAME: &'static str = "real-ip";
    const PRIORITY: i32 = 23000;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let trusted = config.trusted_addresses.as_deref().map(Addresses::parse).transpose()?;
        let source = match (config.source.as_str(), config.recursive && trusted.is_some()) {
            ("http_x_forwarded_for", true) => Source::LastForeignHop,
            ("http_x_forwarded_for", false) => Source::LastHop,
            (name, _) => Source::Variable(Variable::parse(name)),
        };
        Ok(Self { trusted, source })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let remote = cx.remote_address();
        if self.trusted.as_ref().is_none_or(|trusted| trusted.contains(remote))
            && let Some(address) = self.address(cx)
        {
            cx.edits().remote = Some(address);
        }
        Step::Continue
    }
}

impl RealIp {
    fn address(&self, cx: &RequestContext<'_>) -> Option<(IpAddr, Option<u16>)> {
        match &self.source {
            Source::LastHop => parse_address(last_element(cx.headers_named(FORWARDED_FOR).last()?)),
            Source::LastForeignHop => self.last_foreign_hop(&cx.headers_named(FORWARDED_FOR)),
            Source::Variable(variable) => {
                let value: Cow<'_, [u8]> = cx.variables().variable(variable)?;
                parse_address(&value)
            }
        }
    }

    /// Walks from the last hop to the first. An invalid address ends the search.
    fn last_foreign_hop(&self, lines: &[Vec<u8>]) -> Option<(IpAddr, Option<u16>)> {
        let mut found = None;
        for hop in lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            found = Some(parse_address(hop.trim_ascii())?);
            let is_trusted = found.zip(self.trusted.as_ref());
            if !is_trusted.is_some_and(|((address, _), trusted)| trusted.contains(address)) {
                break;
            }
        }
        found
    }
}

fn last_element(list: &[u8]) -> &[u8] {
    list.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

/// Parses an address with or without a port; IPv6 may be in brackets.
fn parse_address(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() > 0).then_some((address.ip(), Some(address.port())));
    }
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    Some((IpAddr::V6(inside.parse().ok()?), None))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_plugin::testing::Harness;

    use super::*;

    fn edits(conf: &Value, request: &str) -> String {
        Harness::new::<RealIp>(conf).request(request).edits
    }

    #[test]
    fn a_variable_says_the_address() {
        let conf = json!({"source": "arg_realip"});
        for (value, expected) in [
            ("1.2.3.4", "remote 1.2.3.4\n"),
            ("1.2.3.4:80", "remote 1.2.3.4\n"),
            ("2001:db8::2", "remote 2001:db8::2\n"),
            ("[::2]", "remote ::2\n"),
            ("[::2]:80", "remote ::2\n"),
            ("1.2.3.4:0", ""),
            ("1.2.3.4:65536", ""),
            ("apisix.apache.org", ""),
            ("", ""),
        ] {
            let request = format!("GET /?realip={value} HTTP/1.1\n\n");
            assert_eq!(edits(&conf, &request), expected, "{value}");
        }
        assert_eq!(edits(&conf, "GET / HTTP/1.1\n\n"), "");
    }

    #[test]
    fn the_last_hop_counts_unless_it_is_trusted() {
        let plain = json!({"source": "http_x_forwarded_for"});
        let walking = json!({
            "source": "http_x_forwarded_for",
            "trusted_addresses": ["127.0.0.1", "10.0.0.0/8"],
            "recursive": true,
        });
        for (lines, last, foreign) in [
            ("X-Forwarded-For: 9.9.9.9\n", "remote 9.9.9.9\n", "remote 9.9.9.9\n"),
            ("X-Forwarded-For: 1.1.1.1,  10.0.0.1\n", "remote 10.0.0.1\n", "remote 1.1.1.1\n"),
            ("X-Forwarded-For: 10.0.0.2, 10.0.0.1\n", "remote 10.0.0.1\n", "remote 10.0.0.2\n"),
            (
                "X-Forwarded-For: 2.2.2.2, 1.1.1.1,10.0.0.1:9\n",
                "remote 10.0.0.1\n",
                "remote 1.1.1.1\n",
            ),
            ("X-Forwarded-For: 1.1.1.1, x, 10.0.0.1\n", "remote 10.0.0.1\n", ""),
            ("X-Forwarded-For: 1.1.1.1, x\n", "", ""),
            (
                "X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 10.0.0.3\n",
                "remote 10.0.0.3\n",
                "remote 1.1.1.1\n",
            ),
            ("", "", ""),
        ] {
            let request = format!("GET / HTTP/1.1\n{lines}\n");
            assert_eq!(edits(&plain, &request), last, "{lines}");
            assert_eq!(edits(&walking, &request), foreign, "{lines}");
        }
    }

    #[test]
    fn only_trusted_clients_are_believed() {
        for (trusted, expected) in [("127.0.0.0/8", "remote 1.2.3.4\n"), ("10.0.0.0/8", "")] {
            let conf = json!({"source": "http_x_real_ip", "trusted_addresses": [trusted]});
            let request = "GET / HTTP/1.1\nX-Real-IP: 1.2.3.4\n\n";
            assert_eq!(edits(&conf, request), expected, "{trusted}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "property \"source\" is required"),
            (
                json!({"source": ""}),
                "property \"source\" validation failed: \
                 string too short, expected at least 1, got 0",
            ),
            (
                json!({"source": "arg_a", "trusted_addresses": ["127.0.0.1/33"]}),
                "property \"trusted_addresses\" validation failed: failed to validate item 1: \
                 object matches none of the required",
            ),
            (
                json!({"source": "arg_a", "trusted_addresses": ["::1/129"]}),
                "invalid ip address: ::1/129",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<RealIp>(&conf), expected, "{conf}");
        }
    }
}
