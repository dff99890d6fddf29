//! The proxies that are compared, each with the configuration an operator in a hurry for speed would
//! write: one worker, kept connections on both sides, no access log.

use super::client::get_request;
use super::gateway::{Bootstrap, Origin, route_path, routes_json};
use super::machine::{Cores, first_line};
use super::process::{self, Running, free_port};
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Tollhouse,
    Nginx,
    Haproxy,
    /// HAProxy that moves bytes only: close to the floor of four socket calls a request.
    HaproxyTcp,
}

/// Routes that nginx is given at most: each location costs it kilobytes and seconds to start.
const NGINX_ROUTES_MAX: usize = 10_000;

/// A proxy that answers.
pub(crate) struct Proxy {
    pub(crate) peer: Peer,
    pub(crate) port: u16,
    pub(crate) running: Running,
    /// From the start of the process to the first answered request.
    pub(crate) start_time: Duration,
}

impl Peer {
    /// All of them, ours first.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Its name in tables and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tollhouse => "tollhouse",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::HaproxyTcp => "haproxy-tcp",
        }
    }

    /// Whether the program is there; says so when it is not.
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

    /// What the program says of itself.
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

    /// Whether it can be given so many routes at all.
    pub(crate) fn can_hold(self, routes: usize) -> bool {
        match self {
            Self::Tollhouse | Self::Haproxy => true,
            Self::Nginx => routes <= NGINX_ROUTES_MAX,
            Self::HaproxyTcp => routes == 1,
        }
    }

    /// Starts it with the routes `/r/0`, `/r/1`, … to one origin, and waits for its first answer.
    pub(crate) fn start(
        self,
        cores: &Cores,
        binary: &Path,
        origin_port: u16,
        routes: usize,
    ) -> Result<Proxy> {
        self.start_with(cores, binary, &Setup::plain(origin_port, routes))
    }

    /// Starts it as the setup says, and waits for the first answer of its last route.
    pub(crate) fn start_with(
        self,
        cores: &Cores,
        binary: &Path,
        setup: &Setup<'_>,
    ) -> Result<Proxy> {
        let folder = process::fresh_folder()?;
        let port = free_port()?;
        let on_cores = |program: &str| match setup.workers {
            1 => cores.on_proxy_core(program),
            _ => cores.on_both_cores(program),
        };
        let command = match self {
            Self::Tollhouse => {
                setup.write_tollhouse(folder.path(), port)?;
                let mut command = on_cores(&binary.display().to_string());
                command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
                command
            }
            Self::Nginx => {
                let text = nginx_configuration(port, setup);
                std::fs::write(folder.path().join("nginx.conf"), text)?;
                nginx_command(on_cores("nginx"), folder.path())
            }
            Self::Haproxy | Self::HaproxyTcp => {
                let paths = (0..setup.routes).map(|n| format!("{}\n", route_path(n)));
                std::fs::write(folder.path().join("paths"), paths.collect::<String>())?;
                let mode = if self == Self::Haproxy { HAPROXY_HTTP } else { HAPROXY_TCP };
                let text = haproxy_configuration(port, setup, mode);
                std::fs::write(folder.path().join("haproxy.cfg"), text)?;
                let mut command = on_cores("haproxy");
                command.args(["-db", "-f"]).arg(folder.path().join("haproxy.cfg"));
                command
            }
        };
        let mut running = Running::start(command, folder)?;
        let probe = get_request(&route_path(setup.routes - 1), setup.probe_lines);
        let start_time = running
            .wait_until_it_answers_to(port, &probe)
            .with_context(|| format!("{} with {} routes", self.name(), setup.routes))?;
        Ok(Proxy { peer: self, port, running, start_time })
    }
}

/// What a proxy is started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) origin_port: u16,
    /// At least one.
    pub(crate) routes: usize,
    /// With one, the proxy has a core of its own; with more, it shares both with the load.
    pub(crate) workers: usize,
    /// What Tollhouse gets instead of routes without plugins.
    pub(crate) resources: Option<&'a str>,
    /// What nginx answers by itself instead of asking the origin.
    pub(crate) own_answer: Option<&'a str>,
    /// Header lines without which the last route answers something other than 200.
    pub(crate) probe_lines: &'a str,
}

impl Setup<'_> {
    /// Routes to an origin, nothing else.
    pub(crate) fn plain(origin_port: u16, routes: usize) -> Self {
        Self { origin_port, routes, workers: 1, resources: None, own_answer: None, probe_lines: "" }
    }

    fn write_tollhouse(&self, folder: &Path, port: u16) -> Result<()> {
        let plain;
        let resources = match self.resources {
            Some(resources) => resources,
            None => {
                plain = routes_json(self.origin_port, self.routes);
                &plain
            }
        };
        let origin = Origin::Resources(resources);
        Bootstrap { port, workers: self.workers, origin, access_log: "off" }.write(folder)
    }
}

fn located(program: &str) -> String {
    shell::find_program(program)
        .map_or_else(|| program.to_owned(), |path| path.display().to_string())
}

/// nginx in the foreground with the configuration in a folder.
pub(crate) fn nginx_command(mut command: Command, folder: &Path) -> Command {
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command.args(["-e", "stderr"]);
    if rustix::process::geteuid().is_root() {
        // The folder belongs to root, and the worker must read it.
        command.args(["-g", "user root;"]);
    }
    command
}

fn nginx_configuration(port: u16, setup: &Setup<'_>) -> String {
    let Setup { origin_port, routes, workers, .. } = setup;
    let action = match setup.own_answer {
        Some(body) => format!("default_type text/plain; return 200 \"{body}\";"),
        None => "proxy_pass http://origin;".to_owned(),
    };
    let mut locations = String::new();
    for number in 0..*routes {
        let path = route_path(number);
        locations.push_str(&format!("location = {path} {{ {action} }}\n"));
    }
    format!(
        "daemon off; worker_processes {workers}; worker_rlimit_nofile 65536; pid nginx.pid;\n\
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

/// A request with a path that is not in the file is refused, so that the path is really looked up.
const HAPROXY_HTTP: &str =
    "mode http\n  http-reuse always\n  http-request deny deny_status 404 unless { path -f paths }";
const HAPROXY_TCP: &str = "mode tcp";

/// HAProxy counts two open files a connection beforehand; idle ones never need the second.
fn haproxy_configuration(port: u16, setup: &Setup<'_>, mode: &str) -> String {
    let Setup { origin_port, workers, .. } = setup;
    format!(
        "global\n  nbthread {workers}\n  maxconn 16000\n  no strict-limits\n\
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
        let text = nginx_configuration(80, &Setup::plain(81, 100));
        assert_eq!(text.matches("location = ").count(), 100);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn nginx_answers_by_itself_when_told() {
        let setup = Setup { own_answer: Some("mocked"), workers: 2, ..Setup::plain(81, 1) };
        let text = nginx_configuration(80, &setup);
        assert!(text.contains("return 200 \"mocked\";") && !text.contains("proxy_pass"), "{text}");
        assert!(text.contains("worker_processes 2;"), "{text}");
    }

    #[test]
    fn peers_that_cannot_hold_the_routes_are_known() {
        let holds = |routes| Peer::all().into_iter().filter(move |p| p.can_hold(routes)).count();
        assert_eq!((holds(1), holds(100), holds(100_000)), (4, 3, 2));
    }
}
