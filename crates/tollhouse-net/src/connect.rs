//! Connections to upstream nodes, and the classification of connection failures.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustls::{AlertDescription, CertificateError};
use rustls_pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tollhouse_stdx::Endpoint;

use crate::tls::Connector;
use crate::{Stream, unix};

/// Connects over TCP, with small writes sent at once: a request head must not wait for an
/// acknowledgement; or to a Unix socket.
///
/// # Errors
/// Errors of the operating system.
pub async fn connect(address: impl Into<Endpoint>) -> io::Result<Stream> {
    connect_announced(address, &[]).await
}

/// Connects over TCP and sends `header`, a PROXY protocol header, before anything else.
///
/// # Errors
/// Errors of the operating system.
pub async fn connect_announced(address: impl Into<Endpoint>, header: &[u8]) -> io::Result<Stream> {
    let tcp = open(address.into(), header).await?;
    set_socket_linger(&tcp, None)?;
    Ok(Stream::from(tcp))
}

/// Returns a connected socket, to which `header` was written.
async fn open(address: Endpoint, header: &[u8]) -> io::Result<TcpStream> {
    let mut stream = match address {
        Endpoint::Ip(address) => open_tcp(address).await?,
        Endpoint::Unix(path) => unix::as_stream(UnixStream::connect(path.as_str()).await?)?,
    };
    if !header.is_empty() {
        stream.write_all(header).await?;
    }
    Ok(stream)
}

/// Connects a socket that is reset if it is dropped before its first use. Closed in the ordinary
/// way, it would keep its port for a minute (see [`Stream::reset_when_dropped`]).
async fn open_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    set_socket_linger(&socket, Some(Duration::ZERO))?;
    let tcp = socket.connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// Whether a failure is not the node's: the TLS server name, which may come from a client's `Host`,
/// is invalid or unknown to the node, or this machine lacks file descriptors, ports or memory.
pub fn is_no_failure_of_node(error: &io::Error) -> bool {
    let of_system = Errno::from_io_error(error);
    error.kind() == io::ErrorKind::InvalidInput
        || refuses_name(error)
        || of_system.is_some_and(|errno| {
            matches!(
                errno,
                Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOBUFS
                    | Errno::NOMEM
                    | Errno::ADDRNOTAVAIL
                    | Errno::ADDRINUSE
            )
        })
}

/// Whether the node refused the requested server name in the handshake, or sent a certificate for
/// other names.
fn refuses_name(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(alert)) => {
            matches!(alert, AlertDescription::UnrecognisedName | AlertDescription::HandshakeFailure)
        }
        Some(rustls::Error::InvalidCertificate(error)) => matches!(
            error,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ),
        _ => false,
    }
}

/// Whether a node can have this name in a TLS handshake: a DNS name or an IP address.
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// Connects over TCP and TLS; `name` is sent as SNI if it is a DNS name.
///
/// # Errors
/// Errors of the operating system or the handshake; `InvalidInput` if `name` is not a valid server
/// name.
pub async fn connect_tls(
    address: impl Into<Endpoint>,
    connector: &Connector,
    name: &str,
) -> io::Result<Stream> {
    connect_tls_announced(address, connector, name, &[]).await
}

/// Connects like [`connect_tls`], and sends `header` in clear text before the handshake.
///
/// # Errors
/// As [`connect_tls`].
pub async fn connect_tls_announced(
    address: impl Into<Endpoint>,
    connector: &Connector,
    name: &str,
    header: &[u8],
) -> io::Result<Stream> {
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let tcp = open(address.into(), header).await?;
    let tls = connector.inner().connect(name, tcp).await?;
    let is_agreed = |protocol: &Vec<u8>| tls.get_ref().1.alpn_protocol() == Some(protocol);
    if connector.inner().config().alpn_protocols.first().is_some_and(|asked| !is_agreed(asked)) {
        let cause = "the node has not agreed to HTTP/2 by ALPN; does it serve it on this port?";
        return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
    }
    set_socket_linger(tls.get_ref().0, None)?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// TLS of a connection to a named server.
#[derive(Debug, Clone, Copy)]
pub struct ClientTls<'a> {
    pub connector: &'a Connector,
    /// Name that the certificate must have; sent as SNI if it is a DNS name.
    pub server_name: &'a str,
}

/// Connects to the first address of `host` that accepts, over TLS if `tls` is set. For services
/// other than upstream nodes: names are resolved by the system, without a cache.
///
/// # Errors
/// As [`connect_tls`], of the last address; `NotFound` if the name has no address.
pub async fn dial(host: &str, port: u16, tls: Option<ClientTls<'_>>) -> io::Result<Stream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(host, port).await? {
        let attempt = match tls {
            None => connect(address).await,
            Some(tls) => connect_tls(address, tls.connector, tls.server_name).await,
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Resolves a host to addresses by the system, in the order in which to try them.
///
/// # Errors
/// If the name cannot be resolved.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_failure_of_a_node() {
        let alert =
            |alert| io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
        let certificate = |error| {
            let error = rustls::Error::InvalidCertificate(error);
            io::Error::new(io::ErrorKind::InvalidData, error)
        };
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        for (error, expected) in [
            (of(Errno::MFILE), true),
            (of(Errno::NFILE), true),
            (of(Errno::NOBUFS), true),
            (of(Errno::NOMEM), true),
            (of(Errno::ADDRNOTAVAIL), true),
            (of(Errno::CONNREFUSED), false),
            (of(Errno::HOSTUNREACH), false),
            (of(Errno::CONNRESET), false),
            (io::Error::from(io::ErrorKind::TimedOut), false),
            (io::Error::new(io::ErrorKind::InvalidInput, "no name"), true),
            (io::Error::other("handshake"), false),
            (alert(AlertDescription::UnrecognisedName), true),
            (alert(AlertDescription::HandshakeFailure), true),
            (alert(AlertDescription::InternalError), false),
            (certificate(CertificateError::NotValidForName), true),
            (certificate(CertificateError::UnknownIssuer), false),
            (certificate(CertificateError::Expired), false),
        ] {
            assert_eq!(is_no_failure_of_node(&error), expected, "{error}");
        }
    }
}
