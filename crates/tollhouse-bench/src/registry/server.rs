//! Registry under test, and a client for single calls over HTTP. The registry runs on the core of
//! the program under test, with its store on a disk.

use crate::client::{Connection, probe};
use crate::gateway;
use crate::plan::{Core, Plan};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tollhouse_testbed::{Bootstrap, Listen, Program, free_port};

/// Code in the answer to a call that succeeded.
pub(super) const DONE: u64 = 200_000;
/// Namespace in the files of the published report.
pub(crate) const NAMESPACE: &str = "default";

/// A running registry and its ports.
pub(super) struct Registry {
    program: Program,
    data: TempDir,
    pub(super) grpc: u16,
    pub(super) http: u16,
    /// Port of the data plane in the registry's process.
    pub(super) gateway: u16,
}

impl Registry {
    /// Starts a registry; `resources` are those of its gateway.
    pub(super) fn start(plan: &Plan, resources: &Value) -> Result<Self> {
        let data = shell::folder_on_disk()?;
        let listen = Listen {
            registry_grpc: free_port()?,
            registry_http: free_port()?,
            ..gateway::listen(free_port()?)?
        };
        let Listen { registry_grpc: grpc, registry_http: http, http: gateway, .. } = listen;
        let settings = "registry: { workers: 1 }\n";
        let bootstrap =
            Bootstrap { data: Some(data.path()), listen, settings, ..Bootstrap::default() };
        let program = plan.gateway(Core::Proxy, &bootstrap, &resources.to_string())?;
        program.wait_until_it_answers(http, &probe("/", ""))?;
        // The registry listens first, because other programs may wait for it before the gateway is
        // ready.
        program.wait_until_it_listens(gateway)?;
        Ok(Self { program, data, grpc, http, gateway })
    }

    /// Returns the folder of the registry's store.
    pub(super) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns the CPU time that the registry has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        Ok(self.program.cpu_time()?)
    }

    /// Returns the memory that the registry uses, in MiB.
    pub(super) fn memory_mib(&self) -> Result<f64> {
        Ok(self.program.memory_bytes()? as f64 / f64::from(1 << 20))
    }

    /// Opens a connection for single calls.
    pub(super) fn caller(&self) -> Result<Caller> {
        Caller::open(self.http)
    }
}

/// Client for single calls over HTTP, one after the other.
pub(crate) struct Caller {
    connection: Connection,
}

impl Caller {
    /// Connects to the registry's HTTP port.
    pub(crate) fn open(port: u16) -> Result<Self> {
        Ok(Self { connection: Connection::open(port)? })
    }

    /// Returns the number of visible instances of a service.
    pub(crate) fn instance_count(&mut self, service: &str) -> Result<usize> {
        let service = json!({ "name": service, "namespace": NAMESPACE });
        let question = json!({ "type": "INSTANCE", "service": service });
        let (_, answer) = self.ask("Discover", &question)?;
        Ok(answer["instances"].as_array().map_or(0, Vec::len))
    }

    /// Makes one call, whose answer must have the code 200000.
    pub(crate) fn call(&mut self, method: &str, body: &Value) -> Result<Value> {
        let (code, answer) = self.ask(method, body)?;
        if code != Some(DONE) {
            bail!("{method} was answered with {answer:.300}");
        }
        Ok(answer)
    }

    fn ask(&mut self, method: &str, body: &Value) -> Result<(Option<u64>, Value)> {
        let (_, answer) = self.connection.send_json(&format!("POST /v1/{method}"), "", body)?;
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
