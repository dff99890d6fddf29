//! Builder of gateways: starts the process, and reads its addresses from its output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Folder, Gateway, Output};

/// Settings of a gateway to be started.
#[derive(Debug)]
pub struct GatewayBuilder {
    program: PathBuf,
    folder: Folder,
    data_plane: String,
    settings: Vec<(String, String)>,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    has_resources: bool,
    bootstrap_text: Option<String>,
    open_files: Option<(u32, u32)>,
}

/// Outcome of a gateway that failed to start.
#[derive(Debug)]
pub struct Failure {
    pub code: Option<i32>,
    /// Output of the process on both streams.
    pub text: String,
}

impl GatewayBuilder {
    pub(super) fn new(program: PathBuf) -> Self {
        let held = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        Self {
            program,
            folder: Folder { held, ending: "json" },
            data_plane: "127.0.0.1:0".to_owned(),
            settings: Vec::new(),
            flags: Vec::new(),
            variables: Vec::new(),
            has_resources: true,
            bootstrap_text: None,
            open_files: None,
        }
    }

    pub(super) fn beside(gateway: &Gateway) -> Self {
        let mut builder = Self::new(gateway.program.clone());
        builder.folder = gateway.folder.clone();
        builder.data_plane = gateway.address().to_string();
        if let Some(address) = gateway.tls {
            builder = builder.set("listen.https", &address.to_string());
        }
        builder.has_resources = gateway.admin.is_none();
        builder
    }

    /// Sets a key of the bootstrap configuration.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Enables TLS, on a port that the kernel chooses.
    pub fn tls(self) -> Self {
        self.set("listen.https", "127.0.0.1:0")
    }

    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the access log to standard output as JSON.
    pub fn log_requests(self) -> Self {
        self.set("access_log.format", "json").set("access_log.file", "-")
    }

    /// Enables the registry, on ports that the kernel chooses.
    pub fn registry(self) -> Self {
        self.set("listen.registry_grpc", "127.0.0.1:0").set("listen.registry_http", "127.0.0.1:0")
    }

    /// Sets the declarative document, written as JSON.
    pub fn resources(self, resources: &Value) -> Self {
        self.folder.replace_resources(&resources.to_string());
        self
    }

    /// Sets the declarative document, written as YAML.
    pub fn yaml(mut self, text: &str) -> Self {
        self.folder.ending = "yaml";
        self.folder.replace_resources(text);
        self
    }

    /// Starts without resources, so that the gateway shows its demonstration.
    pub fn without_resources(mut self) -> Self {
        self.has_resources = false;
        self
    }

    /// Lowers the soft and hard limits of open files.
    pub fn open_files(mut self, soft: u32, hard: u32) -> Self {
        self.open_files = Some((soft, hard));
        self
    }

    /// Replaces the bootstrap file that the builder would write.
    pub fn bootstrap_text(mut self, text: &str) -> Self {
        self.bootstrap_text = Some(text.to_owned());
        self
    }

    /// Starts the gateway and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not serve in time.
    pub fn start(self) -> Gateway {
        let (mut child, output) = self.spawn();
        let first = output.try_line(|line| address_in(line, "data plane"));
        let Some(first) = first else {
            // An error only means that it has ended already.
            let _ = child.kill();
            panic!("the gateway does not start; it printed:\n{}", output.text());
        };
        let control = output.wait_line("the control API", |line| address_in(line, "control"));
        let metrics = output.wait_line("the metrics", |line| address_in(line, "metrics"));
        output.wait_line("the resources", |line| line.contains("  resources").then_some(()));
        let admin = output.text().lines().find_map(|line| address_in(line, "admin"));
        let (program, folder) = (self.program, self.folder);
        let tls = output.text().lines().find_map(|line| {
            let is_tls = line.contains("  data plane  https://");
            is_tls.then(|| address_in(line, "data plane")).flatten()
        });
        Gateway { program, child, folder, data_plane: first, tls, admin, control, metrics, output }
    }

    /// Starts the gateway and waits until it ends.
    ///
    /// # Panics
    ///
    /// If it keeps running.
    pub fn fail(&self) -> Failure {
        let (mut child, output) = self.spawn();
        output.wait_end();
        let status = child.wait().expect("a child can be waited for");
        Failure { code: status.code(), text: output.text() }
    }

    fn spawn(&self) -> (std::process::Child, Output) {
        let path = self.folder.path().join("bootstrap.yaml");
        // JSON is valid YAML.
        let text = self.bootstrap_text.clone().unwrap_or_else(|| self.bootstrap().to_string());
        std::fs::write(&path, text).expect("the folder takes files");
        let mut command = match self.open_files {
            None => Command::new(&self.program),
            Some((soft, hard)) => {
                let mut shell = Command::new("sh");
                let script = format!("ulimit -Sn {soft}; ulimit -Hn {hard}; exec \"$0\" \"$@\"");
                shell.arg("-c").arg(script).arg(&self.program);
                shell
            }
        };
        command.arg("run").arg("--config").arg(&path);
        for (key, value) in &self.settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.args(&self.flags).stdin(Stdio::null());
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("the program can be started");
        let output = Output::default();
        output.follow(child.stdout.take().expect("the output is piped"));
        output.follow(child.stderr.take().expect("the errors are piped"));
        (child, output)
    }

    /// Returns the bootstrap configuration. It has one worker, so that tests can predict the order
    /// of round-robin turns.
    fn bootstrap(&self) -> Value {
        let mut bootstrap = json!({
            "data_dir": self.folder.path(),
            "workers": 1,
            "listen": {
                "http": [self.data_plane], "control": "127.0.0.1:0", "metrics": "127.0.0.1:0",
                "https": [], "admin": [], "registry_grpc": [], "registry_http": [],
            },
        });
        if self.has_resources {
            bootstrap["resources"] = json!(self.folder.resources());
        } else {
            bootstrap["listen"]["admin"] = json!("127.0.0.1:0");
        }
        bootstrap
    }
}

/// Parses the address in a line such as `  control     http://127.0.0.1:9090/v1/configuration`.
fn address_in(line: &str, name: &str) -> Option<SocketAddr> {
    let rest = line.trim_start().strip_prefix(name)?.trim_start();
    let rest = rest.strip_prefix("http://").or(rest.strip_prefix("https://"))?;
    rest.split('/').next()?.parse().ok()
}
