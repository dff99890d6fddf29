//! The proxies to compare, each with the configuration that an operator would write for speed: one
//! worker, kept connections on both sides, no access log.

use super::client::probe;
use super::gateway::{self, route_path, routes_json};
use super::plan::{Core, Plan};
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;
use tollhouse_testbed::{Bootstrap, Haproxy, Nginx, Program, Upstream, free_port};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Tollhouse,
    Nginx,
    Haproxy,
    /// HAProxy that only relays bytes, near the minimum of four socket calls per request
    HaproxyTcp,
}

/// Maximum number of routes that nginx is measured with, because each location costs kilobytes of
/// memory and start-up time.
const NGINX_ROUTES_MAX: usize = 10_000;

/// Running proxy that answers requests.
pub(crate) struct Proxy {
    pub(crate) peer: Peer,
    pub(crate) port: u16,
    pub(crate) program: Program,
    /// Time from the start of the process to the first answered request.
    pub(crate) start_time: Duration,
}

impl Proxy {
    /// Returns the peer's name.
    pub(crate) fn name(&self) -> &'static str {
        self.peer.name()
    }
}

impl Peer {
    /// Returns all peers, ours first.
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
        let is_installed = shell::find_program(program).is_some();
        if !is_installed {
            println!("{}: not installed, left out", self.name());
        }
        is_installed
    }

    /// Returns the path of the peer's executable.
    pub(crate) fn program(self, plan: &Plan) -> PathBuf {
        let name = match self {
            Self::Tollhouse => return plan.binary.clone(),
            Self::Nginx => "nginx",
            Self::Haproxy | Self::HaproxyTcp => "haproxy",
        };
        shell::find_program(name).unwrap_or_else(|| name.into())
    }

    /// Returns the flag that prints the program's version.
    pub(crate) fn version_flag(self) -> &'static str {
        if self == Self::Tollhouse { "--version" } else { "-v" }
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
    pub(crate) fn start(self, plan: &Plan, origin_port: u16, routes: usize) -> Result<Proxy> {
        let port = free_port()?;
        let program = match self {
            Self::Tollhouse => {
                let bootstrap =
                    Bootstrap { listen: gateway::listen(port)?, ..Bootstrap::default() };
                plan.gateway(Core::Proxy, &bootstrap, &routes_json(origin_port, routes))?
            }
            Self::Nginx => start_nginx(plan, port, origin_port, routes)?,
            Self::Haproxy | Self::HaproxyTcp => {
                let folder = shell::fresh_folder()?;
                let paths = (0..routes).map(|n| format!("{}\n", route_path(n)));
                std::fs::write(folder.path().join("paths"), paths.collect::<String>())?;
                let mode = if self == Self::Haproxy { HAPROXY_HTTP } else { HAPROXY_TCP };
                let sections = format!(
                    "listen bench\n  bind 127.0.0.1:{port} backlog 4096\n{mode}  \
                     server origin 127.0.0.1:{origin_port}\n"
                );
                plan.haproxy_in(folder, &Haproxy { threads: 1, defaults: "", sections: &sections })?
            }
        };
        let start_time = program
            .wait_until_it_answers(port, &probe(&route_path(routes - 1), ""))
            .with_context(|| format!("{} with {routes} routes", self.name()))?;
        Ok(Proxy { peer: self, port, program, start_time })
    }
}

fn start_nginx(plan: &Plan, port: u16, origin_port: u16, routes: usize) -> Result<Program> {
    let upstreams = [Upstream { name: "origin", port: origin_port }];
    let nginx = Nginx {
        workers: 1,
        connections: 40_000,
        upstreams: &upstreams,
        kept: 320,
        http: "  proxy_buffers 8 64k;\n  proxy_busy_buffers_size 128k;\n  \
               proxy_max_temp_file_size 0;\n",
        server: &nginx_server(port, routes),
    };
    plan.nginx(Core::Proxy, &nginx)
}

fn nginx_server(port: u16, routes: usize) -> String {
    let mut server = format!("    listen 127.0.0.1:{port} backlog=4096;\n");
    for number in 0..routes {
        let path = route_path(number);
        server.push_str(&format!("    location = {path} {{ proxy_pass http://origin; }}\n"));
    }
    server
}

/// HAProxy settings for HTTP. Requests whose path is not in the map file are refused, so that
/// HAProxy must look up every path.
const HAPROXY_HTTP: &str = "  mode http\n  http-reuse always\n  \
                            http-request deny deny_status 404 unless { path -f paths }\n";
const HAPROXY_TCP: &str = "  mode tcp\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_gets_one_location_a_route() {
        assert_eq!(nginx_server(80, 100).matches("location = ").count(), 100);
    }

    #[test]
    fn peers_that_cannot_hold_the_routes_are_known() {
        let holds = |routes| Peer::all().into_iter().filter(move |p| p.can_hold(routes)).count();
        assert_eq!((holds(1), holds(100), holds(100_000)), (4, 3, 2));
    }
}
