//! Processes of a cluster: the database and Redis, and the nodes that share them.

use crate::client::probe;
use crate::gateway::{self, ADMIN_KEY};
use crate::plan::{Core, Plan};
use crate::registry::Caller;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tollhouse_testbed::{Bootstrap, Listen, Program, free_port};
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

/// Running node, with the folder of its configuration and its name in the cluster.
pub(super) struct Node {
    program: Option<Program>,
    home: TempDir,
    pub(super) ports: Listen,
}

impl Node {
    /// Starts a registry node; `resources` are those of the gateway in the same process.
    pub(super) fn start_registry(
        plan: &Plan,
        engines: &Engines,
        resources: &Value,
    ) -> Result<Self> {
        let ports = Listen {
            registry_grpc: free_port()?,
            registry_http: free_port()?,
            ..gateway::listen(free_port()?)?
        };
        let settings = &engines.settings();
        let bootstrap = Bootstrap { listen: ports, settings, ..Bootstrap::default() };
        Self::with(plan, &bootstrap, &resources.to_string())
    }

    /// Starts a gateway whose store is this etcd.
    pub(super) fn start_gateway(plan: &Plan, etcd: &Etcd) -> Result<Self> {
        let ports = Listen { admin: free_port()?, ..gateway::listen(free_port()?)? };
        let settings = &format!(
            "encryption: {{ keyring: [\"qeddd145sfvddff3\"] }}\nstore:\n  etcd:\n    \
             endpoints: [\"{}\"]\nadmin: {{ key: {ADMIN_KEY} }}\n",
            etcd.url(),
        );
        let bootstrap =
            Bootstrap { listen: ports, has_resources: false, settings, ..Bootstrap::default() };
        Self::with(plan, &bootstrap, "")
    }

    fn with(plan: &Plan, bootstrap: &Bootstrap<'_>, resources: &str) -> Result<Self> {
        let home = shell::folder_on_disk()?;
        gateway::write(home.path(), bootstrap, resources)?;
        let mut node = Self { program: None, home, ports: bootstrap.listen };
        node.start(plan)?;
        Ok(node)
    }

    /// Starts the node, for the first time or again under its old name.
    pub(super) fn start(&mut self, plan: &Plan) -> Result<()> {
        let mut command = Command::new(&plan.binary);
        command.args(["run", "--config"]).arg(self.home.path().join("tollhouse.yaml"));
        let program = plan.start("node", Core::Proxy, shell::fresh_folder()?, command)?;
        if self.ports.registry_http != 0 {
            program.wait_until_it_answers(self.ports.registry_http, &probe("/", ""))?;
        }
        program.wait_until_it_listens(self.ports.http)?;
        if self.ports.admin != 0 {
            program.wait_until_it_listens(self.ports.admin)?;
        }
        self.program = Some(program);
        Ok(())
    }

    /// Kills the node without a shutdown.
    pub(super) fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.kill();
        }
    }

    /// Opens a connection to the node's registry for single calls.
    pub(super) fn caller(&self) -> Result<Caller> {
        Caller::open(self.ports.registry_http)
    }

    /// Returns the CPU time that the node has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        Ok(self.program.as_ref().context("the node does not run")?.cpu_time()?)
    }
}
