//! Main loop of a core: its listeners, its housekeeping and its drain.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::runtime::LocalRuntime;
use tokio::sync::watch;
use tollhouse_net::unix::Acceptor;

use crate::l4::{StreamListener, StreamSocket, ports, tcp, udp};
use crate::worker::{Phase, Transport, Worker, WorkerListener, WorkerParts};

pub(crate) mod accept;
mod housekeeping;

/// Listening sockets that one core accepts from.
struct Sockets {
    http: Vec<WorkerListener>,
    proxied: Vec<WorkerListener>,
    unix: Vec<UnixListener>,
    streams: Vec<StreamListener>,
}

/// Function that starts serving an accepted connection.
type Start = Box<dyn Fn(&Rc<Worker>, TcpStream, SocketAddr)>;

impl Worker {
    /// Runs a core on the calling thread until it has drained.
    ///
    /// # Errors
    /// If the thread's reactor cannot be created or a listener cannot be registered.
    pub fn run(parts: WorkerParts) -> std::io::Result<()> {
        let runtime: LocalRuntime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build_local(Default::default())?;
        let mut parts = parts;
        let streams = std::mem::take(&mut parts.stream_listeners);
        let proxied = std::mem::take(&mut parts.proxied_listeners);
        let unix = std::mem::take(&mut parts.unix_listeners);
        let (worker, http, phase) = Self::new(parts);
        runtime.block_on(worker.serve(Sockets { http, proxied, unix, streams }, phase))
    }

    async fn serve(
        self: Rc<Self>,
        sockets: Sockets,
        mut phase: watch::Receiver<Phase>,
    ) -> std::io::Result<()> {
        let ticker = tokio::task::spawn_local(housekeeping::tick(Rc::clone(&self)));
        let housekeeper = tokio::task::spawn_local(housekeeping::look_round(Rc::clone(&self)));
        let mut acceptors = Vec::new();
        let mut accept_from = |listener: Acceptor, start: Start| {
            let accepting = accept::run(Rc::clone(&self), listener, phase.clone(), start);
            acceptors.push(tokio::task::spawn_local(accepting));
        };
        for socket in sockets.unix {
            let listener = tokio::net::UnixListener::from_std(socket)?;
            accept_from(Acceptor::Unix(listener), Box::new(accept::start));
        }
        let mut accept = |listener, start: Start| -> std::io::Result<()> {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            accept_from(Acceptor::Tcp(listener), start);
            Ok(())
        };
        for WorkerListener { socket, transport } in sockets.http {
            let start: Start = match transport {
                Transport::Plain => Box::new(accept::start),
                Transport::Tls => Box::new(accept::start_tls),
            };
            accept(socket, start)?;
        }
        for WorkerListener { socket, transport } in sockets.proxied {
            accept(
                socket,
                Box::new(move |worker, stream, peer| {
                    accept::start_proxied(worker, stream, peer, transport);
                }),
            )?;
        }
        let mut readers = Vec::new();
        for (number, listener) in sockets.streams.into_iter().enumerate() {
            let StreamListener { socket, options } = listener;
            match socket {
                StreamSocket::Tcp(listener) => accept(
                    listener,
                    Box::new(move |worker, stream, peer| {
                        tcp::start(worker, options, stream, peer);
                    }),
                )?,
                StreamSocket::Udp(socket) => readers.push((socket, number, options)),
            }
        }
        for (socket, number, options) in readers {
            let source = udp::Source { socket, number, options };
            let reading = udp::run(Rc::clone(&self), source, phase.clone());
            acceptors.push(tokio::task::spawn_local(reading));
        }
        let ports = tokio::task::spawn_local(ports::follow(Rc::clone(&self), phase.clone()));
        // An error means that the control side is gone, which also starts the drain.
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
        self.begin_drain();
        for acceptor in acceptors {
            let _ = acceptor.await;
        }
        self.drain(phase).await;
        ports.abort();
        ticker.abort();
        housekeeper.abort();
        self.flush_log();
        Ok(())
    }

    /// Waits for open connections to end; cuts them after the drain time or a second signal.
    async fn drain(&self, mut phase: watch::Receiver<Phase>) {
        let cut = |reason| {
            tracing::warn!(connections = self.open.len(), reason, "connections are cut");
        };
        tokio::select! {
            biased;
            () = self.open.none_left() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => cut("a second signal"),
            () = tokio::time::sleep(self.settings.drain_time) => cut("drain time is over"),
        }
    }
}
