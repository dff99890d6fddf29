//! Peers of Tollhouse. Proxies are configured for speed: as many workers as the gateway has cores,
//! keep-alive on both sides, no access log.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use crate::error::BenchError;
use crate::suite::program::find;
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

    pub(super) fn file_name(self) -> &'static str {
        match self {
            Proxy::Nginx => "nginx.conf",
            Proxy::Haproxy => "haproxy.cfg",
        }
    }

    /// Returns the version printed by the program.
    pub(super) fn version(self) -> Option<String> {
        let output = Command::new(find(self.name())?).arg("-v").output().ok()?;
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        String::from_utf8_lossy(&said).lines().next().map(|line| line.trim().to_owned())
    }

    /// Returns the command that starts the proxy in the foreground.
    pub(super) fn command(self, folder: &Path) -> Result<Command, BenchError> {
        let name = self.name();
        let program = find(name).ok_or_else(|| {
            BenchError::Machine(format!(
                "{name} is not installed; install it (`apt-get install {name}`) or leave it out of --peers"
            ))
        })?;
        let mut command = Command::new(program);
        let file = folder.join(self.file_name());
        match self {
            Proxy::Nginx => {
                command.arg("-p").arg(folder).arg("-c").arg(file).args(["-e", "stderr"]);
                if rustix::process::geteuid().is_root() {
                    // The folder belongs to root, and the worker must be able to read it.
                    command.args(["-g", "user root;"]);
                }
            }
            Proxy::Haproxy => {
                command.args(["-db", "-f"]).arg(file);
            }
        }
        Ok(command)
    }

    pub(super) fn configuration(
        self,
        port: u16,
        workers: usize,
        upstream: &Upstream<'_>,
    ) -> String {
        let origin = upstream.port;
        match self {
            Proxy::Nginx => format!(
                "daemon off;\nworker_processes {workers};\nworker_rlimit_nofile 65536;\n\
                 pid nginx.pid;\nerror_log stderr crit;\n\
                 events {{ worker_connections 16384; }}\n\
                 http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  \
                 keepalive_timeout 600s;\n  client_body_temp_path body_temp;\n  \
                 proxy_temp_path proxy_temp;\n  fastcgi_temp_path fastcgi_temp;\n  \
                 uwsgi_temp_path uwsgi_temp;\n  scgi_temp_path scgi_temp;\n  \
                 upstream origin {{ server 127.0.0.1:{origin}; keepalive 2048; \
                 keepalive_requests 1000000000; }}\n  proxy_http_version 1.1;\n  \
                 proxy_set_header Connection \"\";\n  server {{\n    \
                 listen 127.0.0.1:{port} backlog=4096;\n    \
                 location / {{ proxy_pass http://origin; }}\n  }}\n}}\n"
            ),
            Proxy::Haproxy => format!(
                "global\n  nbthread {workers}\n  maxconn 16000\n  no strict-limits\n\n\
                 defaults\n  mode http\n  timeout connect 10s\n  timeout client 600s\n  \
                 timeout server 600s\n\nlisten bench\n  bind 127.0.0.1:{port} backlog 4096\n  \
                 http-reuse always\n  server origin 127.0.0.1:{origin}\n"
            ),
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
