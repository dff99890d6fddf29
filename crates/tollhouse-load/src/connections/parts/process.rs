//! What a process of the coordinator does: reads its order, does it on one thread, tells how it goes,
//! and ends when its input does, so that none outlives the coordinator.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use super::{LINE_BYTES_MAX, write_line};
use crate::connections::holder::Holder;
use crate::connections::message::{Done, HoldOrder, Order, ServeOrder, Tally, Update};
use crate::connections::server::{Listening, Server};
use crate::error::BenchError;
use crate::preflight::raise_descriptors;

/// How often the counts are told.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Lines of the coordinator that may wait: it sends one.
const LINES_MAX: usize = 4;

/// Does what the first line of the input says until the input ends.
///
/// # Errors
/// What cannot be done; the coordinator has been told.
pub fn serve_part(input: impl Read + Send + 'static, output: impl Write) -> Result<(), BenchError> {
    let mut output = output;
    let done = follow(input, &mut output);
    if let Err(error) = &done {
        // A coordinator that has gone away needs no explanation.
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
        // The other end is this program, but whoever finds the option may write anything.
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
        // Reading standard input blocks, and what must not wait runs on this thread alone.
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

/// Passes lines on until the input ends; the end of the channel is the end of the work.
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

/// Tells the counts until there is nobody to tell them to.
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

fn finish(output: &mut dyn Write, done: Done) -> Result<(), BenchError> {
    reported(say(output, &Update::Done(Box::new(done))))
}

fn say(output: &mut dyn Write, update: &Update) -> io::Result<()> {
    write_line(output, &serde_json::to_string(update)?)
}

fn reported(written: io::Result<()>) -> Result<(), BenchError> {
    written.map_err(|error| BenchError::System { doing: "telling the coordinator".into(), error })
}
