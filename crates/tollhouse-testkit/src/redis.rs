//! Redis servers for tests, on reserved ports; stopped when dropped.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::patience::wait_for;
use crate::ports::ReservedPort;
use crate::program;

/// Redis server that a test has started.
#[derive(Debug)]
pub struct RedisServer {
    /// Port on which the server listens, on 127.0.0.1.
    pub port: u16,
    _reserved: ReservedPort,
    child: Child,
    folder: tempfile::TempDir,
}

impl RedisServer {
    /// Starts a server. Returns `None`, with a message, if `redis-server` is not installed.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let reserved = ReservedPort::new();
        let port = reserved.number();
        let Ok(child) = spawn(port, folder.path(), arguments) else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        let server = Self { port, _reserved: reserved, child, folder };
        server.wait_until(&["ping"], |answer| answer.contains("PONG") || answer.contains("AUTH"));
        Some(server)
    }

    /// Starts a sentinel, which needs a configuration file, for the master at a port.
    pub fn sentinel(master_port: u16) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let reserved = ReservedPort::new();
        let port = reserved.number();
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor counters 127.0.0.1 \
             {master_port} 1\n",
            folder.path().display()
        );
        std::fs::write(&file, text).expect("the file is written");
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { port, _reserved: reserved, child, folder };
        server.wait_until(&["ping"], |answer| answer.contains("PONG"));
        Some(server)
    }

    /// Stops the process until [`RedisServer::wake`]: connections are accepted, but not answered.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn pause(&self) {
        program::pause(self.child.id());
    }

    /// Resumes the stopped process.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn wake(&self) {
        program::wake(self.child.id());
    }

    /// Kills the process; its data is lost.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Restarts the server on its port, without data.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn run(&mut self) {
        self.child = spawn(self.port, self.folder.path(), &[]).expect("it ran before");
        self.wait_until(&["ping"], |answer| answer.contains("PONG"));
    }

    /// Runs a command with `redis-cli` and returns the output.
    pub fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(words)
            .output()
            .expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Repeats a command until `is_good` accepts the output.
    pub fn wait_until(&self, words: &[&str], is_good: impl Fn(&str) -> bool) {
        wait_for(&format!("redis to answer {words:?}"), || is_good(&self.ask(words)).then_some(()));
    }

    /// Moves the slot of a key, with its content, to another master of the cluster.
    ///
    /// # Panics
    ///
    /// If a server refuses.
    pub fn give_slot(&self, key: &str, to: &Self) {
        let [own, other] = [self, to].map(|it| it.ask(&["cluster", "myid"]).trim().to_owned());
        let slot = self.ask(&["cluster", "keyslot", key]).trim().to_owned();
        let set = |server: &Self, words: [&str; 2]| {
            let answer = server.ask(&["cluster", "setslot", &slot, words[0], words[1]]);
            assert_eq!(answer.trim(), "OK", "slot {slot}: {words:?}");
        };
        set(to, ["importing", &own]);
        set(self, ["migrating", &other]);
        let port = to.port.to_string();
        loop {
            let keys = self.ask(&["cluster", "getkeysinslot", &slot, "100"]);
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let moved = self.ask(&["migrate", "127.0.0.1", &port, key, "0", "5000"]);
                assert!(matches!(moved.trim(), "OK" | "NOKEY"), "{key}: {moved}");
            }
        }
        set(to, ["node", &other]);
        set(self, ["node", &other]);
    }

    /// Starts a cluster of three masters. Returns `None` if `redis-server` is not installed.
    pub fn cluster() -> Option<Vec<Self>> {
        let start = || Self::start(&["--cluster-enabled", "yes"]);
        let servers = [start()?, start()?, start()?];
        let addresses = servers.iter().map(|server| format!("127.0.0.1:{}", server.port));
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .arg("--cluster-yes")
            .output()
            .expect("redis-cli runs");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        for server in &servers {
            server.wait_until(&["cluster", "info"], |info| info.contains("cluster_state:ok"));
        }
        Some(servers.into())
    }
}

fn spawn(port: u16, folder: &Path, arguments: &[&str]) -> io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "no", "--dir"])
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
