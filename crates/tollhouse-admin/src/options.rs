//! What an Admin API is given once: keys, who may call, and which dialect to speak. Reading these
//! from a file is the business of `tollhouse-config`.

use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use ipnet::IpNet;
use tollhouse_net::local_name::HostNames;

use crate::document::DocumentSink;
use crate::reply::Reply;
use crate::session::Sessions;

/// What an Admin API is given once.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the keys of all objects begin with, such as `/apisix`.
    pub key_prefix: String,
    /// Who may call.
    pub keys: Vec<AdminKey>,
    /// Whether callers must have a key.
    pub key_check: KeyCheck,
    /// Cookies of browsers that are signed in; none are without.
    pub sessions: Option<Sessions>,
    /// Names under which browsers may call, beside addresses and local ones.
    pub hosts: HostNames,
    /// Peers that may call; none of them means all may.
    pub allow: Vec<IpNet>,
    /// Whether browsers may call from other pages.
    pub cors: Cors,
    /// What `Server` says.
    pub server_token: ServerToken,
    /// Whether there are stream routes.
    pub stream_mode: StreamMode,
    /// The shape of answers.
    pub api_version: ApiVersion,
    /// Where the configuration comes from.
    pub mode: Mode,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key_prefix: "/apisix".into(),
            keys: Vec::new(),
            key_check: KeyCheck::Required,
            sessions: None,
            hosts: HostNames::default(),
            allow: Vec::new(),
            cors: Cors::On,
            server_token: ServerToken("APISIX/3.18.0".into()),
            stream_mode: StreamMode::On,
            api_version: ApiVersion::V3,
            mode: Mode::Store,
        }
    }
}

/// A key with what it allows.
#[derive(Clone)]
pub struct AdminKey {
    /// For people.
    pub name: String,
    /// The key.
    pub key: String,
    /// What it allows.
    pub role: Role,
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AdminKey({}, ***, {:?})", self.name, self.role)
    }
}

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Reading and writing objects, and so all traffic; no secret in the clear or sent elsewhere, and nothing that concerns
    /// the process.
    Operator,
    /// Reading, but no secret in the clear.
    Viewer,
}

/// Whether callers must have a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    /// They must.
    Required,
    /// Anybody whom the allow list lets through may do everything.
    Off,
}

/// Whether browsers may call from other pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cors {
    /// They may, and `OPTIONS` is answered.
    On,
    /// No header says so.
    Off,
}

/// What `Server` says: `APISIX/<version>`, or `APISIX` for those who give no version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerToken(pub String);

/// Whether the gateway serves connections below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// It does.
    On,
    /// It does not, and every call about stream routes is refused.
    Off,
}

/// The shape of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// Objects beside their keys.
    V3,
    /// Everything in a `node`, as older clients know it.
    V2,
}

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum Mode {
    /// The store: objects are written one by one.
    Store,
    /// A file of this name: objects are read, and changed in the file.
    ReadOnly(String),
    /// What was copied of a store that is away, for the reason given: objects are read, and written once
    /// it is back.
    Away(String),
    /// One document in memory, replaced as a whole; each one that was accepted goes to the sink.
    Standalone(Arc<dyn DocumentSink>),
}

impl Mode {
    /// Refuses writes where nothing would keep them.
    pub(crate) fn check_writable(&self) -> Result<(), Reply> {
        match self {
            Self::Store | Self::Standalone(_) => Ok(()),
            Self::ReadOnly(file) => {
                let text = format!("objects are read from {file}, and are changed there");
                Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text))
            }
            Self::Away(reason) => Err(Reply::unavailable(reason)),
        }
    }
}
