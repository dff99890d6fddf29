//! Settings of the ShenYu gateway and its admin.

use std::path::PathBuf;
use std::time::Duration;

use super::parts::Secret;

/// Settings of ShenYu's objects: how they are matched and answered, and their admin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shenyu {
    /// Whether ShenYu's selectors are matched before routes.
    pub comes_first: bool,
    /// Whether responses of ShenYu's plugins have ShenYu's statuses, most of which are 200.
    pub compatible_statuses: bool,
    /// Namespace of the objects in use; `None` is ShenYu's default one.
    pub namespace: Option<String>,
    /// Largest difference between the time of a signature and now.
    pub sign_delay: Duration,
    /// Initial password of the user `admin` of ShenYu's admin; `None` uses ShenYu's default.
    pub admin_password: Option<Secret>,
    /// Token required from ShenYu gateways that synchronise over WebSocket; `None` admits all.
    pub sync_token: Option<Secret>,
    /// Whether ShenYu's admin probes the nodes of services by TCP connections.
    pub probe_upstreams: bool,
    /// AES key with which ShenYu's clients encrypt passwords at login; `None` accepts plain text
    /// only.
    pub aes_key: Option<Secret>,
    /// Initialisation vector for AES with `aes_key`.
    pub aes_iv: Option<Secret>,
    /// Remote ShenYu admin from which objects are copied; none by default.
    pub follow: ShenyuFollow,
    /// SHA-512 digest, in hexadecimal, of the key for the gateway's own ShenYu interface; `None`
    /// disables it.
    pub local_key_sha512: Option<Secret>,
    /// Address for the ports of the `tcp` plugin; `None` opens none.
    pub tcp_address: Option<String>,
    /// Whether repeated slashes in a path count as one.
    pub collapse_slashes: bool,
    pub cross: ShenyuCross,
    /// Prefixes of paths that answer health checks.
    pub health_paths: Vec<String>,
    /// Whether objects are published below `/actuator/`; off by default.
    pub actuator: bool,
    /// Maximum size of a multipart form in bytes; `None` is unlimited.
    pub file_bytes: Option<u64>,
    /// Paths answered with an empty response.
    pub exclude_paths: Vec<String>,
    /// Paths of fallbacks that clients may request directly.
    pub fallback_paths: Vec<String>,
}

/// Cross-origin access to responses of ShenYu's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShenyuCross {
    pub enabled: bool,
    pub origins: Vec<String>,
    /// Request headers allowed in addition to ShenYu's list.
    pub headers: Vec<String>,
    /// Response headers that pages of other origins may read.
    pub exposed: Vec<String>,
    /// Whether cross-origin requests may carry cookies.
    pub credentials: bool,
    /// Time for which browsers cache the answer to a preflight request.
    pub max_age: Duration,
}

impl Default for ShenyuCross {
    fn default() -> Self {
        Self {
            enabled: false,
            origins: Vec::new(),
            headers: Vec::new(),
            exposed: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(18_000),
        }
    }
}

/// Remote ShenYu admin from which objects are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShenyuFollow {
    /// URLs of admins with host and port: `ws://` or `http://`, with TLS `wss://` or `https://`.
    /// Empty disables synchronisation.
    pub addresses: Vec<String>,
    /// CA certificates of the admins, PEM; `None` uses those of the system.
    pub ca: Option<PathBuf>,
    /// User name for long polling.
    pub user: String,
    /// Password of that user; `None` uses ShenYu's default.
    pub password: Option<Secret>,
    /// Token for WebSockets, which newer admins require.
    pub token: Option<Secret>,
    /// `Origin` header of WebSockets; default `ws://localhost:9195`, which an admin allows by
    /// default.
    pub origin: String,
}

impl Default for ShenyuFollow {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            ca: None,
            user: "admin".to_owned(),
            password: None,
            token: None,
            origin: "ws://localhost:9195".to_owned(),
        }
    }
}

impl Default for Shenyu {
    fn default() -> Self {
        Self {
            comes_first: false,
            compatible_statuses: false,
            namespace: None,
            sign_delay: Duration::from_secs(300),
            admin_password: None,
            sync_token: None,
            probe_upstreams: true,
            aes_key: None,
            aes_iv: None,
            follow: ShenyuFollow::default(),
            local_key_sha512: None,
            tcp_address: None,
            collapse_slashes: false,
            cross: ShenyuCross::default(),
            health_paths: Vec::new(),
            actuator: false,
            file_bytes: None,
            exclude_paths: Vec::new(),
            fallback_paths: Vec::new(),
        }
    }
}
