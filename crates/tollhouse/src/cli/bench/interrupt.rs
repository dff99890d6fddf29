//! Ctrl-C ends a measurement early and lets it report; a second one ends the program at once.

use std::io;

use tollhouse_load::error::BenchError;
use tollhouse_load::run::Stop;

/// What a shell shows for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// What Ctrl-C, or SIGTERM, stops from now on.
///
/// # Errors
/// When signals cannot be waited for.
pub fn stop_on_interrupt() -> Result<Stop, BenchError> {
    let stop = Stop::default();
    let stopped = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listening = runtime.and_then(|runtime| {
        let mut signals = {
            // The handlers are in place when this returns, not when the thread gets its first turn.
            let _guard = runtime.enter();
            Signals::new()?
        };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                stopped.stop();
                signals.next().await;
                std::process::exit(INTERRUPTED);
            });
        })
    });
    match listening {
        Ok(_) => Ok(stop),
        Err(error) => Err(BenchError::System { doing: "waiting for signals".into(), error }),
    }
}

/// The signals that ask for the end.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
