//! An etcd of a test's own: one member in a folder that goes with it, killed and started again at will.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::patience::wait_for;
use crate::program;

/// See the module.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: TempDir,
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

impl Etcd {
    /// Starts one; `None`, with a message, where etcd is not installed.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub fn start() -> Option<Self> {
        let program = program::find("etcd")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut etcd = Self { program, folder, client: free(), peer: free(), child: None };
        etcd.run();
        Some(etcd)
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("http://{}", self.client)
    }

    /// Ends it as a loss of power would.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
    }

    /// Starts it again where it was, with what it held; returns once it answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn run(&mut self) {
        let client = self.url();
        let peer = format!("http://{}", self.peer);
        let mut command = Command::new(&self.program);
        command
            .args(["--name", "only", "--log-level", "error"])
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("only={peer}")])
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().expect("etcd can be started"));
        wait_for("etcd to answer", || self.is_healthy().then_some(()));
    }

    /// Stops it, so that it takes connections and answers nothing, until [`Etcd::wake`].
    ///
    /// # Panics
    /// When it does not run.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().expect("it runs").id();
        let id = Pid::from_raw(id.cast_signed()).expect("a process has a number");
        kill_process(id, signal).expect("a child can be signalled");
    }

    fn is_healthy(&self) -> bool {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect(self.client) else { return false };
        let request = "GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains("true")
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

/// An address that was free a moment ago; etcd does not say which one it was given.
fn free() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
    listener.local_addr().expect("it is bound")
}
