//! Peers that run beside Tollhouse, each configured as somebody in a hurry for speed would: as many workers
//! as the gateway has cores, connections kept on both sides, no access log.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use crate::error::BenchError;
use crate::suite::program::find;

/// A proxy that suites know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
}

/// What a peer stands in front of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upstream<'a> {
    pub(super) port: u16,
    /// The path that is answered with 200.
    pub(super) path: &'a str,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 2] = [Peer::Nginx, Peer::Haproxy];

    /// Its name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::Haproxy => "haproxy",
        }
    }

    pub(super) fn file_name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx.conf",
            Peer::Haproxy => "haproxy.cfg",
        }
    }

    /// What the program says of itself.
    pub(super) fn version(self) -> Option<String> {
        let output = Command::new(find(self.name())?).arg("-v").output().ok()?;
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        String::from_utf8_lossy(&said).lines().next().map(|line| line.trim().to_owned())
    }

    /// The command that starts it in the foreground.
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
            Peer::Nginx => {
                command.arg("-p").arg(folder).arg("-c").arg(file).args(["-e", "stderr"]);
                if rustix::process::geteuid().is_root() {
                    // The folder belongs to root, and the worker must read it.
                    command.args(["-g", "user root;"]);
                }
            }
            Peer::Haproxy => {
                command.args(["-db", "-f"]).arg(file);
            }
        }
        Ok(command)
    }

    /// Its configuration file.
    pub(super) fn configuration(
        self,
        port: u16,
        workers: usize,
        upstream: &Upstream<'_>,
    ) -> String {
        let origin = upstream.port;
        match self {
            Peer::Nginx => format!(
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
            Peer::Haproxy => format!(
                "global\n  nbthread {workers}\n  maxconn 16000\n  no strict-limits\n\n\
                 defaults\n  mode http\n  timeout connect 10s\n  timeout client 600s\n  \
                 timeout server 600s\n\nlisten bench\n  bind 127.0.0.1:{port} backlog 4096\n  \
                 http-reuse always\n  server origin 127.0.0.1:{origin}\n"
            ),
        }
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|peer| peer.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a peer; the peers are nginx and haproxy"))
    }
}
