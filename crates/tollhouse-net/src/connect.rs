//! Opens connections to upstream nodes.

use std::io;
use std::net::SocketAddr;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use crate::Stream;
use crate::tls::Connector;

/// Connects over TCP, with small writes sent at once: a request head must not wait for an
/// acknowledgement.
///
/// # Errors
/// What the operating system says.
pub async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(Stream::Plain(tcp))
}

/// Connects over TCP and TLS; `name` is sent as SNI when it is a DNS name.
///
/// # Errors
/// What the operating system or the handshake says, or a name that is none.
pub async fn connect_tls(
    address: SocketAddr,
    connector: &Connector,
    name: &str,
) -> io::Result<Stream> {
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(Stream::Tls(Box::new(connector.inner().connect(name, tcp).await?)))
}
