//! Connections to other services, such as log servers, policy servers and brokers.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tollhouse_net::Stream;
use tollhouse_net::connect::{self, ClientTls};
use tollhouse_net::tls::{self, Connector, TlsError, Trust};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verification {
    /// A certificate of the system's authorities.
    System,
    Off,
    /// A certificate of own authorities, with or without a client certificate.
    Own(OwnConnector),
}

/// Index of a connector that [`own`] has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnConnector(usize);

/// Connectors with own authorities or client certificates. There are a few, from the bootstrap file.
static OWN: Mutex<Vec<&'static Connector>> = Mutex::new(Vec::new());

/// Returns the verification for these authorities, with a client certificate (PEM chain, PEM key) or
/// without. Its memory is never freed.
///
/// # Errors
/// If certificate, key or authorities are unusable.
pub(crate) fn own(
    client: Option<(&str, &str)>,
    trust: Trust<'_>,
) -> Result<Verification, TlsError> {
    let connector = Box::leak(Box::new(tls::connector(client, trust)?));
    let mut all = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(connector);
    Ok(Verification::Own(OwnConnector(all.len() - 1)))
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
        Verification::Own(OwnConnector(index)) => {
            let all = OWN.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(all[index]);
        }
    };
    connector.as_ref().map_err(io::Error::other)
}
