//! Opens connections to other services: log servers, policy servers, brokers.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;

use tollhouse_net::Stream;
use tollhouse_net::tls::{self, Connector, TlsError, Trust};

/// Whether certificates of servers are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verification {
    /// Against the roots of the system.
    System,
    /// Any certificate will do.
    Off,
}

impl From<bool> for Verification {
    fn from(is_on: bool) -> Self {
        if is_on { Verification::System } else { Verification::Off }
    }
}

/// Reads the system's roots ahead of the first connection: it takes tens of milliseconds, which no request should
/// wait for.
pub(crate) fn prepare_tls(verification: Verification) {
    // A failure shows again, with its reason, where a connection needs the connector.
    let _ = connector(verification);
}

/// Connects to the first address of `host` that takes it, over TLS where `tls` says so.
pub(crate) async fn dial(host: &str, port: u16, tls: Option<Verification>) -> io::Result<Stream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(host, port).await? {
        let attempt = match tls {
            None => tollhouse_net::connect::connect(address).await,
            Some(verification) => {
                let connector = connector(verification)?;
                tollhouse_net::connect::connect_tls(address, connector, host).await
            }
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Where a server may be reached, in the order to try.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

fn connector(verification: Verification) -> io::Result<&'static Connector> {
    static VERIFYING: OnceLock<Result<Connector, TlsError>> = OnceLock::new();
    static TRUSTING: OnceLock<Result<Connector, TlsError>> = OnceLock::new();
    let open = |trust| tls::connector(None, trust);
    let connector = match verification {
        Verification::System => VERIFYING.get_or_init(|| open(Trust::System)),
        Verification::Off => TRUSTING.get_or_init(|| open(Trust::Anybody)),
    };
    connector.as_ref().map_err(io::Error::other)
}
