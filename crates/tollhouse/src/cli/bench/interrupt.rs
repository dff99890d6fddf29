//! Interrupts: the first Ctrl-C ends a measurement early and lets it report, the second ends the
//! program.

use std::io;

use tollhouse_load::error::BenchError;
use tollhouse_load::run::Stop;

/// Exit code that shells show for a program ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Returns a stop signal that Ctrl-C or SIGTERM sets.
///
/// # Errors
/// If signal handlers cannot be installed.
pub fn stop_on_interrupt() -> Result<Stop, BenchError> {
    let stop = Stop::default();
    let stopped = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listening = runtime.and_then(|runtime| {
        let mut signals = {
            // Installs the handlers before the function returns, not when the thread first runs.
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

/// Signals (Ctrl-C and SIGTERM) that end a measurement early. The results up to then are still
/// printed.
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
