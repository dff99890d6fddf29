//! The other side of synchronisation: this gateway follows an admin of ShenYu's, as ShenYu's gateways do.
//!
//! What the admin has is kept in the store, below [`tollhouse_shenyu::KEY_PREFIX`], from which the data plane
//! takes it: while the admin is away, what was there last goes on to serve. A state comes into the store as
//! one transaction, never group by group. Which objects that makes is decided in `follow/mirror.rs`, without
//! IO; `follow/websocket.rs` and `follow/polling.rs` speak with the admin.

mod mirror;
mod polling;
mod websocket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tollhouse_net::tls::{Connector, Trust, connector};
use tollhouse_net::{Stream, connect};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_stdx::Backoff;
use tollhouse_store::{Batches, Store, StoreError};

use self::mirror::Mirror;

/// Longest wait for an answer that comes at once, and for a connection.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of a message or an answer: a group with a hundred thousand rules.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// How long an admin has to be followed before it counts as one that can be.
const SETTLED_TIME: Duration = Duration::from_secs(10);

/// What is followed, and as whom.
#[derive(Clone)]
pub struct Following {
    /// Admins: `ws://host:port`, or `http://host:port` to poll; `wss://` and `https://` over TLS. One at a
    /// time, the next once that one fails.
    pub addresses: Vec<String>,
    /// Who signs the certificates of admins, PEM, read for each connection; the system's authorities where
    /// `None`.
    pub authorities: Option<PathBuf>,
    /// The namespace of ShenYu's (2.7); `None` is the default one.
    pub namespace: Option<String>,
    /// A user of the admin, for polling.
    pub user: String,
    /// The password of that user.
    pub password: String,
    /// The token that newer admins ask WebSockets for.
    pub token: Option<String>,
    /// Origin of WebSockets, which admins compare with `shenyu.sync.websocket.allowOrigins`.
    pub origin: String,
    /// Port at which this gateway serves, for the admin's list of instances.
    pub port: u16,
}

impl Following {
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Whether the master that a slave names is followed: the token is sent to listed admins alone.
    fn may_follow(&self, master: &str) -> bool {
        let Ok(master) = parse_address(master) else { return false };
        let mut listed = self.addresses.iter().filter_map(|text| parse_address(text).ok());
        self.token.is_none() || listed.any(|address| address.authority == master.authority)
    }
}

/// The report of this gateway on itself, for the admin's list of instances.
fn instance_info() -> String {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    serde_json::json!({"arch": arch, "operatingSystem": system, "availableProcessors": processors})
        .to_string()
}

/// How an admin is spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    WebSocket,
    Polling,
}

/// Whether a connection is encrypted and its other end verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Security {
    Plain,
    Tls,
}

/// An address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    way: Way,
    security: Security,
    /// Host and port.
    authority: String,
}

/// Why an address cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is none.
    #[error(
        "expected an address such as ws://shenyu-admin:9095 or http://shenyu-admin:9095, over TLS wss:// or https://"
    )]
    None,
}

/// Looks whether an address can be followed.
///
/// # Errors
/// It cannot, and why.
pub fn check_address(text: &str) -> Result<(), AddressError> {
    parse_address(text).map(|_| ())
}

fn parse_address(text: &str) -> Result<Address, AddressError> {
    /// Where ShenYu's admin listens.
    const PORT: u16 = 9095;
    let (scheme, rest) = text.split_once("://").ok_or(AddressError::None)?;
    let (way, security) = match scheme {
        "ws" => (Way::WebSocket, Security::Plain),
        "wss" => (Way::WebSocket, Security::Tls),
        "http" => (Way::Polling, Security::Plain),
        "https" => (Way::Polling, Security::Tls),
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

/// A connection, whether it is encrypted or not.
type Connection = Box<dyn Io>;

/// What both ends of requests are read from and written to.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

impl Address {
    /// Connects, over TLS where the address asks for it.
    async fn connect(&self, following: &Following) -> Result<Connection, FollowError> {
        let failed = |error: &dyn std::fmt::Display| FollowError::Connection(error.to_string());
        let connector = match self.security {
            Security::Plain => None,
            Security::Tls => Some(trusting(following.authorities.as_deref()).await?),
        };
        let (host, _) = self.authority.rsplit_once(':').unwrap_or((&self.authority, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host(&self.authority).await.map_err(|it| failed(&it))?;
        let mut last = FollowError::Connection("the name has no address".to_owned());
        for address in found {
            let connected = match &connector {
                None => connect::connect(address).await,
                Some(connector) => connect::connect_tls(address, connector, host).await,
            };
            match connected {
                // Shared with none: it has just been opened.
                Ok(Stream::Plain(stream)) => {
                    if let Some(stream) = Arc::into_inner(stream) {
                        return Ok(Box::new(stream));
                    }
                }
                Ok(Stream::Tls(stream)) => return Ok(stream),
                // Listeners make those, not connections.
                Ok(Stream::ServerTls(_)) => {}
                Err(error) => last = failed(&error),
            }
        }
        Err(last)
    }
}

/// What opens TLS to admins that these authorities, or the system's, have signed for.
async fn trusting(authorities: Option<&Path>) -> Result<Connector, FollowError> {
    let wrong = |error: &dyn std::fmt::Display| {
        FollowError::Connection(format!("the authorities cannot be used: {error}"))
    };
    let Some(path) = authorities else {
        return connector(None, Trust::System).map_err(|error| wrong(&error));
    };
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let pem = read.map_err(|error| wrong(&error))?.map_err(|error| wrong(&error))?;
    connector(None, Trust::Authorities(&pem)).map_err(|error| wrong(&error))
}

/// Why an admin is not followed any more.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("{0}")]
    Address(#[from] AddressError),
    #[error("the connection failed: {0}")]
    Connection(String),
    #[error("it has said nothing for too long")]
    Silent,
    #[error("it answers otherwise than ShenYu's admin: {0}")]
    Answer(String),
    #[error("it does not let us in: {0}")]
    Login(String),
    #[error("it follows another, {0}")]
    Slave(String),
    #[error(
        "it refuses the origin {0} (403): set shenyu.follow.origin to one of its shenyu.sync.websocket.allowOrigins"
    )]
    Origin(String),
    #[error("what it has cannot be stored: {0}")]
    Store(#[from] StoreError),
}

/// Follows until it is dropped.
pub async fn follow(store: Arc<dyn Store>, following: Following) {
    let mut backoff = Backoff::default();
    let mut last = String::new();
    let mut addresses = following.addresses.iter().cycle();
    let mut master: Option<String> = None;
    loop {
        let Some(text) = master.take().or_else(|| addresses.next().cloned()) else { return };
        let begun = Instant::now();
        let session = session(store.as_ref(), &following, &text).await;
        // Who ends soon is asked ever more rarely, whatever was sent: each time it is everything.
        if begun.elapsed() >= SETTLED_TIME {
            backoff.reset();
        }
        let Err(error) = session else { continue };
        if let FollowError::Slave(other) = &error {
            // The one that writes has everything first.
            master = following.may_follow(other).then(|| other.clone());
        }
        let reason = format!("{text}: {error}");
        if reason != last {
            tracing::warn!(%reason, "ShenYu's admin is not followed; what it had last goes on to serve");
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
        Way::WebSocket => websocket::follow(&address, following, &mut replica).await,
        Way::Polling => polling::follow(&address, following, &mut replica).await,
    }
}

/// What the admin has, on its way into the store.
struct Replica<'a> {
    store: &'a dyn Store,
    mirror: Mirror,
}

impl Replica<'_> {
    /// Writes what has changed: in one transaction, where the store takes as much in one.
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

/// Whether an admin can be connected to with the system's authorities alone, and why not.
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
            // Address of the master, whether it is followed with a token, and without.
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
            ("ws://a:1", address(Way::WebSocket, "a:1")),
            ("ws://a/websocket", address(Way::WebSocket, "a:9095")),
            ("http://[::1]:80/", address(Way::Polling, "[::1]:80")),
            ("wss://a:1", secured(Way::WebSocket, Security::Tls, "a:1")),
            ("https://a", secured(Way::Polling, Security::Tls, "a:9095")),
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
