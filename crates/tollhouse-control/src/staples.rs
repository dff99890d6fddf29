//! OCSP stapling: fetches the status of served certificates from their responders, verifies it,
//! attaches it to handshakes, and renews it before it expires.
//!
//! Handshakes never wait: a certificate without a staple is sent alone. The module `board`
//! schedules, `fetch` queries a responder, and `folder` stores answers on disk.

mod board;
mod fetch;
mod folder;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::task::{Id as TaskId, JoinSet};
use tollhouse_proxy::Compiler;
use tollhouse_stdx::random::Random;
use tollhouse_telemetry::Metrics;

use self::board::{Board, HostCertificates, StatusQuery};
use self::folder::StapleFolder;

pub use self::board::StapleView;

/// Maximum sleep, so that a change of the system clock is noticed in time.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Permission to query OCSP responders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    On,
    /// Only answers that objects contain are used.
    Off,
}

/// OCSP staples of the certificates in service, renewed before they expire.
#[derive(Debug)]
pub struct Staples {
    board: Mutex<Board>,
    asking: Asking,
    folder: Arc<StapleFolder>,
    /// Compiler version of the certificates on the board; `None` before the first.
    version: Mutex<Option<u64>>,
    changed: Notify,
    metrics: Arc<Metrics>,
}

impl Staples {
    /// Creates the state without certificates. Answers are stored in the data folder.
    pub fn new(asking: Asking, data_dir: &Path, metrics: Arc<Metrics>) -> Self {
        Self {
            board: Mutex::new(Board::new(Random::from_process_entropy())),
            asking,
            folder: Arc::new(StapleFolder::in_folder(data_dir)),
            version: Mutex::new(None),
            changed: Notify::new(),
            metrics,
        }
    }

    /// Updates the served certificates. Certificates with a known answer have their staple when
    /// this returns. Costs a pass over all hosts if a certificate has changed.
    pub fn take_changes(&self, compiler: &Compiler) {
        let version = compiler.certificates_version();
        let mut known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.replace(version);
        if before == Some(version) {
            return;
        }
        let served = compiler.served_hosts().map(|(host, names)| HostCertificates {
            ssl: host.id.as_str(),
            names,
            identities: host.terms.identities(),
            given: &host.staples,
        });
        let mut board = self.board();
        let recall = |certificate: &_| match self.asking {
            Asking::On => self.folder.load(certificate),
            Asking::Off => None,
        };
        let has_less = board.serve(served, recall, now_unix_s());
        self.count_stapled(&board);
        let certificates = (has_less || before.is_none()).then(|| board.certificates());
        // Files are removed without the lock, because reports wait for it. Handshakes never do.
        drop(board);
        if let Some(certificates) = certificates {
            note(self.folder.retain(&certificates));
        }
        self.changed.notify_one();
    }

    /// Returns the state of each certificate that has or should have a staple.
    pub fn report(&self) -> Vec<StapleView> {
        self.board().report(now_unix_s())
    }

    /// Queries responders when due; never returns. Pending queries end when it is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut fetches = Fetches::default();
        loop {
            let wait = self.begin_due(&mut fetches);
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait) => {}
                Some(fetched) = fetches.tasks.join_next_with_id() => {
                    let (task, answer) = fetched.unwrap_or_else(|error| {
                        (error.id(), Err("the query was aborted".to_owned()))
                    });
                    if let Some(asked) = fetches.asked.remove(&task) {
                        self.take_answer(&asked, answer);
                        self.keep(asked).await;
                    }
                }
            }
        }
    }

    /// Starts the queries that are due; returns the time until the next.
    fn begin_due(&self, fetches: &mut Fetches) -> Duration {
        let mut board = self.board();
        let now = now_unix_s();
        self.count_stapled(&board);
        if self.asking == Asking::Off {
            return SLEEP_MAX;
        }
        for asked in board.ask(now) {
            let question = Arc::clone(&asked.question);
            let task = fetches.tasks.spawn(async move { fetch::ask(&question).await });
            fetches.asked.insert(task.id(), asked);
        }
        let next = board.next_look().map_or(SLEEP_MAX, |at| {
            Duration::from_secs(u64::try_from(at.saturating_sub(now)).unwrap_or_default())
        });
        next.clamp(Duration::from_millis(100), SLEEP_MAX)
    }

    fn take_answer(&self, asked: &StatusQuery, fetched: FetchResult) {
        let mut board = self.board();
        let outcome = board.answer(asked, fetched, now_unix_s());
        self.count_stapled(&board);
        drop(board);
        let process = self.metrics.process();
        match outcome {
            Ok(()) => process.ocsp_answers.increment(),
            Err(failure) => {
                process.ocsp_failures.increment();
                // Only the first failure in a row is logged; reports show the rest.
                if failure.is_first {
                    let (code, detail) = (failure.code, failure.detail);
                    match failure.is_refused {
                        true => tracing::warn!(
                            ssl = %asked.ssl(), code, detail,
                            "no OCSP answer for a certificate that requires a staple (must-staple); \
                             clients that check refuse it"
                        ),
                        false => tracing::warn!(
                            ssl = %asked.ssl(), code, detail,
                            "no OCSP answer for a certificate"
                        ),
                    }
                }
            }
        }
    }

    /// Stores the certificate's current answer, or deletes the stored one if none is valid. A slow
    /// disk only delays the processing of other answers.
    async fn keep(&self, asked: StatusQuery) {
        let answer = self.board().held(&asked);
        let folder = Arc::clone(&self.folder);
        let written = tokio::task::spawn_blocking(move || match answer {
            Some(answer) => folder.save(asked.certificate(), &answer),
            None => folder.forget(asked.certificate()),
        });
        if let Ok(written) = written.await {
            note(written);
        }
    }

    fn count_stapled(&self, board: &Board) {
        let stapled = board.stapled(now_unix_s());
        let stapled = i64::try_from(stapled).unwrap_or(i64::MAX);
        self.metrics.process().certificates_stapled.set(stapled);
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a storage error at debug level, because the next process can query the responder again.
fn note(written: std::io::Result<()>) {
    if let Err(error) = written {
        tracing::debug!(%error, "an OCSP answer cannot be kept in data_dir");
    }
}

#[derive(Default)]
struct Fetches {
    tasks: JoinSet<FetchResult>,
    asked: HashMap<TaskId, StatusQuery>,
}

/// Result of a query: the response bytes, or an error text.
type FetchResult = Result<Vec<u8>, String>;

fn now_unix_s() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
