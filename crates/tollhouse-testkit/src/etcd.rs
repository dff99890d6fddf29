//! Private etcd for tests: a single member or a cluster of three, each in a temporary folder, that
//! can be killed, paused, emptied and restarted.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::patience::wait_for;
use crate::ports::ReservedPort;
use crate::program::{self, Ran};
use crate::relay::{Network, Relay};

/// Member of etcd with a temporary folder.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: TempDir,
    name: String,
    /// All members with their peer addresses, in the format of `--initial-cluster`.
    members: String,
    /// Quota in bytes; etcd's default if `None`.
    quota: Option<usize>,
    client: ReservedPort,
    peer: ReservedPort,
    /// Relay through which other members reach this one, if any.
    relay: Option<Relay>,
    /// Port of the health and metrics endpoints, without TLS.
    metrics: ReservedPort,
    is_secured: bool,
    /// Whether the process has the lowest priority.
    gives_way: bool,
    child: Option<Child>,
}

/// PEM certificates of an etcd that requires TLS client certificates from the server's authority.
#[derive(Debug)]
pub struct EtcdCertificates<'a> {
    pub authority: &'a str,
    /// Server's chain for 127.0.0.1, and its key.
    pub server: (&'a str, &'a str),
    /// Client's chain and key, for [`Etcd::control`].
    pub client: (&'a str, &'a str),
}

impl Etcd {
    /// Starts a member. Returns `None`, with a message, if etcd is not installed.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn start() -> Option<Self> {
        Self::start_with(None, None)
    }

    /// Prepares a member without starting it; [`Etcd::run`] does.
    pub fn prepare() -> Option<Self> {
        let mut etcd = Self::new("only")?;
        etcd.members = etcd.membership();
        Some(etcd)
    }

    /// Starts a member with its data on disk, as measurements need. Others use memory if possible,
    /// because three members that wait for a busy disk keep electing new leaders.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn durable() -> Option<Self> {
        let mut etcd = Self::new("only")?;
        etcd.folder = tempfile::tempdir().expect("a temporary folder");
        etcd.members = etcd.membership();
        etcd.run();
        Some(etcd)
    }

    /// Starts a member with a quota in bytes.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn start_with_quota(bytes: usize) -> Option<Self> {
        Self::start_with(None, Some(bytes))
    }

    /// Starts a member with TLS.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn start_secured(certificates: &EtcdCertificates<'_>) -> Option<Self> {
        Self::start_with(Some(certificates), None)
    }

    fn new(name: &str) -> Option<Self> {
        Some(Self {
            program: program::find("etcd")?,
            folder: folder(),
            name: name.to_owned(),
            members: String::new(),
            quota: None,
            client: ReservedPort::new(),
            peer: ReservedPort::new(),
            relay: None,
            metrics: ReservedPort::new(),
            is_secured: false,
            gives_way: false,
            child: None,
        })
    }

    fn start_with(
        certificates: Option<&EtcdCertificates<'_>>,
        quota: Option<usize>,
    ) -> Option<Self> {
        let mut etcd = Self::prepare()?;
        (etcd.is_secured, etcd.quota) = (certificates.is_some(), quota);
        if let Some(certificates) = certificates {
            for (name, text) in [
                ("ca.pem", certificates.authority),
                ("server.pem", certificates.server.0),
                ("server.key", certificates.server.1),
                ("client.pem", certificates.client.0),
                ("client.key", certificates.client.1),
            ] {
                std::fs::write(etcd.file(name), text).expect("the folder can be written");
            }
        }
        etcd.run();
        Some(etcd)
    }

    /// Returns the path of a file in its folder. With TLS these include `ca.pem`, `client.pem` and
    /// `client.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn url(&self) -> String {
        let scheme = if self.is_secured { "https" } else { "http" };
        format!("{scheme}://{}", self.client.address())
    }

    /// Runs `etcdctl`. Returns `None`, with a message, if it is not installed.
    ///
    /// # Panics
    ///
    /// If the command fails.
    pub fn control(&self, arguments: &[&str]) -> Option<()> {
        let ran = self.try_control(arguments)?;
        assert!(ran.status.success(), "etcdctl {arguments:?}: {}", ran.text);
        Some(())
    }

    /// Runs `etcdctl` with a command that may fail.
    pub fn try_control(&self, arguments: &[&str]) -> Option<Ran> {
        let mut command = Command::new(program::find("etcdctl")?);
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.url()]);
        if self.is_secured {
            for (flag, name) in
                [("--cacert", "ca.pem"), ("--cert", "client.pem"), ("--key", "client.key")]
            {
                command.arg(flag).arg(self.file(name));
            }
        }
        Some(program::run(command.args(arguments)))
    }

    /// Restarts the member without its data, as after the loss of its disk.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn lose_everything(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("it is ours");
        self.run();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn membership(&self) -> String {
        format!("{}={}", self.name, self.advertised())
    }

    /// Returns the URL for other members.
    fn advertised(&self) -> String {
        let address = self.relay.as_ref().map_or(self.peer.address(), Relay::address);
        format!("http://{address}")
    }

    /// Kills the member, as in a loss of power.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
    }

    /// Gives the member the lowest priority from its next start on, so that it disturbs
    /// measurements of other processes as little as on another machine.
    pub fn give_way(&mut self) {
        self.gives_way = true;
    }

    /// Copies the data of a stopped member. [`Etcd::put_back`] returns to this copy.
    ///
    /// # Panics
    ///
    /// If the folder cannot be copied.
    pub fn copy(&self) {
        assert!(self.child.is_none(), "the data of a running member cannot be copied");
        copy_folder(&self.file("data"), &self.file("copy"));
    }

    /// Replaces the data by the copy, as restoring a snapshot does.
    ///
    /// # Panics
    ///
    /// If the copy is missing, or the member runs.
    pub fn put_back(&self) {
        assert!(self.child.is_none(), "it does not run");
        std::fs::remove_dir_all(self.file("data")).expect("it is ours");
        std::fs::rename(self.file("copy"), self.file("data")).expect("both are in one folder");
    }

    /// Restarts the member with its ports and data, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn run(&mut self) {
        self.spawn();
        self.wait();
    }

    fn wait(&self) {
        wait_for("etcd to answer", || self.is_healthy().then_some(()));
    }

    fn spawn(&mut self) {
        let client = self.url();
        let peer = format!("http://{}", self.peer.address());
        let mut command = match self.gives_way {
            true => Command::new("nice"),
            false => Command::new(&self.program),
        };
        if self.gives_way {
            command.args(["-n", "19"]).arg(&self.program);
        }
        command
            .args(["--name", &self.name, "--log-level", "error"])
            // A tenth of etcd's defaults, so that tests wait less for a new leader.
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .arg("--data-dir")
            .arg(self.data())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &self.advertised()])
            .args(["--initial-cluster", &self.members])
            .args(["--listen-metrics-urls", &format!("http://{}", self.metrics.address())])
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(bytes) = self.quota {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        if self.is_secured {
            command.arg("--client-cert-auth");
            for (flag, name) in [
                ("--trusted-ca-file", "ca.pem"),
                ("--cert-file", "server.pem"),
                ("--key-file", "server.key"),
            ] {
                command.arg(flag).arg(self.file(name));
            }
        }
        self.child = Some(command.spawn().expect("etcd can be started"));
    }

    /// Stops the process until [`Etcd::wake`]: connections are accepted, but not answered.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn pause(&self) {
        program::pause(self.child.as_ref().expect("it runs").id());
    }

    /// Resumes the stopped process.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn wake(&self) {
        program::wake(self.child.as_ref().expect("it runs").id());
    }

    /// Whether the member considers itself the leader.
    pub fn leads(&self) -> bool {
        self.ask("/metrics").is_some_and(|answer| answer.contains("\netcd_server_is_leader 1\n"))
    }

    fn is_healthy(&self) -> bool {
        self.ask("/health").is_some_and(|answer| answer.contains("true"))
    }

    /// Fetches a page of the metrics endpoint; `None` on failure.
    fn ask(&self, path: &str) -> Option<String> {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(self.metrics.address()).ok()?;
        // A stopped process accepts the request but never answers.
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).ok()?;
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

/// Cluster of three etcd processes on loopback.
#[derive(Debug)]
pub struct EtcdCluster {
    pub members: Vec<Etcd>,
    /// Network between the members, if it can be cut.
    network: Option<Network>,
}

impl EtcdCluster {
    /// Starts a cluster. Returns `None`, with a message, if etcd is not installed.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn start() -> Option<Self> {
        Self::start_on(None)
    }

    /// Starts a cluster whose network can be cut.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn start_apart() -> Option<Self> {
        Self::start_on(Some(Network::default()))
    }

    fn start_on(network: Option<Network>) -> Option<Self> {
        let members: Option<Vec<Etcd>> = ["a", "b", "c"].into_iter().map(Etcd::new).collect();
        let mut members = members?;
        for (place, member) in members.iter_mut().enumerate() {
            let peer = member.peer.address();
            member.relay = network.as_ref().map(|network| network.relay(place, peer));
        }
        let all: Vec<String> = members.iter().map(Etcd::membership).collect();
        for member in &mut members {
            member.members = all.join(",");
            member.spawn();
        }
        members.iter().for_each(Etcd::wait);
        Some(Self { members, network })
    }

    /// Disconnects a member from the others; clients still reach it. Returns `None`, with a
    /// message, if `etcdctl` is not installed, which maps members to their ids.
    ///
    /// # Panics
    ///
    /// If `etcdctl` does not list a member, or the network cannot be cut.
    pub fn cut_off(&self, member: usize) -> Option<()> {
        let network = self.network.as_ref().expect("they were started apart");
        for (place, other) in self.members.iter().enumerate() {
            let name = format!(" {}, ", other.name);
            let listed = other.try_control(&["member", "list"])?.text;
            let line = listed.lines().find(|line| line.contains(&name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {listed}"));
            network.learn(line.split(',').next().unwrap_or_default(), place);
        }
        network.cut_off(member);
        Some(())
    }

    /// Ends a partition: all members can reach each other again.
    pub fn heal(&self) {
        self.network.iter().for_each(Network::heal);
    }

    /// Returns the URLs for clients, comma-separated.
    pub fn urls(&self) -> String {
        self.members.iter().map(Etcd::url).collect::<Vec<_>>().join(",")
    }

    /// Returns the index of the leader.
    ///
    /// # Panics
    ///
    /// If no leader is elected in time.
    pub fn leader(&self) -> usize {
        wait_for("a leader", || self.members.iter().position(Etcd::leads))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Creates a folder in memory, or in the usual place if memory is short. Each member needs 64 MB
/// for its log at once, and 64 MB more later.
fn folder() -> TempDir {
    const ROOM_MIN: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize));
    let made = if room < ROOM_MIN { None } else { tempfile::tempdir_in(memory).ok() };
    made.unwrap_or_else(|| tempfile::tempdir().expect("a temporary folder"))
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("a folder can be read") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("it was just listed").is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a file can be copied");
        }
    }
}
