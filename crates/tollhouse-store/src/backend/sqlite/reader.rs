//! Reads: two threads, each with a connection and a queue, one for single entries and one for
//! lists, so that a lookup never waits for a long list.
//!
//! A read sees the newest commit that was acknowledged before it began, and never waits for writes.

use super::error::from_sqlite;
use super::file;
use crate::error::StoreError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use tokio::sync::{Semaphore, oneshot};

/// Maximum number of queued reads per thread. Further callers wait for a place in the queue.
const QUEUED_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Threads that read: some for single keys, some for listings.
pub(super) struct Readers {
    gets: Lane,
    lists: Lane,
}

impl Readers {
    /// Opens the connections and starts the threads.
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let gets = Lane::start(path, "store-reader-get")?;
        let lists = Lane::start(path, "store-reader-list")?;
        Ok(Self { gets, lists })
    }

    /// Runs a short read, such as a lookup by key.
    pub(super) async fn get<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.gets.read(read).await
    }

    /// Runs a read whose duration may grow with the store.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.lists.read(read).await
    }
}

/// A thread with a connection and a queue of reads.
struct Lane {
    path: PathBuf,
    /// Sender of jobs; dropped to end the thread.
    jobs: Option<SyncSender<Job>>,
    places: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    fn start(path: &Path, name: &str) -> Result<Self, StoreError> {
        let (jobs, queue) = sync_channel(QUEUED_MAX);
        let connection = file::connect(path)?;
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(connection, &queue))
            .map_err(|error| StoreError::from_io(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            jobs: Some(jobs),
            places: Arc::new(Semaphore::new(QUEUED_MAX)),
            thread: Some(thread),
        })
    }

    /// Runs a read on the thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            drop(place);
            // The caller may have given up, which is fine.
            let _ = reply.send(read(connection));
        });
        // The channel has as many places as there are permits, so this never fails for lack of
        // space.
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.try_send(job).map_err(|_| StoreError::Closed)?;
        let read = answer.await.map_err(|_| StoreError::Closed)?;
        read.map_err(|error| from_sqlite(&self.path, &error))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}

fn work(mut connection: Connection, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        job(&mut connection);
    }
}
