//! Redis servers for tests: started on free ports, stopped when dropped.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that takes longer than this is broken.
const START_LIMIT: Duration = Duration::from_secs(8);

pub(crate) struct RedisServer {
    /// Its port on 127.0.0.1.
    pub(crate) port: u16,
    child: Child,
    /// Where it may write.
    _folder: tempfile::TempDir,
}

impl RedisServer {
    /// Starts one; `None`, with a message, where redis-server is not installed.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--dir"])
            .arg(folder.path())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        let server = Self { port, child, _folder: folder };
        server.wait_until(&["ping"], |answer| answer.contains("PONG") || answer.contains("AUTH"));
        Some(server)
    }

    /// A server started from a file, as sentinels need it.
    pub(crate) fn sentinel(master_port: u16) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
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
        let server = Self { port, child, _folder: folder };
        server.wait_until(&["ping"], |answer| answer.contains("PONG"));
        Some(server)
    }

    /// What redis-cli says to a command.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(words)
            .output()
            .expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Asks until the answer is good.
    pub(crate) fn wait_until(&self, words: &[&str], is_good: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_good(&self.ask(words)) {
            assert!(began.elapsed() < START_LIMIT, "redis does not start: {}", self.ask(words));
            std::thread::yield_now();
        }
    }

    /// Three masters that form a cluster; `None` where redis-server is not installed.
    pub(crate) fn cluster() -> Option<Vec<Self>> {
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

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on; those of a cluster's own conversation lie 10,000 above.
pub(crate) fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}
