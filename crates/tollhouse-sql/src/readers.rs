//! Reads, each on a separate connection of a small pool.
//!
//! A read runs as a task, so that it continues if its caller gives up. An interrupted driver would
//! return the rest of the response to the next caller.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::limits::READERS_MAX;
use crate::options::SqlOptions;
use crate::packets::{ENTRY_COLUMNS, entry_tables, to_entry};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tollhouse_store::{Clock, Entry, Listing, Revision, StoreError};

pub(crate) struct Readers {
    options: SqlOptions,
    dialect: Dialect,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Entry with this key.
    Key(Box<str>),
    /// Entries under a prefix with keys after `after`, optionally limited in number.
    Prefix { prefix: Box<str>, after: Box<str>, entries_max: Option<usize> },
}

impl Readers {
    pub(crate) fn new(options: SqlOptions, dialect: Dialect) -> Arc<Self> {
        let permits = Semaphore::new(READERS_MAX);
        Arc::new(Self { options, dialect, idle: Mutex::default(), permits })
    }

    /// Reads the entries that `question` selects, all at one revision.
    pub(crate) async fn read(self: &Arc<Self>, question: Question) -> Result<Listing, StoreError> {
        let readers = Arc::clone(self);
        let task = tokio::spawn(async move { readers.read_now(&question).await });
        match task.await {
            Ok(read) => read.map_err(|failure| failure.to_error(&self.options.place())),
            Err(_) => Err(StoreError::Closed),
        }
    }

    async fn read_now(&self, question: &Question) -> Result<Listing, Failure> {
        let _permit = self.permits.acquire().await.map_err(|it| Failure::Lost(it.to_string()))?;
        // An idle connection may have been closed by the engine; on failure a new one is used.
        if let Some(mut connection) = self.take() {
            match self.ask(&mut connection, question).await {
                Ok(listing) => {
                    self.keep(connection);
                    return Ok(listing);
                }
                Err(failure) if failure.is_passing() => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut connection =
            Connection::open(&self.options, &self.dialect, Purpose::Reading).await?;
        let listing = self.ask(&mut connection, question).await?;
        self.keep(connection);
        Ok(listing)
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        question: &Question,
    ) -> Result<Listing, Failure> {
        let dialect = &self.dialect;
        let (condition, limit) = match question {
            Question::Key(key) => (format!("o.k IN {}", dialect.keys([key.as_bytes()])), None),
            Question::Prefix { prefix, after, entries_max } => {
                let range = dialect.begins_with(prefix).unwrap_or_else(|| "1 = 1".to_owned());
                let mut condition = range.replace("k >= ", "o.k >= ").replace("k < ", "o.k < ");
                if !after.is_empty() {
                    condition.push_str(" AND o.k > ");
                    dialect.push_key(&mut condition, after.as_bytes());
                }
                (condition, *entries_max)
            }
        };
        let limit = limit.map(|entries| format!(" LIMIT {entries}")).unwrap_or_default();
        // Counter and objects are read in one transaction and one round trip, so that a listing has
        // exactly the revision it names.
        let sql = format!(
            "{}; SELECT rev FROM {} WHERE id = 1; SELECT {ENTRY_COLUMNS} FROM {} WHERE {condition} ORDER \
             BY o.k{limit}; COMMIT",
            dialect.begin_reading(),
            dialect.table("counter"),
            entry_tables(dialect),
        );
        let mut sets = connection.run(sql).await?.into_iter().skip(1);
        let counter = sets.next().unwrap_or_default();
        let revision =
            counter.rows.first().map(|row| row.count(0)).transpose()?.unwrap_or_default();
        let now_ms = Clock::System.now_ms();
        let rows = sets.next().unwrap_or_default().rows;
        let entries = rows.iter().map(|row| to_entry(row, now_ms));
        let entries = entries.collect::<Result<Vec<Entry>, Failure>>()?;
        Ok(Listing { revision: Revision(revision), entries })
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}
