//! Looks into long bodies on threads of their own, so that no other request of the core waits.
//!
//! A few threads a process, of low priority: a long body can wait, a short request cannot. What
//! waits for them is bounded by the budget that every body has taken its bytes from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;
use tollhouse_stdx::Reservation;

/// Shorter work, in bytes to look at, is done at once: some hundred microseconds.
pub(crate) const INLINE_BYTES_MAX: usize = 32 * 1024;

/// From here on, in bytes, another thread gives memory back to the system: taking apart what maps 60 MB takes
/// milliseconds.
pub(crate) const DISCARDED_BYTES_MIN: usize = 1 << 20;

/// Threads at most: more long bodies at once would only slow each other down.
const THREADS_MAX: usize = 4;

/// How much these threads step back where they share a core with serving ones.
const NICENESS: i32 = 10;

/// Room for nested schemas; it is not touched before it is needed.
const STACK_BYTES: usize = 8 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Where jobs go.
static JOBS: OnceLock<Option<Mutex<Sender<Job>>>> = OnceLock::new();

/// Runs `job` on a thread for long bodies, with what it looks at, which comes back beside its
/// result; no result where it has panicked.
pub(crate) async fn run<B, T>(
    body: B,
    job: impl FnOnce(&mut B) -> T + Send + 'static,
) -> Option<(B, Option<T>)>
where
    B: Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job = move || {
        let mut body = body;
        let result = catch_unwind(AssertUnwindSafe(|| job(&mut body))).ok();
        // Nobody waits for it any more: the client is gone, and so is its body.
        let _ = reply.send((body, result));
    };
    submit(Box::new(job));
    answer.await.ok()
}

/// Drops a body, and what it takes of the budget with it: elsewhere where it is long.
#[inline]
pub(crate) fn give_back(bytes: Vec<u8>, reservation: Option<Reservation>) {
    if bytes.capacity() >= DISCARDED_BYTES_MIN {
        discard((bytes, reservation));
    }
}

/// Drops something that takes long to drop.
#[cold]
pub(crate) fn discard(large: impl Send + 'static) {
    submit(Box::new(move || drop(large)));
}

fn submit(job: Job) {
    let jobs = JOBS.get_or_init(|| start().map(Mutex::new));
    let unsent = match jobs {
        Some(sender) => {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            sender.send(job).map_err(|unsent| unsent.0).err()
        }
        None => Some(job),
    };
    // Without threads, late is better than never.
    if let Some(job) = unsent {
        job();
    }
}

/// Starts the threads; `None` where there can be none.
fn start() -> Option<Sender<Job>> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (0..cores.clamp(1, THREADS_MAX)).filter(|number| {
        let receiver = Arc::clone(&receiver);
        let thread = std::thread::Builder::new().name(format!("bodies-{number}"));
        thread.stack_size(STACK_BYTES).spawn(move || serve(&receiver)).is_ok()
    });
    (threads.count() > 0).then_some(sender)
}

fn serve(jobs: &Mutex<Receiver<Job>>) {
    step_back();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

/// Lowers the priority of the calling thread, and lets it run on every core: it was started by a
/// thread that is tied to one. Failing is harmless.
fn step_back() {
    if let Err(error) = tollhouse_stdx::priority::stand_back(NICENESS) {
        tracing::debug!(%error, "priority of a thread for bodies cannot be lowered");
    }
    let whole = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()));
    if let Err(error) = whole.and_then(|set| rustix::thread::sched_setaffinity(None, &set)) {
        tracing::debug!(%error, "a thread for bodies stays on the core that started it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_comes_back_also_from_a_panic() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let body = vec![1_u8, 2];
            let (body, sum) = run(body, |body| body.iter().sum::<u8>()).await.expect("a reply");
            assert_eq!((body.len(), sum), (2, Some(3)));
            let (body, nothing) = run(body, |body| body[5]).await.expect("a reply");
            assert_eq!((body.len(), nothing), (2, None));
        });
    }
}
