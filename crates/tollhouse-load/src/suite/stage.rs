//! Test bed of a suite: programs on loopback, their configurations and cores. Dropping the stage
//! ends the programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::BenchError;
use crate::report::Environment;
use crate::resource::{Selector, Watched};
use crate::suite::Options;
use crate::suite::cores::Cores;
use crate::suite::gateway::{self, RegistryPorts, Resources};
use crate::suite::peer::{Peer, Proxy, Running, Upstream};
use crate::suite::program::{Program, free_port};
use crate::suite::shenyu_gateway::{self, Connections};
use crate::target;

/// Running program that answers requests.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// Port on the loopback address.
    pub(super) port: u16,
    /// Process to sample, with its role in the report.
    pub(super) watched: Watched,
    /// URL of a server not started by the suite, used instead of a local path.
    running_at: Option<String>,
    /// Whether the server becomes faster with use, as with just-in-time compilation.
    pub(super) warms_up: bool,
}

impl Server {
    /// Returns the URL of a path.
    pub(super) fn url(&self, path: &str) -> String {
        let here = || format!("http://127.0.0.1:{}{path}", self.port);
        self.running_at.clone().unwrap_or_else(here)
    }
}

/// Name of the subject in reports, and its server.
pub(super) type Subject = (String, Server);

#[derive(Debug)]
pub(super) struct Stage {
    /// First field, because fields are dropped in order and the programs must end before the folder
    /// is removed.
    programs: Vec<Program>,
    folder: tempfile::TempDir,
    program: std::path::PathBuf,
    cores: Cores,
    configurations: BTreeMap<String, String>,
    environment: Environment,
    /// Required port of the upstream, if a running peer already forwards to it.
    upstream_port: Option<u16>,
}

impl Stage {
    /// Creates an empty stage; the gateways get at most `gateway_cores_max` cores.
    pub(super) fn new(options: &Options, gateway_cores_max: usize) -> Result<Self, BenchError> {
        let running = options.peers.iter().find_map(|peer| match peer {
            Peer::Running(Running { name, .. }) => Some(name),
            Peer::Proxy(_) | Peer::Shenyu => None,
        });
        if let Some(name) = running.filter(|_| options.upstream_port.is_none()) {
            return Err(BenchError::Machine(format!(
                "{name} runs already: say with --upstream-port which port on this machine it leads to, and the \
                 upstream is started there"
            )));
        }
        let folder = tempfile::tempdir().map_err(|error| BenchError::System {
            doing: "making a folder for configurations".into(),
            error,
        })?;
        Ok(Self {
            programs: Vec::new(),
            folder,
            program: options.program.clone(),
            cores: Cores::split(gateway_cores_max),
            configurations: BTreeMap::new(),
            environment: Environment::collect(),
            upstream_port: options.upstream_port,
        })
    }

    /// Returns the environment, with the versions of the started programs.
    pub(super) fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// Returns the configuration files of the started programs.
    pub(super) fn configurations(&self) -> &BTreeMap<String, String> {
        &self.configurations
    }

    /// Returns a sentence about the cores for the report.
    pub(super) fn sentence(&self) -> String {
        self.cores.sentence()
    }

    /// Runs a closure on the cores of the load.
    pub(super) fn on_load_cores<T>(&self, work: impl FnOnce() -> T) -> T {
        self.cores.on(&self.cores.load, work)
    }

    /// Returns the port of the upstream.
    fn upstream_port(&self) -> Result<u16, BenchError> {
        self.upstream_port.map_or_else(free_port, Ok)
    }

    /// Starts the mock upstream as a child process.
    pub(super) fn mock(&mut self, arguments: &[&str], path: &str) -> Result<Server, BenchError> {
        let port = self.upstream_port()?;
        let mut command = Command::new(&self.program);
        command.args(["mock", "--listen", &format!("127.0.0.1:{port}")]).args(arguments);
        command.args(["--workers", &self.cores.load.len().to_string()]);
        let cores = self.cores.load.clone();
        self.start("upstream", &cores, command, port, &request(path, ""))
    }

    /// Starts a user's server as the direct baseline, with a shell command that contains `{port}`.
    pub(super) fn command(&mut self, line: &str, path: &str) -> Result<Server, BenchError> {
        let port = self.upstream_port()?;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {}", line.replace("{port}", &port.to_string()))]);
        let cores = self.cores.load.clone();
        self.start("upstream", &cores, command, port, &request(path, ""))
    }

    /// Starts Tollhouse with resources and waits until `probe` is answered with 200.
    pub(super) fn gateway(
        &mut self,
        name: &str,
        resources: &Resources,
        probe: &str,
    ) -> Result<Server, BenchError> {
        let (port, metrics_port) = (free_port()?, free_port()?);
        let folder = self.folder.path().join(format!("gateway-{}", self.programs.len()));
        self.write(
            &folder,
            &format!("{name}/resources.json"),
            "resources.json",
            &resources.text(),
        )?;
        let bootstrap = gateway::bootstrap(&folder, port, metrics_port, self.cores.gateway.len());
        self.write(&folder, &format!("{name}/tollhouse.yaml"), "tollhouse.yaml", &bootstrap)?;
        let mut command = Command::new(&self.program);
        command.args(["run", "--config"]).arg(folder.join("tollhouse.yaml"));
        let cores = self.cores.gateway.clone();
        self.start(name, &cores, command, port, probe)
    }

    /// Starts Tollhouse as a registry; the returned port is that of gRPC.
    pub(super) fn registry(&mut self, name: &str) -> Result<Server, BenchError> {
        let ports = RegistryPorts {
            grpc: free_port()?,
            http: free_port()?,
            gateway: free_port()?,
            metrics: free_port()?,
        };
        let folder = self.folder.path().join(format!("registry-{}", self.programs.len()));
        self.write(&folder, &format!("{name}/resources.json"), "resources.json", "{}")?;
        let bootstrap = gateway::registry_bootstrap(&folder, ports, self.cores.gateway.len());
        self.write(&folder, &format!("{name}/tollhouse.yaml"), "tollhouse.yaml", &bootstrap)?;
        let mut command = Command::new(&self.program);
        command.args(["run", "--config"]).arg(folder.join("tollhouse.yaml"));
        let cores = self.cores.gateway.clone();
        let server = self.start(name, &cores, command, ports.http, &request("/", ""))?;
        Ok(Server { port: ports.grpc, ..server })
    }

    /// Starts peers in front of an upstream, except those already running.
    pub(super) fn peers(
        &mut self,
        peers: &[Peer],
        upstream: &Upstream<'_>,
    ) -> Result<Vec<Subject>, BenchError> {
        let mut subjects = Vec::new();
        for peer in peers {
            match peer {
                Peer::Proxy(proxy) => subjects.push(self.proxy(*proxy, upstream)?),
                Peer::Shenyu => {
                    for connections in Connections::ALL {
                        subjects.push(self.shenyu(connections, upstream)?);
                    }
                }
                Peer::Running(running) => subjects.push(found(running)?),
            }
        }
        Ok(subjects)
    }

    fn proxy(&mut self, proxy: Proxy, upstream: &Upstream<'_>) -> Result<Subject, BenchError> {
        let port = free_port()?;
        let name = proxy.name();
        let folder = self.folder.path().join(name);
        let text = proxy.configuration(port, self.cores.gateway.len(), upstream);
        let file = proxy.file_name();
        self.write(&folder, &format!("{name}/{file}"), file, &text)?;
        let command = proxy.command(&folder)?;
        if let Some(version) = proxy.version() {
            self.environment.versions.insert(name.to_owned(), version);
        }
        let cores = self.cores.gateway.clone();
        let server = self.start(name, &cores, command, port, &request(upstream.path, ""))?;
        Ok((name.to_owned(), server))
    }

    /// Starts ShenYu's own gateway and configures it to forward to the upstream.
    fn shenyu(
        &mut self,
        connections: Connections,
        upstream: &Upstream<'_>,
    ) -> Result<Subject, BenchError> {
        let port = free_port()?;
        let mut command = shenyu_gateway::command()?;
        let settings = connections.settings(port);
        command.args(&settings);
        let name = connections.subject();
        self.configurations.insert(format!("{name}/arguments"), settings.join("\n"));
        self.environment.versions.insert("shenyu".into(), shenyu_gateway::VERSION.into());
        let cores = self.cores.gateway.clone();
        // The gateway answers every request with 200, even without a route.
        let probe = request(upstream.path, "");
        let server = self.start(name, &cores, command, port, &probe)?;
        shenyu_gateway::set_up(port, upstream)?;
        Ok((name.to_owned(), Server { warms_up: true, ..server }))
    }

    fn write(
        &mut self,
        folder: &Path,
        shown: &str,
        file: &str,
        text: &str,
    ) -> Result<(), BenchError> {
        let failed = |error: std::io::Error| BenchError::System {
            doing: format!("writing {}", folder.join(file).display()),
            error,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        fs::write(folder.join(file), text).map_err(failed)?;
        // The folder is temporary, so that its path is removed from the texts.
        let place = folder.display().to_string();
        self.configurations.insert(shown.to_owned(), text.replace(&place, "."));
        Ok(())
    }

    fn start(
        &mut self,
        name: &str,
        cores: &[usize],
        command: Command,
        port: u16,
        probe: &str,
    ) -> Result<Server, BenchError> {
        let folder = self.folder.path().to_owned();
        let program = self.cores.on(cores, || Program::start(name, &folder, command))?;
        program.wait_until_it_answers(port, probe)?;
        let role = if name == "upstream" { "upstream" } else { "target" };
        let watched = Watched::new(role, Selector::Pid(program.pid()));
        self.programs.push(program);
        Ok(Server { port, watched, running_at: None, warms_up: false })
    }
}

/// Describes a running gateway. Its processes are watched if it is on this machine.
fn found(running: &Running) -> Result<Subject, BenchError> {
    let Running { name, url } = running;
    let parsed = target::parse(url)
        .map_err(|error| BenchError::Target { target: url.clone(), why: error.to_string() })?;
    let is_here = matches!(&*parsed.host, "localhost" | "::1") || parsed.host.starts_with("127.");
    let processes = if is_here { Selector::Port(parsed.port) } else { Selector::Pids(Vec::new()) };
    let watched = Watched::new("target", processes);
    let server =
        Server { port: parsed.port, watched, running_at: Some(url.clone()), warms_up: true };
    Ok((name.clone(), server))
}

/// Builds a GET request with `Connection: close` and further header lines.
pub(super) fn request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}Connection: close\r\n\r\n")
}
