//! Test bed of a suite: programs on loopback, their configurations and cores. Dropping the stage
//! ends the programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tollhouse_testbed::{Bootstrap, Cores, Listen, Program, free_port};

use crate::case::{Case, Threshold};
use crate::error::BenchError;
use crate::plan::{DIRECT, PlannedCase};
use crate::report::Environment;
use crate::resource::{Selector, Watched};
use crate::suite::Options;
use crate::suite::peer::{Peer, Proxy, Running, Upstream};
use crate::suite::polaris_server;
use crate::suite::resources::Resources;
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

/// Measured server.
#[derive(Debug)]
pub(super) struct Subject {
    /// Name in reports.
    pub(super) name: String,
    pub(super) server: Server,
}

impl Subject {
    pub(super) fn new(name: &str, server: Server) -> Self {
        Self { name: name.to_owned(), server }
    }

    /// Creates a case with the checks of all proxy suites: status 200, a body of this length, and
    /// nearly no failures. The upstream is watched too, if the subject is not the upstream itself.
    pub(super) fn case(&self, upstream: &Server, path: &str, body_bytes: u64) -> PlannedCase {
        let mut case = Case::new(self.server.url(path));
        case.checks.status = vec![200];
        case.checks.body_bytes = Some(body_bytes);
        case.thresholds = Vec::from_iter("failure_rate < 0.1%".parse::<Threshold>());
        let mut watch = vec![upstream.watched.clone()];
        if self.name != DIRECT {
            watch.push(self.server.watched.clone());
        }
        PlannedCase { subject: self.name.clone(), case, watch }
    }
}

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
            Peer::Proxy(_) | Peer::Shenyu(_) | Peer::Polaris(_) | Peer::RunningPolaris(_) => None,
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
        Cores::on(&self.cores.load, work)
    }

    /// Returns the port of the upstream.
    fn upstream_port(&self) -> Result<u16, BenchError> {
        Ok(self.upstream_port.map_or_else(free_port, Ok)?)
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
        let listen = Listen { http: free_port()?, metrics: free_port()?, ..Listen::default() };
        let workers = self.cores.gateway.len();
        let bootstrap = Bootstrap { workers, listen, ..Bootstrap::default() };
        let command = self.tollhouse(name, &resources.text(), &bootstrap)?;
        let cores = self.cores.gateway.clone();
        self.start(name, &cores, command, listen.http, probe)
    }

    /// Starts Tollhouse as a registry; the returned port is that of gRPC.
    pub(super) fn registry(&mut self, name: &str) -> Result<Server, BenchError> {
        let listen = Listen {
            http: free_port()?,
            metrics: free_port()?,
            registry_grpc: free_port()?,
            registry_http: free_port()?,
            ..Listen::default()
        };
        let settings = format!("registry: {{ workers: {} }}\n", self.cores.gateway.len());
        let bootstrap = Bootstrap { listen, settings: &settings, ..Bootstrap::default() };
        let command = self.tollhouse(name, "{}", &bootstrap)?;
        let cores = self.cores.gateway.clone();
        let probe = request("/", "");
        let server = self.start(name, &cores, command, listen.registry_http, &probe)?;
        Ok(Server { port: listen.registry_grpc, ..server })
    }

    /// Writes the files of Tollhouse to a folder of its own, and returns the command that runs it.
    fn tollhouse(
        &mut self,
        name: &str,
        resources: &str,
        bootstrap: &Bootstrap<'_>,
    ) -> Result<Command, BenchError> {
        let folder = self.folder.path().join(format!("tollhouse-{}", self.programs.len()));
        let shown = |file: &str| format!("{name}/{file}");
        self.write(&folder, &shown("resources.json"), "resources.json", resources)?;
        let text = bootstrap.text(&folder);
        self.write(&folder, &shown("tollhouse.yaml"), "tollhouse.yaml", &text)?;
        let mut command = Command::new(&self.program);
        command.args(["run", "--config"]).arg(folder.join("tollhouse.yaml"));
        Ok(command)
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
                Peer::Shenyu(artifact) => {
                    for connections in Connections::ALL {
                        subjects.push(self.shenyu(artifact.as_deref(), connections, upstream)?);
                    }
                }
                Peer::Running(running) => subjects.push(found(running)?),
                // The suite has refused registries before anything was started.
                Peer::Polaris(_) | Peer::RunningPolaris(_) => {}
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
        let program = command.get_program().to_string_lossy().into_owned();
        self.environment =
            std::mem::take(&mut self.environment).with_program_version(name, &[&program, "-v"]);
        let cores = self.cores.gateway.clone();
        let server = self.start(name, &cores, command, port, &request(upstream.path, ""))?;
        Ok(Subject::new(name, server))
    }

    /// Starts Polaris' own server; the returned port is that of gRPC.
    pub(super) fn polaris(&mut self, program: &Path) -> Result<Server, BenchError> {
        let failed = |error: std::io::Error| BenchError::System {
            doing: format!("preparing {}", program.display()),
            error,
        };
        let folder = self.folder.path().join("polaris");
        let program = fs::canonicalize(program).map_err(failed)?;
        let configuration = polaris_server::copy(&program, &folder).map_err(failed)?;
        let shown = format!("polaris/{}", polaris_server::CONFIGURATION);
        self.configurations.insert(shown, configuration.text);
        let mut command = Command::new(&program);
        command.arg("start");
        let cores = self.cores.gateway.clone();
        let started = Cores::on(&cores, || Program::start("polaris", &folder, command))?;
        started.wait_until_it_answers(configuration.http_port, &request("/", ""))?;
        started.wait_until_it_listens(configuration.grpc_port)?;
        let watched = Watched::new("target", Selector::Pid(started.pid()));
        self.programs.push(started);
        Ok(Server { port: configuration.grpc_port, watched, running_at: None, warms_up: false })
    }

    /// Starts ShenYu's own gateway and configures it to forward to the upstream.
    fn shenyu(
        &mut self,
        artifact: Option<&Path>,
        connections: Connections,
        upstream: &Upstream<'_>,
    ) -> Result<Subject, BenchError> {
        let port = free_port()?;
        let shenyu_gateway::Gateway { mut command, version } = shenyu_gateway::gateway(artifact)?;
        let settings = connections.settings(port);
        command.args(&settings);
        let name = &connections.subject(&version);
        self.configurations.insert(format!("{name}/arguments"), settings.join("\n"));
        if !version.is_empty() {
            self.environment.versions.insert("shenyu".into(), version);
        }
        let cores = self.cores.gateway.clone();
        // The gateway answers every request with 200, even without a route.
        let probe = request(upstream.path, "");
        let server = self.start(name, &cores, command, port, &probe)?;
        shenyu_gateway::set_up(port, upstream)?;
        Ok(Subject::new(name, Server { warms_up: true, ..server }))
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
        let program = Cores::on(cores, || Program::start(name, &folder, command))?;
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
    Ok(Subject::new(name, server))
}

/// Builds a GET request with `Connection: close` and further header lines.
pub(super) fn request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}Connection: close\r\n\r\n")
}
