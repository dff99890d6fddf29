//! Steady load during a test: clients that send requests, reuse connections, and count responses.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::message::{Message, Side};
use crate::patience::DEADLINE;
use crate::wire::Wire;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Each client keeps its connection for as long as it stays open.
    KeepAlive,
    /// A new connection for each request.
    Never,
}

#[derive(Debug)]
pub struct Load {
    ended: Arc<AtomicBool>,
    answered: Arc<Tally>,
    threads: Vec<JoinHandle<LoadReport>>,
}

/// Number of responses so far, with a way to wait for more.
#[derive(Debug, Default)]
struct Tally {
    count: Mutex<u64>,
    grown: Condvar,
}

impl Tally {
    fn add_one(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.grown.notify_all();
    }

    fn wait_more(&self, more: u64) {
        let end = Instant::now() + DEADLINE;
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = *count + more;
        while *count < wanted {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {count} of {wanted} answers came under load");
            count = self.grown.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Counts of the clients' answers and lost requests.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// Number of responses of each kind: status, a space, and the body.
    pub answers: BTreeMap<String, u64>,
    /// Requests that were sent but got no complete response.
    pub lost: Vec<String>,
    /// Refused connections; the client then stopped.
    pub refused: u64,
}

impl LoadReport {
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }

    fn add(&mut self, other: LoadReport) {
        for (kind, count) in other.answers {
            *self.answers.entry(kind).or_default() += count;
        }
        self.lost.extend(other.lost);
        self.refused += other.refused;
    }
}

impl Load {
    /// Starts `clients` clients that request `target` repeatedly.
    pub fn start(address: SocketAddr, clients: usize, reuse: Reuse, target: &str) -> Self {
        let (ended, answered) = (Arc::<AtomicBool>::default(), Arc::<Tally>::default());
        let request = format!("GET {target} HTTP/1.1\r\nHost: load.test\r\n\r\n").into_bytes();
        let threads = (0..clients).map(|_| {
            let mut client = Client {
                address,
                reuse,
                request: request.clone(),
                ended: Arc::clone(&ended),
                answered: Arc::clone(&answered),
                report: LoadReport::default(),
            };
            std::thread::spawn(move || {
                client.run();
                client.report
            })
        });
        let threads = threads.collect();
        Self { ended, answered, threads }
    }

    /// Waits for `count` more responses.
    ///
    /// # Panics
    ///
    /// If they do not arrive in time.
    pub fn wait_answers(&self, count: u64) {
        self.answered.wait_more(count);
    }

    /// Ends the load. Each client first completes its open request.
    ///
    /// # Panics
    ///
    /// If a client panics.
    pub fn stop(self) -> LoadReport {
        self.ended.store(true, Ordering::Release);
        self.join()
    }

    /// Waits until every client has stopped because its connection was refused.
    ///
    /// # Panics
    ///
    /// If a client panics.
    pub fn join(self) -> LoadReport {
        let mut report = LoadReport::default();
        for thread in self.threads {
            report.add(thread.join().expect("a client does not panic"));
        }
        report
    }
}

struct Client {
    address: SocketAddr,
    reuse: Reuse,
    request: Vec<u8>,
    ended: Arc<AtomicBool>,
    answered: Arc<Tally>,
    report: LoadReport,
}

impl Client {
    fn run(&mut self) {
        while !self.ended.load(Ordering::Acquire) {
            match TcpStream::connect(self.address).and_then(Wire::new) {
                Ok(wire) => self.use_up(wire),
                Err(_) => {
                    self.report.refused += 1;
                    return;
                }
            }
        }
    }

    /// Sends requests over one connection until it must be closed.
    fn use_up(&mut self, mut wire: Wire) {
        let mut asked = 0_u64;
        while !self.ended.load(Ordering::Acquire) {
            match self.ask(&mut wire) {
                Ok(answer) => {
                    asked += 1;
                    let kind = format!("{} {}", answer.status(), answer.text());
                    *self.report.answers.entry(kind).or_default() += 1;
                    self.answered.add_one();
                    if answer.field("connection") == Some("close") || self.reuse == Reuse::Never {
                        return;
                    }
                }
                Err(error) => {
                    let kind = error.kind();
                    self.report
                        .lost
                        .push(format!("{kind} after answers: {asked} on this connection"));
                    return;
                }
            }
        }
    }

    fn ask(&self, wire: &mut Wire) -> io::Result<Message> {
        wire.send(&self.request)?;
        Message::read(wire, Side::Answer)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
