//! Peers of Tollhouse. Proxies are configured for speed: as many workers as the gateway has cores,
//! keep-alive on both sides, no access log.

use std::path::{Path, PathBuf};
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
    /// ShenYu's own gateway, started with its defaults and once more with keep-alive: assembled by
    /// Maven, or from a released bootstrap at a path.
    Shenyu(Option<PathBuf>),
    /// Polaris' own server, started from the program at a path.
    Polaris(PathBuf),
    /// Running Polaris server, by host and port of its gRPC service.
    RunningPolaris(String),
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
        "`{0}` is not a peer; the peers are nginx, haproxy, shenyu, shenyu=PATH of a bootstrap's jar or \
         folder, polaris=PATH of polaris-server, polaris=HOST:PORT, and NAME=URL for a gateway that runs"
    )]
    Unknown(String),
    #[error("`{name}={path}`: {why}")]
    Path { name: String, path: String, why: &'static str },
    #[error(
        "`{name}={url}`: {why}; write the URL that is asked, such as {name}=http://127.0.0.1:9195/"
    )]
    Url { name: String, url: String, why: String },
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        if let Some((name, place)) = text.split_once('=') {
            let (name, place) = (name.trim(), place.trim());
            let is_path = !place.contains("://") && Path::new(place).exists();
            return match name {
                "shenyu" if is_path => Ok(Peer::Shenyu(Some(place.into()))),
                "polaris" => polaris(place),
                _ => running(name, place),
            };
        }
        if text == "shenyu" {
            return Ok(Peer::Shenyu(None));
        }
        let found = Proxy::ALL.into_iter().find(|proxy| proxy.name() == text);
        found.map(Peer::Proxy).ok_or_else(|| PeerError::Unknown(text.to_owned()))
    }
}

impl Peer {
    /// Whether the peer is a registry, which only the suite `polaris` can measure.
    pub(super) fn is_registry(&self) -> bool {
        match self {
            Peer::Polaris(_) | Peer::RunningPolaris(_) => true,
            Peer::Proxy(_) | Peer::Shenyu(_) | Peer::Running(_) => false,
        }
    }

    /// Returns the name in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Peer::Proxy(proxy) => proxy.name(),
            Peer::Shenyu(_) => "shenyu",
            Peer::Polaris(_) | Peer::RunningPolaris(_) => "polaris",
            Peer::Running(running) => &running.name,
        }
    }
}

/// Parses a Polaris server: the path of its program, or host and port of a running one.
fn polaris(place: &str) -> Result<Peer, PeerError> {
    let wrong = |why| PeerError::Path { name: "polaris".into(), path: place.into(), why };
    let path = Path::new(place);
    if path.is_file() {
        let configuration = path.parent().map(|folder| folder.join("conf/polaris-server.yaml"));
        return match configuration {
            Some(file) if file.is_file() => Ok(Peer::Polaris(path.to_owned())),
            _ => {
                Err(wrong("expected conf/polaris-server.yaml beside the program, as in a release"))
            }
        };
    }
    let is_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
    match place.strip_prefix("grpc://").unwrap_or(place) {
        address if !address.contains('/') && address.rsplit_once(':').is_some_and(is_port) => {
            Ok(Peer::RunningPolaris(address.to_owned()))
        }
        _ => Err(wrong(
            "expected the path of the program polaris-server, or HOST:PORT of its gRPC service",
        )),
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
    fn artifacts_are_known_by_their_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("polaris-server");
        std::fs::write(&program, "").expect("a file");
        let text = format!("polaris={}", program.display());
        let error = text.parse::<Peer>().expect_err("without its configuration").to_string();
        assert!(error.contains("conf/polaris-server.yaml beside the program"), "{error}");
        std::fs::create_dir(folder.path().join("conf")).expect("a folder");
        std::fs::write(folder.path().join("conf/polaris-server.yaml"), "").expect("a file");
        assert_eq!(text.parse(), Ok(Peer::Polaris(program)));
        let bootstrap = format!("shenyu={}", folder.path().display());
        assert_eq!(bootstrap.parse(), Ok(Peer::Shenyu(Some(folder.path().into()))));
    }

    #[test]
    fn peers_are_known_by_name_and_running_ones_by_their_url() {
        assert_eq!("nginx".parse(), Ok(Peer::Proxy(Proxy::Nginx)));
        assert_eq!("shenyu".parse(), Ok(Peer::Shenyu(None)));
        let running = Peer::RunningPolaris("10.0.0.5:8091".into());
        assert_eq!("polaris=10.0.0.5:8091".parse(), Ok(running));
        let url = "http://10.0.0.5:9195/order?id=1";
        let running = Running { name: "shenyu".into(), url: url.into() };
        assert_eq!(format!("shenyu={url}").parse(), Ok(Peer::Running(running)));
        for (text, part) in [
            ("envoy", "the peers are nginx, haproxy, shenyu"),
            ("=http://a/", "is not a peer"),
            ("shenyu=", "such as shenyu=http://127.0.0.1:9195/"),
            ("shenyu=ws://a/", "over http or https, not ws"),
            ("polaris=/nonexistent/polaris-server", "expected the path of the program"),
            ("polaris=8091", "or HOST:PORT"),
        ] {
            let error = text.parse::<Peer>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
