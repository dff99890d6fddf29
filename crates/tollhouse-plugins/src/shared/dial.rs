//! Connections to other services, such as log servers, policy servers and brokers.

use std::future::poll_fn;
use std::io::{self, IoSlice};
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
    dial_as(host, port, tls, host).await
}

/// Connects like [`dial`]; in the TLS handshake the server is called `server_name`.
pub(crate) async fn dial_as(
    host: &str,
    port: u16,
    tls: Option<Verification>,
    server_name: &str,
) -> io::Result<Stream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(host, port).await? {
        let attempt = match tls {
            None => tollhouse_net::connect::connect(address).await,
            Some(verification) => {
                let connector = connector(verification)?;
                tollhouse_net::connect::connect_tls(address, connector, server_name).await
            }
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Writes all bytes, through the TLS layer if there is one.
pub(crate) async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let part = [IoSlice::new(bytes)];
        let count = poll_fn(|context| stream.poll_write(context, &part)).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
    }
    poll_fn(|context| stream.poll_flush(context)).await
}

/// Resolves a host to addresses, in the order in which to try them.
pub(crate) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
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
