//! Peers of Tollhouse. Proxies are configured for speed: as many workers as the gateway has cores,
//! keep-alive on both sides, no access log.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use tollhouse_testbed::{Haproxy, Nginx};

use crate::error::BenchError;
use crate::target;

/// Gateway or proxy that is measured with Tollhouse's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Proxy that is started by the suite.
    Proxy(Proxy),
    /// ShenYu's own gateway, started with its defaults and once more with keep-alive.
    Shenyu,
    /// Running gateway that forwards to the upstream.
    Running(Running),
}

/// A gateway that is not started by the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Name of the peer in reports.
    pub name: String,
    /// URL that the load requests.
    pub url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    Nginx,
    Haproxy,
}

/// Server that a peer forwards to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upstream<'a> {
    pub(super) port: u16,
    /// Path that the upstream answers with 200.
    pub(super) path: &'a str,
}

impl Proxy {
    pub const ALL: [Proxy; 2] = [Proxy::Nginx, Proxy::Haproxy];

    /// Returns the name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Proxy::Nginx => "nginx",
            Proxy::Haproxy => "haproxy",
        }
    }

    /// Returns the name of the configuration file.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Proxy::Nginx => Nginx::FILE,
            Proxy::Haproxy => Haproxy::FILE,
        }
    }

    /// Returns the command that starts the proxy in the foreground.
    pub(super) fn command(self, folder: &Path) -> Result<Command, BenchError> {
        Ok(match self {
            Proxy::Nginx => Nginx::command(folder)?,
            Proxy::Haproxy => Haproxy::command(folder)?,
        })
    }

    pub(super) fn configuration(
        self,
        port: u16,
        workers: usize,
        upstream: &Upstream<'_>,
    ) -> String {
        let origin = tollhouse_testbed::Upstream { name: "origin", port: upstream.port };
        match self {
            Proxy::Nginx => {
                let server = format!(
                    "    listen 127.0.0.1:{port} backlog=4096;\n    \
                     location / {{ proxy_pass http://origin; }}\n"
                );
                let (connections, kept) = (16_384, 2_048);
                let upstreams = &[origin];
                Nginx { workers, connections, upstreams, kept, http: "", server: &server }.text()
            }
            Proxy::Haproxy => {
                let sections = format!(
                    "listen bench\n  bind 127.0.0.1:{port} backlog 4096\n  \
                     http-reuse always\n  server origin 127.0.0.1:{}\n",
                    upstream.port
                );
                let (defaults, sections) = ("  mode http\n", &*sections);
                Haproxy { threads: workers, defaults, sections }.text()
            }
        }
    }
}

/// Reason why a peer cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error(
        "`{0}` is not a peer; the peers are nginx, haproxy, shenyu, and NAME=URL for a gateway that runs"
    )]
    Unknown(String),
    #[error(
        "`{name}={url}`: {why}; write the URL that is asked, such as {name}=http://127.0.0.1:9195/"
    )]
    Url { name: String, url: String, why: String },
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        if let Some((name, url)) = text.split_once('=') {
            return running(name.trim(), url.trim());
        }
        if text == "shenyu" {
            return Ok(Peer::Shenyu);
        }
        let found = Proxy::ALL.into_iter().find(|proxy| proxy.name() == text);
        found.map(Peer::Proxy).ok_or_else(|| PeerError::Unknown(text.to_owned()))
    }
}

/// Parses a running gateway from its name and URL.
fn running(name: &str, url: &str) -> Result<Peer, PeerError> {
    if name.is_empty() {
        return Err(PeerError::Unknown(format!("={url}")));
    }
    let wrong = |why: String| PeerError::Url { name: name.into(), url: url.into(), why };
    let target = target::parse(url).map_err(|error| wrong(error.to_string()))?;
    if !matches!(&*target.scheme, "http" | "https") {
        return Err(wrong(format!("a gateway is asked over http or https, not {}", target.scheme)));
    }
    Ok(Peer::Running(Running { name: name.to_owned(), url: url.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_known_by_name_and_running_ones_by_their_url() {
        assert_eq!("nginx".parse(), Ok(Peer::Proxy(Proxy::Nginx)));
        assert_eq!("shenyu".parse(), Ok(Peer::Shenyu));
        let url = "http://10.0.0.5:9195/order?id=1";
        let running = Running { name: "shenyu".into(), url: url.into() };
        assert_eq!(format!("shenyu={url}").parse(), Ok(Peer::Running(running)));
        for (text, part) in [
            ("envoy", "the peers are nginx, haproxy, shenyu"),
            ("=http://a/", "is not a peer"),
            ("shenyu=", "such as shenyu=http://127.0.0.1:9195/"),
            ("shenyu=ws://a/", "over http or https, not ws"),
        ] {
            let error = text.parse::<Peer>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
