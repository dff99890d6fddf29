//! The database and Redis, and the nodes that share them.

use crate::bench::gateway::ADMIN_KEY;
use crate::bench::plan::Plan;
use crate::bench::process::{self, Running, free_port};
use crate::bench::registry::Caller;
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::Duration;
use tempfile::TempDir;
use tollhouse_testkit::{Database, Etcd, RedisServer};

/// A database that flushes every commit, and a Redis server.
pub(super) struct Engines {
    pub(super) database: Database,
    redis: RedisServer,
}

impl Engines {
    pub(super) fn start() -> Result<Self> {
        let database = Database::durable_mariadb().context("mariadbd is not installed")?;
        let redis = RedisServer::start(&[]).context("redis-server is not installed")?;
        Ok(Self { database, redis })
    }

    /// Returns the part of a registry node's bootstrap file that describes the engines.
    fn settings(&self) -> String {
        let (database, redis) = (self.database.address(), self.redis.port);
        format!(
            "registry:\n  workers: 1\n  store:\n    mysql: mysql://tollhouse@{database}/tollhouse\n    \
             tls: false\n    redis: redis://127.0.0.1:{redis}\n"
        )
    }
}

/// Ports that a node listens on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) grpc: u16,
    pub(super) http: u16,
    pub(super) gateway: u16,
    pub(super) admin: u16,
}

/// A node, with the folder of its configuration and name.
pub(super) struct Node {
    running: Option<Running>,
    home: TempDir,
    pub(super) ports: Ports,
}

impl Node {
    /// Starts a registry node, with these resources for its gateway.
    pub(super) fn start_registry(
        plan: &Plan,
        engines: &Engines,
        resources: &Value,
    ) -> Result<Self> {
        let ports =
            Ports { grpc: free_port()?, http: free_port()?, gateway: free_port()?, admin: 0 };
        let home = process::folder_on_disk()?;
        let place = home.path().display();
        std::fs::write(home.path().join("resources.json"), resources.to_string())?;
        let text = format!(
            "{}listen:\n  http: [\"127.0.0.1:{}\"]\n  https: []\n  admin: \"\"\n  control: \"\"\n  \
             metrics: \"127.0.0.1:{}\"\n  registry_grpc: \"127.0.0.1:{}\"\n  registry_http: \
             \"127.0.0.1:{}\"\nresources: {place}/resources.json\n",
            engines.settings(),
            ports.gateway,
            free_port()?,
            ports.grpc,
            ports.http,
        );
        Self::with(plan, home, ports, &text)
    }

    /// Starts a gateway on this etcd.
    pub(super) fn start_gateway(plan: &Plan, etcd: &Etcd) -> Result<Self> {
        let ports = Ports { grpc: 0, http: 0, gateway: free_port()?, admin: free_port()? };
        let home = process::folder_on_disk()?;
        let text = format!(
            "encryption: {{ keyring: [\"qeddd145sfvddff3\"] }}\nstore:\n  etcd:\n    endpoints: [\"{}\"]\nadmin: {{ key: {ADMIN_KEY} }}\nlisten:\n  http: \
             [\"127.0.0.1:{}\"]\n  https: []\n  admin: \"127.0.0.1:{}\"\n  control: \"\"\n  metrics: \
             \"127.0.0.1:{}\"\n  registry_grpc: \"\"\n  registry_http: \"\"\n",
            etcd.url(),
            ports.gateway,
            ports.admin,
            free_port()?,
        );
        Self::with(plan, home, ports, &text)
    }

    fn with(plan: &Plan, home: TempDir, ports: Ports, settings: &str) -> Result<Self> {
        let place = home.path().display();
        let text = format!(
            "{settings}data_dir: {place}/data\nworkers: 1\naccess_log: {{ format: \"off\", file: \
             \"{place}/access.log\" }}\n"
        );
        std::fs::write(home.path().join("tollhouse.yaml"), text)?;
        let mut node = Self { running: None, home, ports };
        node.start(plan)?;
        Ok(node)
    }

    /// Starts the node, for the first time or again under its old name.
    pub(super) fn start(&mut self, plan: &Plan) -> Result<()> {
        let mut command = plan.cores.on_proxy_core(&plan.binary.display().to_string());
        command.args(["run", "--config"]).arg(self.home.path().join("tollhouse.yaml"));
        let mut running = Running::start(command, process::fresh_folder()?)?;
        if self.ports.http != 0 {
            running.wait_until_it_answers(self.ports.http, "/")?;
        }
        running.wait_until_it_listens(self.ports.gateway)?;
        if self.ports.admin != 0 {
            running.wait_until_it_listens(self.ports.admin)?;
        }
        self.running = Some(running);
        Ok(())
    }

    /// Kills the node without a shutdown.
    pub(super) fn kill(&mut self) {
        if let Some(running) = &mut self.running {
            running.kill();
        }
        self.running = None;
    }

    /// Opens a connection to the node's registry for single calls.
    pub(super) fn caller(&self) -> Result<Caller> {
        Caller::open(self.ports.http)
    }

    /// Returns the CPU time that the node has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        self.running.as_ref().context("it does not run")?.cpu_time()
    }
}
