//! Reading: two threads, each with a connection and a queue of its own, that do one read after the
//! other: one for single entries, one for lists, so that a look-up never waits for a long list.
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

/// Reads that wait for one thread; whoever comes after them waits without a place in the queue.
const QUEUED_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The reading threads.
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

    /// Reads what is found by one look.
    pub(super) async fn get<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.gets.read(read).await
    }

    /// Reads what may be as long as the store.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.lists.read(read).await
    }
}

/// A thread with a connection, and the reads that wait for it.
struct Lane {
    path: PathBuf,
    /// Taken away to end the thread.
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

    /// Has the thread do a read.
    async fn read<T: Send + 'static>(
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

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by it; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

fn work(mut connection: Connection, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        job(&mut connection);
    }
}
