//! Connections to other services, such as log servers, policy servers and brokers.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;

use tollhouse_net::Stream;
use tollhouse_net::tls::{self, Connector, TlsError, Trust};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verification {
    System,
    Off,
}

impl From<bool> for Verification {
    fn from(is_on: bool) -> Self {
        if is_on { Verification::System } else { Verification::Off }
    }
}

/// Loads the system's root certificates before the first connection. Loading takes tens of
/// milliseconds, for which no request should wait.
pub(crate) fn prepare_tls(verification: Verification) {
    // A failure is reported again, with its reason, by the first connection.
    let _ = connector(verification);
}

/// Connects to the first address of `host` that accepts, over TLS if `tls` is set.
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

/// Resolves a host to addresses, in the order in which to try them.
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
