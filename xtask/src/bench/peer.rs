//! The proxies to compare, each with the configuration that an operator would write for speed: one
//! worker, kept connections on both sides, no access log.

use super::gateway::{Bootstrap, route_path, routes_json};
use super::machine::{Cores, first_line};
use super::process::{self, Running, free_port};
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Tollhouse,
    Nginx,
    Haproxy,
    /// HAProxy that only relays bytes, near the minimum of four socket calls per request
    HaproxyTcp,
}

/// Maximum number of routes that nginx is given; each location costs kilobytes of memory and time
/// to start.
const NGINX_ROUTES_MAX: usize = 10_000;

/// Running proxy, after its first answer.
pub(crate) struct Proxy {
    pub(crate) peer: Peer,
    pub(crate) port: u16,
    pub(crate) running: Running,
    /// Time from the start of the process to the first answered request.
    pub(crate) start_time: Duration,
}

impl Proxy {
    pub(crate) fn name(&self) -> &'static str {
        self.peer.name()
    }
}

impl Peer {
    /// Returns all peers, Tollhouse first.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns the peer's name in tables and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tollhouse => "tollhouse",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::HaproxyTcp => "haproxy-tcp",
        }
    }

    /// Checks whether the program is installed, and prints a message if it is not.
    pub(crate) fn is_installed(self) -> bool {
        let program = match self {
            Self::Tollhouse => return true,
            Self::Nginx => "nginx",
            Self::Haproxy | Self::HaproxyTcp => "haproxy",
        };
        let is_there = shell::find_program(program).is_some();
        if !is_there {
            println!("{}: not installed, left out", self.name());
        }
        is_there
    }

    /// Returns the version that the program prints.
    pub(crate) fn version(self, binary: &Path) -> String {
        match self {
            Self::Tollhouse => {
                first_line(&shell::capture_loosely(&binary.display().to_string(), &["--version"]))
            }
            Self::Nginx => first_line(&shell::capture_loosely(&located("nginx"), &["-v"])),
            Self::Haproxy | Self::HaproxyTcp => {
                first_line(&shell::capture_loosely(&located("haproxy"), &["-v"]))
            }
        }
    }

    /// Checks whether the peer supports this number of routes.
    pub(crate) fn can_hold(self, routes: usize) -> bool {
        match self {
            Self::Tollhouse | Self::Haproxy => true,
            Self::Nginx => routes <= NGINX_ROUTES_MAX,
            Self::HaproxyTcp => routes == 1,
        }
    }

    /// Starts the peer with the routes `/r/0`, `/r/1`, … to one origin, and waits for the first
    /// answer of the last route.
    pub(crate) fn start(
        self,
        cores: &Cores,
        binary: &Path,
        origin_port: u16,
        routes: usize,
    ) -> Result<Proxy> {
        let folder = process::fresh_folder()?;
        let port = free_port()?;
        let command = match self {
            Self::Tollhouse => {
                let resources = routes_json(origin_port, routes);
                Bootstrap::from_resources(port, &resources).write(folder.path())?;
                let mut command = cores.on_proxy_core(&binary.display().to_string());
                command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
                command
            }
            Self::Nginx => {
                let text = nginx_configuration(port, origin_port, routes);
                std::fs::write(folder.path().join("nginx.conf"), text)?;
                nginx_command(cores.on_proxy_core("nginx"), folder.path())
            }
            Self::Haproxy | Self::HaproxyTcp => {
                let paths = (0..routes).map(|n| format!("{}\n", route_path(n)));
                std::fs::write(folder.path().join("paths"), paths.collect::<String>())?;
                let mode = if self == Self::Haproxy { HAPROXY_HTTP } else { HAPROXY_TCP };
                let text = haproxy_configuration(port, origin_port, mode);
                std::fs::write(folder.path().join("haproxy.cfg"), text)?;
                let mut command = cores.on_proxy_core("haproxy");
                command.args(["-db", "-f"]).arg(folder.path().join("haproxy.cfg"));
                command
            }
        };
        let mut running = Running::start(command, folder)?;
        let start_time = running
            .wait_until_it_answers(port, &route_path(routes - 1))
            .with_context(|| format!("{} with {routes} routes", self.name()))?;
        Ok(Proxy { peer: self, port, running, start_time })
    }
}

fn located(program: &str) -> String {
    shell::find_program(program)
        .map_or_else(|| program.to_owned(), |path| path.display().to_string())
}

/// Adds the arguments that run nginx in the foreground with the configuration in a folder.
pub(crate) fn nginx_command(mut command: Command, folder: &Path) -> Command {
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.args(["-e", "stderr"]);
    if rustix::process::geteuid().is_root() {
        // The worker must be able to read the folder, which belongs to root.
        command.args(["-g", "user root;"]);
    }
    command
}

fn nginx_configuration(port: u16, origin_port: u16, routes: usize) -> String {
    let mut locations = String::new();
    for number in 0..routes {
        let path = route_path(number);
        locations.push_str(&format!("location = {path} {{ proxy_pass http://origin; }}\n"));
    }
    format!(
        "daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid nginx.pid;\n\
         error_log stderr crit;\n\
         events {{ worker_connections 40000; }}\n\
         http {{\n\
           access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;\n\
           client_body_temp_path body_temp; proxy_temp_path proxy_temp;\n\
           fastcgi_temp_path fastcgi_temp; uwsgi_temp_path uwsgi_temp; scgi_temp_path scgi_temp;\n\
           upstream origin {{\n\
             server 127.0.0.1:{origin_port}; keepalive 320; keepalive_requests 1000000000;\n\
           }}\n\
           proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
           proxy_buffers 8 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;\n\
           server {{ listen 127.0.0.1:{port} backlog=4096;\n{locations}}}\n\
         }}\n"
    )
}

/// A request whose path is not in the file is refused, so that HAProxy has to look the path up.
const HAPROXY_HTTP: &str =
    "mode http\n  http-reuse always\n  http-request deny deny_status 404 unless { path -f paths }";
const HAPROXY_TCP: &str = "mode tcp";

/// Returns HAProxy's configuration. HAProxy reserves two open files per connection in advance, but
/// idle connections never need the second.
fn haproxy_configuration(port: u16, origin_port: u16, mode: &str) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 16000\n  no strict-limits\n\
         defaults\n  timeout connect 10s\n  timeout client 600s\n  timeout server 600s\n\
         listen bench\n  bind 127.0.0.1:{port} backlog 4096\n  {mode}\n  \
         server origin 127.0.0.1:{origin_port}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_gets_one_location_a_route() {
        let text = nginx_configuration(80, 81, 100);
        assert_eq!(text.matches("location = ").count(), 100);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn peers_that_cannot_hold_the_routes_are_known() {
        let holds = |routes| Peer::all().into_iter().filter(move |p| p.can_hold(routes)).count();
        assert_eq!((holds(1), holds(100), holds(100_000)), (4, 3, 2));
    }
}
