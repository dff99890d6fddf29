//! Options of an Admin API: keys, access, and response format. `tollhouse-config` reads them from a
//! file.

use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use ipnet::IpNet;
use tollhouse_net::local_name::HostNames;
use tollhouse_registry::Registry;

use crate::document::DocumentSink;
use crate::log_in::ProviderLogIn;
use crate::reply::Reply;
use crate::session::Sessions;

#[derive(Debug, Clone)]
pub struct Options {
    /// Prefix of all object keys in the store, such as `/apisix`.
    pub key_prefix: String,
    /// Keys that callers may present.
    pub keys: Vec<AdminKey>,
    /// Registry whose users and groups may call too; `None` without a registry.
    pub people: Option<Registry>,
    /// Requirement of a key in calls; a key is required by default.
    pub key_check: KeyCheck,
    /// Sessions of signed-in browsers; off if `None`.
    pub sessions: Option<Sessions>,
    /// Log-in of people at an identity provider; off if `None`.
    pub log_in: Option<Arc<ProviderLogIn>>,
    /// Host names that browsers may use, besides IP addresses and local names.
    pub hosts: HostNames,
    /// Networks whose clients may call the API; an empty list allows all.
    pub allow: Vec<IpNet>,
    /// Access for pages of other origins.
    pub cors: Cors,
    /// Value of the header `Server`.
    pub server_token: ServerToken,
    /// Handling of calls about stream routes: they are supported or refused.
    pub stream_mode: StreamMode,
    /// Answer format, by version of APISIX's Admin API.
    pub api_version: ApiVersion,
    /// Source of the configuration; determines whether and how objects can be written.
    pub mode: Mode,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key_prefix: "/apisix".into(),
            keys: Vec::new(),
            people: None,
            key_check: KeyCheck::Required,
            sessions: None,
            log_in: None,
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

/// Key of the Admin API, with its name and role.
#[derive(Clone)]
pub struct AdminKey {
    /// Name for logs and the list of changes.
    pub name: String,
    pub key: String,
    pub role: Role,
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AdminKey({}, ***, {:?})", self.name, self.role)
    }
}

/// Permissions that a key grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Permission for all calls.
    Admin,
    /// Reads and writes objects, and thereby controls all traffic. Sees no secret in plain text,
    /// cannot have secrets sent elsewhere, and cannot control the process.
    Operator,
    /// Reads only, without secrets in plain text.
    Viewer,
}

/// Requirement of a key in calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    Required,
    /// No key is needed: every peer on the allow list may do everything.
    Off,
}

/// Access for pages of other origins (CORS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cors {
    /// CORS headers are sent, and `OPTIONS` is answered.
    On,
    Off,
}

/// Value of the `Server` header: `APISIX/<version>`, or `APISIX` without the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerToken(pub String);

/// Handling of calls about stream routes: they are supported or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    On,
    /// Every call about stream routes is refused.
    Off,
}

/// Answer format, by version of APISIX's Admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// Format of APISIX 3: value and key are side by side.
    V3,
    /// Format of APISIX 2, for older clients: all fields are inside a `node`.
    V2,
}

/// Source of the configuration; determines whether and how objects can be written.
#[derive(Debug, Clone)]
pub enum Mode {
    /// A store, in which objects are written individually.
    Store,
    /// The file with this name. The API cannot change objects.
    ReadOnly(String),
    /// The store is unreachable, for this reason; a local copy is in service, and objects are
    /// read-only until the store is back.
    Away(String),
    /// A document in memory, replaced as a whole. Accepted documents are passed to the data plane
    /// through this sink.
    Standalone(Arc<dyn DocumentSink>),
}

impl Mode {
    /// Returns the refusal if this mode does not accept writes.
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
