//! Settings of all cases: programs to measure, cores and durations. Also starts programs with these
//! settings. The list of cases is in `case.rs`.

use super::peer::Peer;
use crate::{gateway, shell};
use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tollhouse_testbed::{Bootstrap, Cores, Haproxy, Nginx, Program, free_port};

/// Number of rounds of a full run. The median of three rounds tolerates one disturbed round.
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);
const QUICK_ROUND: Duration = Duration::from_secs(2);

/// Number of open files that the cases need: two for each of 12,000 connections, and a reserve.
const OPEN_FILES_WANTED: u64 = 65_536;

/// Settings of every case.
pub(crate) struct Plan {
    /// The Tollhouse binary under test.
    pub(super) binary: PathBuf,
    pub(super) peers: Vec<Peer>,
    cores: Cores,
    pub(super) rounds: usize,
    pub(super) round: Duration,
    /// Whether cases do less work and fewer repetitions, for a first try.
    pub(super) is_quick: bool,
}

/// Duration of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// All rounds, as for published results.
    Full,
    /// A single short round per case, for a first try.
    Quick,
}

/// Core that a program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Core {
    /// Core of the program under test.
    Proxy,
    /// Core of everything else, this program included.
    Load,
    /// Both cores, of which the program shares one with the load.
    Both,
}

impl Plan {
    /// Checks the requirements, and moves this program to the core of the load.
    ///
    /// `program` returns the binary under test, which may have to be built, if it is one of the
    /// peers.
    pub(super) fn new(
        peers: Vec<Peer>,
        length: Length,
        program: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<Self> {
        for program in ["nginx", "wrk"] {
            shell::find_program(program)
                .with_context(|| format!("{program} is missing; run `cargo x install`"))?;
        }
        let binary = if peers.contains(&Peer::Tollhouse) { program()? } else { PathBuf::new() };
        raise_open_files_limit();
        let cores = Cores::pair();
        if cores.are_shared() {
            println!("only one core: load and proxy share it, figures are not comparable");
        }
        // This program runs on the core of the load, because its work during a measurement is part
        // of the load.
        cores.move_to_load();
        let (rounds, round) = match length {
            Length::Full => (ROUNDS, ROUND),
            Length::Quick => (1, QUICK_ROUND),
        };
        Ok(Self { binary, peers, cores, rounds, round, is_quick: length == Length::Quick })
    }

    /// Starts a program on this core; its files are in `folder`.
    pub(crate) fn start(
        &self,
        name: &str,
        core: Core,
        folder: TempDir,
        command: Command,
    ) -> Result<Program> {
        let cores = match core {
            Core::Proxy => self.cores.gateway.clone(),
            Core::Load => self.cores.load.clone(),
            Core::Both => self.cores.both(),
        };
        Ok(Cores::on(&cores, || Program::start_in(name, folder, command))?)
    }

    /// Starts Tollhouse as a gateway with these resources.
    pub(crate) fn gateway(
        &self,
        core: Core,
        bootstrap: &Bootstrap<'_>,
        resources: &str,
    ) -> Result<Program> {
        let folder = shell::fresh_folder()?;
        let mut command = Command::new(&self.binary);
        command.args(["run", "--config"]);
        command.arg(gateway::write(folder.path(), bootstrap, resources)?);
        self.start("tollhouse", core, folder, command)
    }

    /// Starts nginx.
    pub(crate) fn nginx(&self, core: Core, nginx: &Nginx<'_>) -> Result<Program> {
        let folder = shell::fresh_folder()?;
        self.nginx_in(core, folder, nginx)
    }

    /// Starts nginx with further files in its folder.
    pub(crate) fn nginx_in(
        &self,
        core: Core,
        folder: TempDir,
        nginx: &Nginx<'_>,
    ) -> Result<Program> {
        std::fs::write(folder.path().join(Nginx::FILE), nginx.text())?;
        let command = Nginx::command(folder.path())?;
        self.start("nginx", core, folder, command)
    }

    /// Starts HAProxy with further files in its folder.
    pub(crate) fn haproxy_in(&self, folder: TempDir, haproxy: &Haproxy<'_>) -> Result<Program> {
        std::fs::write(folder.path().join(Haproxy::FILE), haproxy.text())?;
        let command = Haproxy::command(folder.path())?;
        self.start("haproxy", Core::Proxy, folder, command)
    }

    /// Starts Tollhouse's mock upstream, which also echoes gRPC messages. Returns its port.
    pub(crate) fn mock(&self, core: Core) -> Result<(u16, Program)> {
        let port = free_port()?;
        let mut command = Command::new(&self.binary);
        command.args(["mock", "--workers", "1", "--listen", &format!("127.0.0.1:{port}")]);
        let program = self.start("mock", core, shell::fresh_folder()?, command)?;
        program.wait_until_it_listens(port)?;
        Ok((port, program))
    }
}

/// Allows this program and its children as many open connections as the system permits.
fn raise_open_files_limit() {
    let raise = |limit: Option<u64>| {
        let raised = Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(Resource::Nofile, raised)
    };
    let permitted = rustix::process::getrlimit(Resource::Nofile).maximum;
    // Only a privileged process may exceed its hard limit.
    let raised = raise(Some(OPEN_FILES_WANTED)).or_else(|_| raise(permitted));
    if let Err(error) = raised {
        println!("the limit of open files stays as it is: {error}");
    }
}
