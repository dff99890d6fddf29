//! How a core runs: its listeners, its housekeeping, and how it drains.

use std::rc::Rc;

use tokio::runtime::LocalRuntime;
use tokio::sync::watch;

use crate::worker::{Phase, Worker, WorkerListener, WorkerParts};

mod accept;
mod housekeeping;

impl Worker {
    /// Runs a core on the calling thread until it has drained.
    ///
    /// # Errors
    /// When the thread's reactor cannot be made, or a listener not be registered.
    pub fn run(parts: WorkerParts) -> std::io::Result<()> {
        let runtime: LocalRuntime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build_local(Default::default())?;
        let (worker, listeners, phase) = Self::new(parts);
        runtime.block_on(worker.serve(listeners, phase))
    }

    async fn serve(
        self: Rc<Self>,
        listeners: Vec<WorkerListener>,
        mut phase: watch::Receiver<Phase>,
    ) -> std::io::Result<()> {
        let ticker = tokio::task::spawn_local(housekeeping::tick(Rc::clone(&self)));
        let housekeeper = tokio::task::spawn_local(housekeeping::look_round(Rc::clone(&self)));
        let mut acceptors = Vec::new();
        for listener in listeners {
            let socket = tokio::net::TcpListener::from_std(listener.socket)?;
            let entrance = (socket, listener.transport);
            let accepting = accept::run(Rc::clone(&self), entrance, phase.clone());
            acceptors.push(tokio::task::spawn_local(accepting));
        }
        // An error means that the control side is gone, which also ends serving.
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
        self.begin_drain();
        for acceptor in acceptors {
            let _ = acceptor.await;
        }
        self.drain(phase).await;
        ticker.abort();
        housekeeper.abort();
        self.flush_log();
        Ok(())
    }

    /// Waits for what is under way, but not for ever.
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
