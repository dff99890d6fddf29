//! Log servers behind sockets: batches over TCP or TLS, and datagrams. What a batch looks like is
//! up to the plugin.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tollhouse_net::Stream;
use tollhouse_net::connect::addresses;

use super::batch::{DeliveryError, Failure};
use crate::shared::dial::{Verification, dial_as};

/// Bytes for which the server has one step's time, so that a long batch may take longer.
const PART_BYTES: usize = 64 << 10;

/// Longest datagram over IPv4: 65,535 bytes less the headers of IP and UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Address of a log server, with the time for each step of a delivery.
#[derive(Debug)]
pub(crate) struct LogServer {
    pub host: String,
    pub port: u16,
    pub step_time_max: Duration,
}

/// Log server over TCP. Each batch has a connection of its own, which ends with it.
#[derive(Debug)]
pub(crate) struct TcpServer {
    pub server: LogServer,
    pub tls: Option<Verification>,
    /// Server name in the TLS handshake.
    pub server_name: String,
}

/// Content of the next datagram.
pub(crate) struct Datagram {
    /// Number of entries in it, at least one.
    pub entries: usize,
    pub text: String,
}

impl LogServer {
    /// Sends a batch in datagrams; `next` puts entries from the front into one. An entry that is
    /// longer than a datagram is lost.
    pub(crate) async fn send_datagrams(
        &self,
        batch: &[String],
        next: impl Fn(&[String]) -> Datagram + Send,
    ) -> Result<(), Failure> {
        let socket = self.in_time(self.connect()).await.map_err(|error| self.failed(error))?;
        let mut taken = 0;
        while let Some(left) = batch.get(taken..).filter(|left| !left.is_empty()) {
            let Datagram { entries, text } = next(left);
            let sent = match text.len() {
                ..=DATAGRAM_BYTES_MAX => self.in_time(socket.send(text.as_bytes())).await,
                _ => Err(io::Error::other("the entry is longer than a datagram")),
            };
            if let Err(error) = sent {
                let lost = usize::from(text.len() > DATAGRAM_BYTES_MAX);
                return Err(Failure { taken: taken + lost, lost, error: self.failed(error) });
            }
            taken += entries;
        }
        Ok(())
    }

    async fn connect(&self) -> io::Result<UdpSocket> {
        let address = addresses(&self.host, self.port).await?.into_iter().next();
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let local = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(address).await?;
        Ok(socket)
    }

    async fn in_time<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        timeout(self.step_time_max, step)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn failed(&self, error: io::Error) -> DeliveryError {
        DeliveryError::Socket { peer: format!("{}:{}", self.host, self.port), error }
    }
}

impl TcpServer {
    /// Sends a batch on a connection of its own.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(bytes).await.map_err(|error| self.server.failed(error).into())
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let LogServer { host, port, .. } = &self.server;
        let dialled = dial_as(host, *port, self.tls, &self.server_name);
        let mut stream = self.server.in_time(dialled).await?;
        for part in bytes.chunks(PART_BYTES) {
            self.server.in_time(stream.write_all(part)).await?;
            self.server.in_time(stream.flush()).await?;
        }
        self.server.in_time(stream.shutdown()).await?;
        if self.tls.is_some() {
            self.read_to_end(stream).await;
        }
        Ok(())
    }

    /// Waits until the server closes. Session tickets arrive unasked, and a connection that is
    /// dropped with unread bytes is reset, so that the server may lose what it has not read yet.
    async fn read_to_end(&self, mut stream: Stream) {
        let mut ignored = sink();
        // A server that never closes delays the next batch by one timeout.
        let _ = timeout(self.server.step_time_max, copy(&mut stream, &mut ignored)).await;
    }
}

/// Returns the first entry, without the line feed that ends it in a stream.
pub(crate) fn first_datagram(entries: &[String]) -> Datagram {
    let text = entries.first().map(|entry| entry.trim_end().to_owned());
    Datagram { entries: 1, text: text.unwrap_or_default() }
}

/// Returns the JSON array of the entries from the front that fit into one datagram.
pub(crate) fn array_datagram(entries: &[String]) -> Datagram {
    // One bracket before the entries; one byte after each, a comma or the last bracket.
    let mut bytes = 1;
    let fit = entries.iter().take_while(|entry| {
        bytes += entry.len() + 1;
        bytes <= DATAGRAM_BYTES_MAX
    });
    let count = fit.count().max(1);
    Datagram { entries: count, text: format!("[{}]", entries[..count].join(",")) }
}
