//! Client side of ShenYu's synchronisation: this gateway follows an admin of ShenYu, as ShenYu's
//! gateways do.
//!
//! The admin's objects are stored below [`tollhouse_shenyu::KEY_PREFIX`], where the data plane
//! reads them. While the admin is away, the last state stays in service. A state is stored in one
//! transaction, never group by group. `follow/mirror.rs` computes the resulting objects without IO;
//! `follow/websocket.rs` and `follow/polling.rs` speak the two protocols of the admin.

mod mirror;
mod polling;
mod websocket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_net::Stream;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_stdx::Backoff;
use tollhouse_store::{Batches, Store, StoreError};
use tollhouse_web::client::{Client, ClientError, Limits, Server};

use self::mirror::Mirror;

/// Timeout for connecting, and for answers that the admin sends at once.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum size in bytes of a message or answer, enough for a group with a hundred thousand rules.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Duration after which a session counts as successful and the backoff is reset.
const SETTLED_TIME: Duration = Duration::from_secs(10);

/// ShenYu admin that this gateway copies its configuration from, and the credentials for it.
#[derive(Clone)]
pub struct Following {
    /// Addresses of admins: `ws://host:port` for WebSocket, `http://host:port` for polling;
    /// `wss://` and `https://` over TLS. Only one is followed at a time; when it fails, the next
    /// one.
    pub addresses: Vec<String>,
    /// PEM file with the authorities that sign the admins' certificates, read for each session.
    /// With `None` the system's authorities apply.
    pub authorities: Option<PathBuf>,
    /// ShenYu namespace to follow (2.7); `None` is the default one.
    pub namespace: Option<String>,
    /// User of the admin, for polling.
    pub user: String,
    pub password: String,
    /// Token that newer admins require of WebSocket clients.
    pub token: Option<String>,
    /// Origin header of WebSockets, which admins compare with `shenyu.sync.websocket.allowOrigins`.
    pub origin: String,
    /// Port at which this gateway serves, for the admin's list of instances.
    pub port: u16,
}

impl Following {
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Whether to follow the master that a slave names. With a token, only listed admins are
    /// followed, because the token must not be sent to others.
    fn may_follow(&self, master: &str) -> bool {
        let Ok(master) = parse_address(master) else { return false };
        let mut listed = self.addresses.iter().filter_map(|text| parse_address(text).ok());
        self.token.is_none() || listed.any(|address| address.authority == master.authority)
    }
}

/// Describes this machine for the admin's list of instances.
fn instance_info() -> String {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    serde_json::json!({"arch": arch, "operatingSystem": system, "availableProcessors": processors})
        .to_string()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    WebSocket,
    Polling,
}

/// Encryption of a connection; TLS also verifies the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Security {
    Plain,
    Tls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    way: Transport,
    security: Security,
    authority: String,
}

/// Why an address cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not an address of an admin.
    #[error(
        "expected an address such as ws://shenyu-admin:9095 or http://shenyu-admin:9095, over TLS wss:// or https://"
    )]
    None,
}

/// Checks whether an address can be followed.
///
/// # Errors
///
/// If the scheme, authority or path is invalid.
pub fn check_address(text: &str) -> Result<(), AddressError> {
    parse_address(text).map(|_| ())
}

fn parse_address(text: &str) -> Result<Address, AddressError> {
    /// Default port of ShenYu's admin.
    const PORT: u16 = 9095;
    let (scheme, rest) = text.split_once("://").ok_or(AddressError::None)?;
    let (way, security) = match scheme {
        "ws" => (Transport::WebSocket, Security::Plain),
        "wss" => (Transport::WebSocket, Security::Tls),
        "http" => (Transport::Polling, Security::Plain),
        "https" => (Transport::Polling, Security::Tls),
        _ => return Err(AddressError::None),
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || authority.contains(['@', ' ']) || !["", "websocket"].contains(&path)
    {
        return Err(AddressError::None);
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:{PORT}") };
    Ok(Address { way, security, authority })
}

/// Limits of answers that the admin sends immediately, unlike those of long polls.
const LIMITS: Limits = Limits { time_max: ANSWER_TIME_MAX, body_bytes_max: ANSWER_BYTES_MAX };

impl Address {
    fn server(&self) -> Result<Server, ClientError> {
        let scheme = match self.security {
            Security::Plain => "http",
            Security::Tls => "https",
        };
        format!("{scheme}://{}", self.authority).parse()
    }

    /// Returns the client that trusts the configured authorities.
    async fn client(&self, following: &Following) -> Result<Client, FollowError> {
        let wrong = |error: &dyn std::fmt::Display| {
            FollowError::Connection(format!("the authorities cannot be used: {error}"))
        };
        let client = Client::new(LIMITS);
        if self.security == Security::Plain {
            return Ok(client);
        }
        let path = following.authorities.clone();
        let read = tokio::task::spawn_blocking(move || client.trusting(path.as_deref())).await;
        read.map_err(|error| wrong(&error))?.map_err(|error| wrong(&error))
    }

    /// Connects to the first of the host's addresses that answers, over TLS if the scheme requires
    /// it.
    async fn connect(&self, following: &Following) -> Result<Stream, FollowError> {
        Ok(self.client(following).await?.connect(&self.server()?).await?)
    }
}

impl From<ClientError> for FollowError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Timeout(_) => Self::Silent,
            error => Self::Connection(error.to_string()),
        }
    }
}

/// Why a session with an admin ended.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("{0}")]
    Address(#[from] AddressError),
    #[error("the connection failed: {0}")]
    Connection(String),
    #[error("the admin has been silent for too long")]
    Silent,
    #[error("unexpected answer for an admin of ShenYu: {0}")]
    Answer(String),
    #[error("the login failed: {0}")]
    Login(String),
    #[error("this admin is a slave of {0}")]
    Slave(String),
    #[error(
        "it refuses the origin {0} (403): set shenyu.follow.origin to one of its shenyu.sync.websocket.allowOrigins"
    )]
    Origin(String),
    #[error("the configuration cannot be stored: {0}")]
    Store(#[from] StoreError),
}

/// Follows the admins until the future is dropped.
pub async fn follow(store: Arc<dyn Store>, following: Following) {
    let mut backoff = Backoff::default();
    let mut last = String::new();
    let mut addresses = following.addresses.iter().cycle();
    let mut master: Option<String> = None;
    loop {
        let Some(text) = master.take().or_else(|| addresses.next().cloned()) else { return };
        let begun = Instant::now();
        let session = session(store.as_ref(), &following, &text).await;
        // Sessions that end soon are retried ever more rarely, whatever was received, because every
        // session transfers everything.
        if begun.elapsed() >= SETTLED_TIME {
            backoff.reset();
        }
        let Err(error) = session else { continue };
        if let FollowError::Slave(other) = &error {
            // The master has every change first, so it is tried next.
            master = following.may_follow(other).then(|| other.clone());
        }
        let reason = format!("{text}: {error}");
        if reason != last {
            tracing::warn!(%reason, "ShenYu's admin cannot be followed; its last configuration stays in service");
            last = reason;
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn session(store: &dyn Store, following: &Following, text: &str) -> Result<(), FollowError> {
    let address = parse_address(text)?;
    let mut replica = Replica { store, mirror: Mirror::new(store.limits()) };
    replica.mirror.read(&store.list(tollhouse_shenyu::KEY_PREFIX).await?);
    match address.way {
        Transport::WebSocket => websocket::follow(&address, following, &mut replica).await,
        Transport::Polling => polling::follow(&address, following, &mut replica).await,
    }
}

/// The admin's objects and the store that they are mirrored into.
struct Replica<'a> {
    store: &'a dyn Store,
    mirror: Mirror,
}

impl Replica<'_> {
    /// Writes the changes: in one transaction if the store's limits permit.
    async fn commit(&mut self) -> Result<(), FollowError> {
        let operations = self.mirror.take_operations();
        if operations.is_empty() {
            return Ok(());
        }
        tracing::debug!(count = operations.len(), "objects of ShenYu's admin are taken over");
        let mut batches = Batches::new(self.store.limits());
        operations.into_iter().for_each(|operation| batches.add(operation));
        for transaction in batches.finish() {
            self.store.commit(transaction).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) async fn check_connection(address: &str) -> Result<(), String> {
    let following = Following {
        addresses: Vec::new(),
        authorities: None,
        namespace: None,
        user: String::new(),
        password: String::new(),
        token: None,
        origin: String::new(),
        port: 0,
    };
    let address = parse_address(address).map_err(|error| error.to_string())?;
    address.connect(&following).await.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_to_no_master_that_is_not_listed() {
        let following = |token: Option<&str>| Following {
            addresses: vec!["ws://a:9095".to_owned(), "ws://b".to_owned()],
            authorities: None,
            namespace: None,
            user: String::new(),
            password: String::new(),
            token: token.map(str::to_owned),
            origin: String::new(),
            port: 0,
        };
        let table = [
            // Columns: address of the master, whether it is followed with a token, and without one.
            ("ws://a:9095", true, true),
            ("ws://b:9095", true, true),
            ("ws://c:9095", false, true),
            ("ws://a:9096", false, true),
            ("ws://u:p@a:9095", false, false),
        ];
        for (master, with_token, without) in table {
            let followed = [Some("t"), None].map(|token| following(token).may_follow(master));
            assert_eq!(followed, [with_token, without], "{master}");
        }
    }

    #[test]
    fn addresses_say_how_an_admin_is_spoken_with() {
        let secured = |way, security, authority: &str| {
            Ok(Address { way, security, authority: authority.to_owned() })
        };
        let address = |way, authority: &str| secured(way, Security::Plain, authority);
        let cases = [
            ("ws://a:1", address(Transport::WebSocket, "a:1")),
            ("ws://a/websocket", address(Transport::WebSocket, "a:9095")),
            ("http://[::1]:80/", address(Transport::Polling, "[::1]:80")),
            ("wss://a:1", secured(Transport::WebSocket, Security::Tls, "a:1")),
            ("https://a", secured(Transport::Polling, Security::Tls, "a:9095")),
            ("a:9095", Err(AddressError::None)),
            ("ws://", Err(AddressError::None)),
            ("http://u:p@a", Err(AddressError::None)),
            ("ftp://a", Err(AddressError::None)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_address(text), expected, "{text}");
        }
    }
}
