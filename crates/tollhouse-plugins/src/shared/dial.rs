//! Connections to other services, such as log servers, policy servers and brokers.

use std::io;
use std::sync::OnceLock;

use tollhouse_net::Stream;
use tollhouse_net::connect::{self, ClientTls};
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
    let connector = tls.map(connector).transpose()?;
    let tls = connector.map(|connector| ClientTls { connector, server_name });
    connect::dial(host, port, tls).await
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
