//! Processes long bodies on separate threads, so that other requests of the core do not wait.
//!
//! A few threads per process with low priority, because a long body can wait and a short request
//! cannot. The queue is bounded by the memory budget, from which every body has reserved its bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;
use tollhouse_stdx::Reservation;

/// Work on at most this many bytes is done inline; it takes a few hundred microseconds.
pub(crate) const INLINE_BYTES_MAX: usize = 32 * 1024;

/// Buffers of at least this many bytes are freed on another thread, because unmapping 60 MB takes
/// milliseconds.
pub(crate) const DISCARDED_BYTES_MIN: usize = 1 << 20;

/// Maximum number of threads; more concurrent long bodies would only slow each other down.
const THREADS_MAX: usize = 4;

/// Niceness of the threads, which share cores with the serving threads.
const NICENESS: i32 = 10;

/// Stack size, sufficient for nested schemas; pages are not touched before they are needed.
const STACK_BYTES: usize = 8 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Queue of the threads; `None` if none could be started.
static JOBS: OnceLock<Option<Mutex<Sender<Job>>>> = OnceLock::new();

/// Runs `job` with `body` on a thread for long bodies. Returns the body and the result, which is
/// `None` after a panic.
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
        // Fails if the receiver is gone because the client left; the body is dropped then.
        let _ = reply.send((body, result));
    };
    submit(Box::new(job));
    answer.await.ok()
}

/// Drops a body and its reservation, on another thread if the body is long.
#[inline]
pub(crate) fn give_back(bytes: Vec<u8>, reservation: Option<Reservation>) {
    if bytes.capacity() >= DISCARDED_BYTES_MIN {
        discard((bytes, reservation));
    }
}

/// Drops a large value on another thread.
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
    // Without threads, the job runs inline.
    if let Some(job) = unsent {
        job();
    }
}

/// Starts the threads; `None` if none could be started.
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

/// Lowers the priority of the calling thread and lets it run on every core, because it inherits the
/// affinity of a serving thread. Failures are harmless.
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
