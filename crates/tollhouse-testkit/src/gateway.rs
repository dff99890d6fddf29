//! Private gateway for tests: a process with a temporary folder, on ports that the kernel chooses.
//!
//! A [`GatewayBuilder`] starts it; dropping it kills the process. `output` reads its output, and
//! `introspection` queries its control API, metrics and access log.

mod builder;
mod introspection;
mod output;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use builder::{Failure, GatewayBuilder};
pub use output::Output;

use crate::client::RawClient;
use crate::memory::{self, MemoryBefore};
use crate::message::Message;
use crate::patience::wait_for;
use crate::program;

/// Name of the resource file in a gateway's folder, without its extension.
const RESOURCES: &str = "resources";

/// Gateway process that a test has started.
#[derive(Debug)]
pub struct Gateway {
    program: PathBuf,
    child: Child,
    folder: Folder,
    data_plane: SocketAddr,
    tls: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    control: SocketAddr,
    metrics: SocketAddr,
    output: Output,
}

/// Folder of a gateway, shared with its successor.
#[derive(Debug, Clone)]
struct Folder {
    held: std::sync::Arc<TempDir>,
    /// Extension of the resource file: `json` or `yaml`.
    ending: &'static str,
}

impl Folder {
    fn path(&self) -> &Path {
        self.held.path()
    }

    fn resources(&self) -> PathBuf {
        self.path().join(format!("{RESOURCES}.{}", self.ending))
    }

    /// Replaces the resource file atomically, as editors and deployments do.
    fn replace_resources(&self, text: &str) {
        let fresh = self.path().join("fresh");
        std::fs::write(&fresh, text).expect("the folder takes files");
        std::fs::rename(&fresh, self.resources()).expect("files of one folder can be renamed");
    }
}

impl Gateway {
    /// Returns a builder for a gateway that runs `program`.
    pub fn builder(program: impl Into<PathBuf>) -> GatewayBuilder {
        GatewayBuilder::new(program.into())
    }

    /// Returns the address for plain HTTP clients.
    pub fn address(&self) -> SocketAddr {
        self.data_plane
    }

    /// Returns the address for TLS clients.
    ///
    /// # Panics
    ///
    /// If the gateway was built without [`GatewayBuilder::tls`].
    pub fn tls_address(&self) -> SocketAddr {
        self.tls.expect("the gateway serves TLS")
    }

    /// Returns the address of the Admin API.
    ///
    /// # Panics
    ///
    /// If the gateway has none, because its resources come from a file.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.expect("the gateway keeps its resources in a store")
    }

    /// Returns the gRPC and HTTP addresses of the registry.
    ///
    /// # Panics
    ///
    /// If the registry is off; [`GatewayBuilder::registry`] turns it on.
    pub fn registry_addresses(&self) -> (SocketAddr, SocketAddr) {
        let text = self.output.text();
        let of = |scheme: &str| {
            let address = text.lines().find_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ["registry", url] = words.as_slice() else { return None };
                url.strip_prefix(scheme)?.parse().ok()
            });
            address.unwrap_or_else(|| panic!("no registry at {scheme} in:\n{text}"))
        };
        (of("grpc://"), of("http://"))
    }

    /// Returns the address of the control API.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// Returns the address of the metrics page.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// Returns the key of the Admin API, from the file that the first run wrote.
    pub fn admin_key(&self) -> String {
        let key = std::fs::read_to_string(self.folder().join("admin.key"));
        key.expect("the first run keeps a key").trim().to_owned()
    }

    /// Calls the Admin API: `gateway.admin("PUT", "/routes/1", &json!({…}))`.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> Message {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (key, length) = (self.admin_key(), body.len());
        RawClient::connect(self.admin_address()).ask(format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {key}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    pub fn client(&self) -> RawClient {
        RawClient::connect(self.address())
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Returns its folder, which is the `data_dir` and contains the resource file.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the resource file.
    pub fn resources(&self) -> PathBuf {
        self.folder.resources()
    }

    /// Returns the bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        memory::resident_bytes(self.process())
    }

    /// Resets the peak of memory use, because starting needs more than serving. Returns the current
    /// use.
    pub fn memory_before(&self) -> MemoryBefore {
        memory::before(self.process())
    }

    /// Returns by how many bytes memory use has grown at its peak since `before`.
    pub fn memory_bytes_grown(&self, before: MemoryBefore) -> u64 {
        memory::grown_bytes(self.process(), before)
    }

    /// Replaces the resource file without waiting.
    pub fn write_resources(&self, text: &str) {
        self.folder.replace_resources(text);
    }

    /// Replaces the resource file by different content, waits until it is in service, and returns
    /// the new revision.
    pub fn reload(&self, resources: &Value) -> u64 {
        let before = self.revision();
        self.write_resources(&resources.to_string());
        wait_for("the next revision", || Some(self.revision()).filter(|now| *now > before))
    }

    /// Sends SIGHUP, which makes the gateway read its files again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process()).ok().and_then(Pid::from_raw);
        let process = process.expect("a process has a number");
        kill_process(process, signal).expect("the process is running");
    }

    pub fn pause(&self) {
        program::pause(self.process());
    }

    pub fn wake(&self) {
        program::wake(self.process());
    }

    /// Sends SIGTERM; does not wait for the end of the process.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the process, as in a crash. The returned builder starts a successor in this gateway's
    /// folder.
    pub fn kill(mut self) -> GatewayBuilder {
        self.child.kill().expect("the process is running");
        let builder = self.successor();
        self.wait_exit();
        builder
    }

    /// Returns a builder for a gateway with this gateway's addresses and folder.
    pub fn successor(&self) -> GatewayBuilder {
        GatewayBuilder::beside(self)
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    ///
    /// If it does not end in time.
    pub fn wait_exit(&mut self) -> ExitStatus {
        self.output.wait_end();
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Errors only mean that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the gateway printed:\n{}", self.output.text());
        }
    }
}
