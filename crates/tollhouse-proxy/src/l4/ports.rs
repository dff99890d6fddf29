//! Acceptors of a core for the ports of ShenYu objects: opens acceptors for new ports and stops
//! those of removed ones. The sockets are in `open_ports.rs`.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::listener::{HeaderIn, HeaderOut, StreamOptions, StreamTls};
use super::tcp;
use crate::run::accept;
use crate::worker::{Phase, Worker};

/// Interval between checks of the wanted ports.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Options of these ports: bytes are passed through unchanged.
const OPTIONS: StreamOptions = StreamOptions {
    tls: StreamTls::Off,
    header_in: HeaderIn::Absent,
    header_out: HeaderOut::Absent,
};

/// Keeps acceptors for the ports that the snapshot contains, until the drain begins.
pub(crate) async fn follow(worker: Rc<Worker>, mut phase: watch::Receiver<Phase>) {
    let Some(ports) = worker.settings.shenyu.ports.clone() else { return };
    let mut acceptors: BTreeMap<u16, JoinHandle<()>> = BTreeMap::new();
    let mut refused: Vec<u16> = Vec::new();
    loop {
        let wanted = wanted(&worker);
        ports.keep(&wanted);
        // Stopped before new ones start, so that a port that changes hands is free.
        acceptors.retain(|port, acceptor| {
            let stays = wanted.contains(port) && !acceptor.is_finished();
            if !stays {
                acceptor.abort();
            }
            stays
        });
        refused.retain(|port| wanted.contains(port));
        for port in wanted {
            if acceptors.contains_key(&port) {
                continue;
            }
            match ports.listen(port).and_then(TcpListener::from_std) {
                Ok(listener) => {
                    refused.retain(|other| *other != port);
                    let accepting = accept_all(Rc::clone(&worker), listener);
                    acceptors.insert(port, tokio::task::spawn_local(accepting));
                }
                Err(error) if !refused.contains(&port) => {
                    tracing::warn!(port, %error, "a port of ShenYu's tcp cannot be opened; it is tried again");
                    refused.push(port);
                }
                Err(_) => {}
            }
        }
        let is_serving = |phase: &Phase| *phase == Phase::Serving;
        tokio::select! {
            _ = phase.wait_for(|phase| !is_serving(phase)) => break,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
    acceptors.values().for_each(JoinHandle::abort);
    ports.keep(&[]);
}

fn wanted(worker: &Worker) -> Vec<u16> {
    let snapshot = worker.snapshot.take();
    let targets = snapshot.shenyu.as_ref().map(|table| table.chain.tcp_targets());
    targets.unwrap_or_default().iter().map(|target| target.port).collect()
}

async fn accept_all(worker: Rc<Worker>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => tcp::start(&worker, OPTIONS, stream, peer),
            Err(error) => accept::pause(&worker, &error).await,
        }
    }
}
