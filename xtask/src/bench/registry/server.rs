//! The registry of a measurement: it runs on the core of the program under test, with its store on
//! a disk, and single calls to it go over HTTP.

use crate::bench::client::{Connection, get_request};
use crate::bench::plan::Plan;
use crate::bench::process::{self, Running, free_port};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Code of the answer to every call that succeeded.
pub(super) const DONE: u64 = 200_000;
/// The namespace of the published files.
pub(in crate::bench) const NAMESPACE: &str = "default";

/// A running registry and its ports.
pub(super) struct Registry {
    running: Running,
    data: TempDir,
    pub(super) grpc: u16,
    pub(super) http: u16,
    /// Port of the data plane in the registry's process.
    pub(super) gateway: u16,
}

impl Registry {
    /// Starts a registry; `resources` are those of its gateway.
    pub(super) fn start(plan: &Plan, resources: &Value) -> Result<Self> {
        let data = process::folder_on_disk()?;
        let folder = process::fresh_folder()?;
        let (grpc, http, gateway) = (free_port()?, free_port()?, free_port()?);
        std::fs::write(folder.path().join("resources.json"), resources.to_string())?;
        let text = bootstrap(data.path(), folder.path(), [grpc, http, gateway, free_port()?]);
        std::fs::write(folder.path().join("tollhouse.yaml"), text)?;
        let mut command = plan.cores.on_proxy_core(&plan.binary.display().to_string());
        command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
        let mut running = Running::start(command, folder)?;
        running.wait_until_it_answers(http, "/")?;
        // The registry listens first, because other programs may wait for it before the gateway is
        // ready.
        running.wait_until_it_listens(gateway)?;
        Ok(Self { running, data, grpc, http, gateway })
    }

    /// Returns the folder of the registry's store.
    pub(super) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns the CPU time that the registry has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        self.running.cpu_time()
    }

    /// Returns the memory that the registry holds, in MiB.
    pub(super) fn memory_mib(&self) -> Result<f64> {
        Ok(self.running.memory_bytes()? as f64 / f64::from(1 << 20))
    }

    /// Opens a connection for single calls.
    pub(super) fn caller(&self) -> Result<Caller> {
        Caller::open(self.http)
    }
}

/// Client for single calls over HTTP, one after the other.
pub(in crate::bench) struct Caller {
    connection: Connection,
}

impl Caller {
    /// Connects to the registry's HTTP port.
    pub(in crate::bench) fn open(port: u16) -> Result<Self> {
        Ok(Self { connection: Connection::open(port)? })
    }

    /// Returns the number of visible instances of a service.
    pub(in crate::bench) fn instance_count(&mut self, service: &str) -> Result<usize> {
        let service = json!({ "name": service, "namespace": NAMESPACE });
        let question = json!({ "type": "INSTANCE", "service": service });
        let (_, answer) = self.ask("Discover", &question)?;
        Ok(answer["instances"].as_array().map_or(0, Vec::len))
    }

    /// Makes one call, whose answer must have the code 200000.
    pub(in crate::bench) fn call(&mut self, method: &str, body: &Value) -> Result<Value> {
        let (code, answer) = self.ask(method, body)?;
        if code != Some(DONE) {
            bail!("{method} was answered with {answer:.300}");
        }
        Ok(answer)
    }

    fn ask(&mut self, method: &str, body: &Value) -> Result<(Option<u64>, Value)> {
        let body = body.to_string();
        let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let request = get_request(&format!("/v1/{method}"), &lines).replacen("GET", "POST", 1);
        self.connection.send(request.as_bytes())?;
        self.connection.send(body.as_bytes())?;
        let (_, answer) = self.connection.receive_answer()?;
        let answer: Value =
            serde_json::from_slice(&answer).context("an answer that is not JSON")?;
        Ok((answer["code"].as_u64(), answer))
    }

    /// Returns the answer with the instances of a service.
    pub(super) fn discover(&mut self, service: &str) -> Result<Value> {
        let service = json!({ "name": service, "namespace": NAMESPACE });
        self.call("Discover", &json!({ "type": "INSTANCE", "service": service }))
    }
}

fn bootstrap(data: &Path, folder: &Path, ports: [u16; 4]) -> String {
    let [grpc, http, gateway, metrics] = ports;
    let (data, folder) = (data.display(), folder.display());
    format!(
        "data_dir: {data}\n\
         workers: 1\n\
         listen:\n  http: [\"127.0.0.1:{gateway}\"]\n  https: []\n  admin: \"\"\n  control: \"\"\n  \
         metrics: \"127.0.0.1:{metrics}\"\n  registry_grpc: \"127.0.0.1:{grpc}\"\n  \
         registry_http: \"127.0.0.1:{http}\"\n\
         registry: {{ workers: 1 }}\n\
         resources: {folder}/resources.json\n\
         access_log: {{ format: \"off\", file: \"{folder}/access.log\" }}\n"
    )
}
