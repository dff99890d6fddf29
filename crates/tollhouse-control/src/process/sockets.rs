//! Sockets of the data plane: bound or inherited from a predecessor, and distributed to the
//! workers.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{
    HeaderToNodes, StreamListen, StreamProtocol, StreamTls, UnixListen,
};
use tollhouse_net::handover::Inheritance;
use tollhouse_net::unix::UnixListeners;
use tollhouse_net::{DatagramSockets, Listeners};
use tollhouse_proxy::l4::{self, HeaderIn, HeaderOut, StreamListener, StreamOptions, StreamSocket};
use tollhouse_proxy::worker::{Transport, WorkerListener};
use tollhouse_stdx::UnixPath;

use super::cores::Entrance;

/// All sockets by their use. Each address has one socket per worker.
#[derive(Debug)]
pub struct Sockets {
    http: Vec<Entrance>,
    proxied: Vec<Entrance>,
    unix: Vec<UnixListeners>,
    streams: Vec<(StreamOptions, StreamSockets)>,
}

#[derive(Debug)]
enum StreamSockets {
    Tcp(Listeners),
    Udp(DatagramSockets),
}

/// Listening sockets of one worker.
#[derive(Debug, Default)]
pub struct CoreSockets {
    /// Listeners for HTTP, with and without TLS.
    pub http: Vec<WorkerListener>,
    /// Listeners for HTTP behind PROXY protocol headers.
    pub proxied: Vec<WorkerListener>,
    /// Listeners for HTTP on Unix sockets.
    pub unix: Vec<UnixListener>,
    /// Listeners for stream routes.
    pub streams: Vec<StreamListener>,
}

impl Sockets {
    /// Binds all addresses of the data plane, or takes their sockets from a predecessor.
    ///
    /// # Errors
    /// If an address cannot be listened on; the text has the remedy.
    pub fn listen(
        bootstrap: &Bootstrap,
        workers: usize,
        inheritance: Option<&mut Inheritance>,
    ) -> anyhow::Result<Self> {
        let mut source = Source { workers, inheritance };
        let listen = &bootstrap.listen;
        let mut streams = Vec::new();
        let http = source.entrances(&listen.http, &listen.https)?;
        let proxied = source.entrances(&listen.http_proxied, &listen.https_proxied)?;
        let unix = listen.unix.iter().map(|it| source.unix(it)).collect::<Result<_, _>>()?;
        for listener in &listen.stream {
            let sockets = match listener.protocol {
                StreamProtocol::Tcp => StreamSockets::Tcp(source.listeners(listener.address)?),
                StreamProtocol::Udp => StreamSockets::Udp(source.datagrams(listener.address)?),
            };
            streams.push((options(listener), sockets));
        }
        Ok(Self { http, proxied, unix, streams })
    }

    /// Returns the address of each HTTP listener with its transport (plain or TLS). Listeners that
    /// expect PROXY headers are included, Unix sockets are not.
    pub fn http_addresses(&self) -> Vec<(SocketAddr, Transport)> {
        let all = self.http.iter().chain(&self.proxied);
        all.map(|entrance| (entrance.address(), entrance.transport)).collect()
    }

    /// Returns the Unix sockets on which HTTP is served.
    pub fn unix_paths(&self) -> Vec<UnixPath> {
        self.unix.iter().map(|listeners| listeners.path).collect()
    }

    /// Returns the addresses of stream listeners, each with `tcp` or `udp`.
    pub fn stream_addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let address = |(_, sockets): &(StreamOptions, StreamSockets)| match sockets {
            StreamSockets::Tcp(listeners) => ("tcp", listeners.address),
            StreamSockets::Udp(sockets) => ("udp", sockets.address),
        };
        self.streams.iter().map(address).collect()
    }

    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let http = self.http.iter().chain(&self.proxied).map(|entrance| &entrance.listeners);
        let http = http.flat_map(|it| &it.sockets).map(AsFd::as_fd);
        let streams = self.streams.iter().flat_map(|(_, sockets)| {
            let all: Vec<BorrowedFd<'_>> = match sockets {
                StreamSockets::Tcp(listeners) => {
                    listeners.sockets.iter().map(AsFd::as_fd).collect()
                }
                StreamSockets::Udp(sockets) => sockets.sockets.iter().map(AsFd::as_fd).collect(),
            };
            all
        });
        let unix = self.unix.iter().flat_map(|it| &it.sockets).map(AsFd::as_fd);
        http.chain(unix).chain(streams)
    }

    /// Distributes the sockets to `workers` workers. Sockets beyond one per worker are distributed
    /// in turn.
    pub fn share(self, workers: usize) -> Vec<CoreSockets> {
        let mut shares: Vec<CoreSockets> = (0..workers).map(|_| CoreSockets::default()).collect();
        for Entrance { listeners, transport } in self.http {
            for (index, socket) in listeners.sockets.into_iter().enumerate() {
                shares[index % workers].http.push(WorkerListener { socket, transport });
            }
        }
        for Entrance { listeners, transport } in self.proxied {
            for (index, socket) in listeners.sockets.into_iter().enumerate() {
                shares[index % workers].proxied.push(WorkerListener { socket, transport });
            }
        }
        for UnixListeners { sockets, .. } in self.unix {
            for (index, socket) in sockets.into_iter().enumerate() {
                shares[index % workers].unix.push(socket);
            }
        }
        for (options, sockets) in self.streams {
            let sockets: Vec<StreamSocket> = match sockets {
                StreamSockets::Tcp(it) => it.sockets.into_iter().map(StreamSocket::Tcp).collect(),
                StreamSockets::Udp(it) => it.sockets.into_iter().map(StreamSocket::Udp).collect(),
            };
            for (index, socket) in sockets.into_iter().enumerate() {
                shares[index % workers].streams.push(StreamListener { socket, options });
            }
        }
        shares
    }
}

/// Sockets of HTTP listeners only.
impl From<Vec<Entrance>> for Sockets {
    fn from(http: Vec<Entrance>) -> Self {
        Self { http, proxied: Vec::new(), unix: Vec::new(), streams: Vec::new() }
    }
}

/// Creates sockets: inherited if possible, otherwise bound.
struct Source<'i> {
    workers: usize,
    inheritance: Option<&'i mut Inheritance>,
}

impl Source<'_> {
    fn entrances(
        &mut self,
        plain: &[SocketAddr],
        tls: &[SocketAddr],
    ) -> anyhow::Result<Vec<Entrance>> {
        let plain = plain.iter().map(|address| (*address, Transport::Plain));
        let tls = tls.iter().map(|address| (*address, Transport::Tls));
        plain
            .chain(tls)
            .map(|(address, transport)| {
                Ok(Entrance { listeners: self.listeners(address)?, transport })
            })
            .collect()
    }

    fn listeners(&mut self, address: SocketAddr) -> anyhow::Result<Listeners> {
        let inherited = self.inheritance.as_mut().map(|from| from.take(address));
        Ok(match inherited.filter(|sockets| !sockets.is_empty()) {
            None => Listeners::bind(address, self.workers)?,
            Some(sockets) => Listeners::adopt(address, sockets, self.workers)?,
        })
    }

    fn unix(&mut self, listen: &UnixListen) -> anyhow::Result<UnixListeners> {
        let inherited = self.inheritance.as_mut().and_then(|from| from.take_unix(listen.path));
        Ok(match inherited {
            None => UnixListeners::bind(listen.path, listen.mode, self.workers)?,
            Some(socket) => UnixListeners::adopt(listen.path, socket, self.workers)?,
        })
    }

    fn datagrams(&mut self, address: SocketAddr) -> anyhow::Result<DatagramSockets> {
        let inherited = self.inheritance.as_mut().map(|from| from.take_datagrams(address));
        Ok(match inherited.filter(|sockets| !sockets.is_empty()) {
            None => DatagramSockets::bind(address, self.workers)?,
            Some(sockets) => DatagramSockets::adopt(address, sockets, self.workers)?,
        })
    }
}

/// Returns the stream options of the data plane for a listener in the bootstrap file.
fn options(listener: &StreamListen) -> StreamOptions {
    StreamOptions {
        tls: match listener.tls {
            StreamTls::Off => l4::StreamTls::Off,
            StreamTls::PassThrough => l4::StreamTls::PassThrough,
            StreamTls::Terminated => l4::StreamTls::Terminated,
        },
        header_in: if listener.proxy_protocol { HeaderIn::Required } else { HeaderIn::Absent },
        header_out: match listener.to_upstream {
            HeaderToNodes::None => HeaderOut::Absent,
            HeaderToNodes::V1 => HeaderOut::V1,
            HeaderToNodes::V2 => HeaderOut::V2,
        },
    }
}
