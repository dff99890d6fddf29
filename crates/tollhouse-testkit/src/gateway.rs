//! A gateway of a test's own: a process with a folder of its own, on ports of the kernel's choice.
//!
//! Built by a [`GatewayBuilder`], killed when dropped. What it prints is read by `output`; what can
//! be asked of it beside the data plane is in `introspection`.

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

/// The file of resources inside of a gateway's folder.
const RESOURCES: &str = "resources";

/// A running gateway.
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

/// The folder of a gateway; a successor lives in the same.
#[derive(Debug, Clone)]
struct Folder {
    held: std::sync::Arc<TempDir>,
    /// Ending of the file of resources: `json` or `yaml`.
    ending: &'static str,
}

impl Folder {
    fn path(&self) -> &Path {
        self.held.path()
    }

    fn resources(&self) -> PathBuf {
        self.path().join(format!("{RESOURCES}.{}", self.ending))
    }

    /// Puts a whole new file in the place of the old one, as editors and deployments do.
    fn replace_resources(&self, text: &str) {
        let fresh = self.path().join("fresh");
        std::fs::write(&fresh, text).expect("the folder takes files");
        std::fs::rename(&fresh, self.resources()).expect("files of one folder can be renamed");
    }
}

impl Gateway {
    /// Describes a gateway that runs `program`.
    pub fn builder(program: impl Into<PathBuf>) -> GatewayBuilder {
        GatewayBuilder::new(program.into())
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.data_plane
    }

    /// Where clients connect over TLS.
    ///
    /// # Panics
    /// When they cannot, for want of [`GatewayBuilder::tls`].
    pub fn tls_address(&self) -> SocketAddr {
        self.tls.expect("the gateway serves TLS")
    }

    /// Where the Admin API listens.
    ///
    /// # Panics
    /// When it does not: the resources come from a file.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.expect("the gateway keeps its resources in a store")
    }

    /// Where the registry speaks gRPC and HTTP.
    ///
    /// # Panics
    /// When it does not: the bootstrap file turns it off, as [`GatewayBuilder::registry`] does not.
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

    /// Where the control API listens.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// The key of the Admin API, as the first run kept it.
    pub fn admin_key(&self) -> String {
        let key = std::fs::read_to_string(self.folder().join("admin.key"));
        key.expect("the first run keeps a key").trim().to_owned()
    }

    /// Asks the Admin API: `gateway.admin("PUT", "/routes/1", &json!({…}))`.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> Message {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (key, length) = (self.admin_key(), body.len());
        RawClient::connect(self.admin_address()).ask(format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {key}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// A new connection of a client.
    pub fn client(&self) -> RawClient {
        RawClient::connect(self.address())
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it prints.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Its folder: `data_dir`, and the file of resources.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of resources.
    pub fn resources(&self) -> PathBuf {
        self.folder.resources()
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        memory::resident_bytes(self.process())
    }

    /// What it holds of memory, from which its peak counts anew: a start needs more than serving.
    pub fn memory_before(&self) -> MemoryBefore {
        memory::before(self.process())
    }

    /// Bytes of memory that it held more at its peak than before.
    pub fn memory_bytes_grown(&self, before: MemoryBefore) -> u64 {
        memory::grown_bytes(self.process(), before)
    }

    /// Replaces the file of resources and does not wait.
    pub fn write_resources(&self, text: &str) {
        self.folder.replace_resources(text);
    }

    /// Replaces the file of resources by something different and waits until it serves; the new
    /// revision.
    pub fn reload(&self, resources: &Value) -> u64 {
        let before = self.revision();
        self.write_resources(&resources.to_string());
        wait_for("the next revision", || Some(self.revision()).filter(|now| *now > before))
    }

    /// Asks it to read its files again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process()).ok().and_then(Pid::from_raw);
        let process = process.expect("a process has a number");
        kill_process(process, signal).expect("the process is running");
    }

    /// Stops its process, so that it does nothing, until [`Gateway::wake`].
    pub fn pause(&self) {
        program::pause(self.process());
    }

    /// Lets it go on.
    pub fn wake(&self) {
        program::wake(self.process());
    }

    /// Asks it to stop and does not wait.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it at once, as a crash would; a new one may be started in the same folder.
    pub fn kill(mut self) -> GatewayBuilder {
        self.child.kill().expect("the process is running");
        let builder = self.successor();
        self.wait_exit();
        builder
    }

    /// A description of a gateway that serves the same addresses out of the same folder.
    pub fn successor(&self) -> GatewayBuilder {
        GatewayBuilder::beside(self)
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_exit(&mut self) -> ExitStatus {
        self.output.wait_end();
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the gateway printed:\n{}", self.output.text());
        }
    }
}
