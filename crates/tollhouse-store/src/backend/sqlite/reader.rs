//! Reading: a few threads, each with a connection, that do one read after the other.
//!
//! A read sees the newest commit that was acknowledged before it began, and never waits for writes.

use super::error::from_sqlite;
use super::file;
use crate::error::StoreError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::{Semaphore, oneshot};

/// Two, so that single reads pass a long list or a backup; more would only compete with the threads
/// that serve requests.
const READERS: usize = 2;

/// Reads that wait for a thread; whoever comes after them waits without a place in the queue.
const QUEUED_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The reading threads.
pub(super) struct Readers {
    path: PathBuf,
    /// Taken away to end the threads.
    jobs: Option<SyncSender<Job>>,
    places: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Opens the connections and starts the threads.
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let (jobs, queue) = sync_channel(QUEUED_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut readers = Self {
            path: path.to_owned(),
            jobs: Some(jobs),
            places: Arc::new(Semaphore::new(QUEUED_MAX)),
            threads: Vec::with_capacity(READERS),
        };
        for number in 0..READERS {
            let connection = file::connect(path)?;
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new()
                .name(format!("store-reader-{number}"))
                .spawn(move || work(connection, &queue))
                .map_err(|error| StoreError::from_io(path, &error))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Has a thread do a read.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            drop(place);
            // Nobody may be waiting any more, which is their right.
            let _ = reply.send(read(connection));
        });
        // There is room for as many jobs as places are given out, so this never has to wait.
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.try_send(job).map_err(|_| StoreError::Closed)?;
        let read = answer.await.map_err(|_| StoreError::Closed)?;
        read.map_err(|error| from_sqlite(&self.path, &error))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of that thread has been reported by it; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

fn work(mut connection: Connection, queue: &Mutex<Receiver<Job>>) {
    loop {
        // One idle thread waits for the queue, the others for the lock: either way for a job.
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        job(&mut connection);
    }
}
