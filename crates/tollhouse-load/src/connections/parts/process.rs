//! Main function of a child process: reads its order, executes it on one thread, reports progress,
//! and ends when its input ends, so that it never outlives the coordinator.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use super::{LINE_BYTES_MAX, write_line};
use crate::connections::holder::Holder;
use crate::connections::message::{FinalReport, HoldOrder, Order, ServeOrder, Tally, Update};
use crate::connections::server::{Listening, Server};
use crate::error::BenchError;
use crate::preflight::raise_descriptors;

/// Interval between reports of the counts.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of queued lines from the coordinator, which sends one.
const LINES_MAX: usize = 4;

/// Executes the order in the first line of the input until the input ends.
///
/// # Errors
/// If the order is invalid or cannot be executed; the coordinator has been told the reason.
pub fn serve_part(input: impl Read + Send + 'static, output: impl Write) -> Result<(), BenchError> {
    let mut output = output;
    let done = follow(input, &mut output);
    if let Err(error) = &done {
        // Ignored, because the coordinator may be gone.
        let _ = say(&mut output, &Update::Failed(error.to_string()));
    }
    done
}

fn follow(input: impl Read + Send + 'static, output: &mut dyn Write) -> Result<(), BenchError> {
    let system = |doing: &str| {
        let doing = doing.to_owned();
        move |error| BenchError::System { doing, error }
    };
    let mut input = BufReader::new(input);
    let mut line = String::new();
    input
        .by_ref()
        // The size is bounded because a user may start this hidden command with arbitrary input.
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)
        .map_err(system("reading what to hold"))?;
    let order: Order = serde_json::from_str(&line).map_err(|_| {
        BenchError::Machine(
            "this command is for `tollhouse bench connections` itself; leave --part out".into(),
        )
    })?;
    raise_descriptors(0);
    let (lines, control) = mpsc::channel(LINES_MAX);
    std::thread::Builder::new()
        .name("control".into())
        // Reading standard input blocks, so that it needs a separate thread.
        .spawn(move || listen(input, &lines))
        .map_err(system("starting a thread"))?;
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(system("starting a runtime"))?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        match order {
            Order::Hold(order) => hold(*order, control, output).await,
            Order::Serve(order) => serve(&order, control, output).await,
        }
    })
}

/// Forwards lines until the input ends; closing the channel ends the work.
fn listen(input: BufReader<impl Read>, lines: &mpsc::Sender<()>) {
    for line in input.lines() {
        if line.is_err() || lines.blocking_send(()).is_err() {
            return;
        }
    }
}

async fn hold(
    order: HoldOrder,
    mut control: mpsc::Receiver<()>,
    output: &mut dyn Write,
) -> Result<(), BenchError> {
    let holder = Rc::new(Holder::new(order)?);
    reported(say(output, &Update::Ready(Vec::new())))?;
    if control.recv().await.is_none() {
        return Ok(());
    }
    spawn_local(Rc::clone(&holder).open_all());
    report_until_end(control, output, || holder.tally()).await?;
    finish(output, holder.done())
}

async fn serve(
    order: &ServeOrder,
    control: mpsc::Receiver<()>,
    output: &mut dyn Write,
) -> Result<(), BenchError> {
    let Listening { server, listeners, addresses } = Server::bind(order)?;
    for listener in listeners {
        spawn_local(Rc::clone(&server).accept(listener));
    }
    reported(say(output, &Update::Ready(addresses)))?;
    report_until_end(control, output, || server.tally()).await?;
    finish(output, server.done())
}

/// Reports the counts periodically until the control channel closes.
async fn report_until_end(
    mut control: mpsc::Receiver<()>,
    output: &mut dyn Write,
    tally: impl Fn() -> Tally,
) -> Result<(), BenchError> {
    let mut tick = interval(REPORT_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            line = control.recv() => if line.is_none() { return Ok(()) },
            _ = tick.tick() => reported(say(output, &Update::Tally(tally())))?,
        }
    }
}

fn finish(output: &mut dyn Write, done: FinalReport) -> Result<(), BenchError> {
    reported(say(output, &Update::FinalReport(Box::new(done))))
}

fn say(output: &mut dyn Write, update: &Update) -> io::Result<()> {
    write_line(output, &serde_json::to_string(update)?)
}

fn reported(written: io::Result<()>) -> Result<(), BenchError> {
    written.map_err(|error| BenchError::System { doing: "telling the coordinator".into(), error })
}
