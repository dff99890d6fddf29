//! The store file: locking, checks of ownership, integrity and format, and creation. A refused file
//! is not modified.

use super::error::from_sqlite;
use super::reserve::Reserve;
use super::table;
use crate::entry::Revision;
use crate::error::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tollhouse_stdx::files::sync_parent;

/// Name of the store file in the data directory.
pub(super) const STORE_FILE: &str = "store.db";
/// File whose lock marks the store as open. It is never removed, because a lock on a removed file
/// would guard nothing.
const LOCK_FILE: &str = "store.lock";

/// Application id of the file in SQLite's header: "Toll" in ASCII.
const APPLICATION_ID: u32 = 0x546F_6C6C;
/// The format that this version writes, stored as `user_version`. Format 1 lacks change rows,
/// guards, sealed values and import marks among its entries. A version that does not know them
/// would ignore them while writing, hence the new number. The tables are the same, so a file of
/// format 1 is read as it is and becomes format 2 with the first commit. A version that was only
/// started briefly therefore leaves the file usable by the former one.
pub(super) const FORMAT: u32 = 2;

/// SQLite pragma that holds the format.
const FORMAT_PRAGMA: &str = "user_version";

/// Largest file that is checked as a whole when opened, in bytes. The check takes at most about 0.1
/// s if the file is in the page cache. Larger files are checked at their header and where they are
/// read; the gateway reads all of its objects on startup.
const CHECKED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// First bytes of an SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Largest plausible format number; with a larger one the header is damaged.
const FORMAT_PLAUSIBLE_MAX: u32 = 0xFFFF;

/// Maximum wait of a statement while another tool has locked the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of log pages after which the log is folded into the file: 16 MiB. Four times SQLite's
/// default, because each folding costs two more flushes, and pages that changed often are written
/// only once.
const CHECKPOINT_PAGES: u32 = 4096;

/// Size to which the log file is truncated after it has grown during a long read, in bytes.
const LOG_BYTES_KEPT: u32 = 64 * 1024 * 1024;

/// Page cache of one connection in KiB, passed to SQLite as a negative number. Fits the upper index
/// levels of 100,000 entries; the system caches the rest.
const CACHE_KIB: i32 = 8 * 1024;

/// Number of compiled statements kept per connection; greater than the number of different
/// statements, so that each is compiled once.
const STATEMENTS_MAX: usize = 32;

/// Duration for which a held lock is tried again. A child process that the former holder is
/// starting has a copy of the lock until it executes its program.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// Only the owner may read and write, because the store contains credentials and private keys.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Exclusive use of a data directory, held until dropped.
pub(super) struct DirectoryLock(#[expect(dead_code, reason = "holding it is its use")] File);

impl DirectoryLock {
    /// Creates the directory if it is missing, and takes its lock.
    pub(super) fn take(directory: &Path) -> Result<Self, StoreError> {
        make_directory(directory)?;
        let path = directory.join(LOCK_FILE);
        let file = open_or_create(&path)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path }),
                Err(TryLockError::Error(error)) => return Err(StoreError::from_io(&path, &error)),
            }
        }
    }
}

fn make_directory(directory: &Path) -> Result<(), StoreError> {
    if directory.is_dir() {
        return Ok(());
    }
    let is_missing = |ancestor: &&Path| !ancestor.as_os_str().is_empty() && !ancestor.is_dir();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    let made = DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory);
    // The names of the new directories must survive a power failure, as their content does.
    let made = made.and_then(|()| missing.into_iter().try_for_each(sync_parent));
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => StoreError::Io {
            path: directory.to_owned(),
            reason: "it is not a directory; choose another data directory".to_owned(),
        },
        _ => StoreError::from_io(directory, &error),
    })
}

/// Opens a file for reading and writing; on failure returns the system's reason.
fn open_or_create(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    options.open(path).map_err(|error| StoreError::from_io(path, &error))
}

/// Database file, opened for writing.
pub(super) struct StoreFile {
    /// Connection that the writer uses.
    pub(super) connection: Connection,
    /// The newest revision in the file.
    pub(super) revision: Revision,
    /// Version of the file's format.
    pub(super) format: i64,
}

impl StoreFile {
    /// Opens the file, or creates it if it is missing. On a full disk the reserve is deleted,
    /// because opening creates additional files.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        match Self::open_in_room(path) {
            Err(StoreError::Full { .. } | StoreError::Io { .. })
                if Reserve::release_beside(path) =>
            {
                Self::open_in_room(path)
            }
            opened => opened,
        }
    }

    fn open_in_room(path: &Path) -> Result<Self, StoreError> {
        let mut file = open_or_create(path)?;
        check_header(path, &mut file)?;
        drop(file);
        let connection = connect(path)?;
        let revision = Self::prepare(path, &connection)?;
        let format =
            pragma(&connection, FORMAT_PRAGMA).map_err(|error| from_sqlite(path, &error))?;
        Ok(Self { connection, revision, format })
    }

    fn prepare(path: &Path, connection: &Connection) -> Result<Revision, StoreError> {
        let to_error = |error| from_sqlite(path, &error);
        // Until all checks have passed, closing must not fold the log into the file.
        let guard = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(guard, true).map_err(to_error)?;
        if is_new(connection).map_err(to_error)? {
            create(connection, Revision::ZERO).map_err(to_error)?;
        }
        check_format(path, connection)?;
        check_pages(path, connection)?;
        let revision = table::revision(connection).map_err(to_error)?;
        set_durable(path, connection)?;
        connection.set_db_config(guard, false).map_err(to_error)?;
        fold_log(path, connection)?;
        Ok(revision)
    }
}

/// Folds the log of a former process into the file and flushes both. The log may contain a commit
/// that only the system's memory holds because the disk never confirmed it; from now on readers may
/// rely on it.
fn fold_log(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let to_error = |error| from_sqlite(path, &error);
    // The statement that selected the log mode holds a lock until another statement has read.
    table::revision(connection).map_err(to_error)?;
    let fold = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    match fold.map_err(to_error) {
        // A store on a full disk opens anyway, so that its entries can be read and removed.
        Err(StoreError::Full { .. }) => Ok(()),
        folded => folded,
    }
}

/// Checks the format from the raw header, before SQLite opens the file and replays its log.
fn check_header(path: &Path, file: &mut File) -> Result<(), StoreError> {
    let mut header = [0_u8; 72];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return check_short(path, file);
        }
        Err(error) => return Err(StoreError::from_io(path, &error)),
    }
    let word = |at: usize| {
        u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes were taken"))
    };
    // Offsets of user_version and application_id in SQLite's header.
    let (found, application_id) = (word(60), word(68));
    if application_id != APPLICATION_ID {
        return Ok(());
    }
    if header[..MAGIC.len()] != *MAGIC {
        let reason = "its first bytes are not those of a store".to_owned();
        return Err(StoreError::Corrupt { path: path.to_owned(), reason });
    }
    check_format_number(path, found.into())
}

/// Accepts the formats this version reads; distinguishes a newer format from a damaged number.
fn check_format_number(path: &Path, found: i64) -> Result<(), StoreError> {
    let path = path.to_owned();
    match u32::try_from(found) {
        Ok(found @ ..=FORMAT) if found > 0 => Ok(()),
        Ok(found) if found > FORMAT && found <= FORMAT_PLAUSIBLE_MAX => {
            Err(StoreError::NewerVersion { path, found, supported: FORMAT })
        }
        _ => Err(StoreError::Corrupt { path, reason: format!("unknown format {found}") }),
    }
}

/// Checks a file that is too short to have content. Without a log it is new. With a log it is
/// damaged; SQLite would take it for new and remove the log.
fn check_short(path: &Path, file: &File) -> Result<(), StoreError> {
    let length = file.metadata().map_err(|error| StoreError::from_io(path, &error))?.len();
    let mut log_path = path.as_os_str().to_owned();
    log_path.push("-wal");
    let has_log = fs::metadata(PathBuf::from(log_path)).is_ok_and(|log| log.len() > 0);
    if length == 0 && !has_log {
        return Ok(());
    }
    let reason = format!("only {length} bytes of it are left");
    Err(StoreError::Corrupt { path: path.to_owned(), reason })
}

/// Opens a read-only connection to a store that another process may have open, with the usual
/// checks. Creates nothing.
pub(super) fn connect_to_read(path: &Path) -> Result<Connection, StoreError> {
    let mut file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::Missing { path: path.to_owned() },
        io::ErrorKind::PermissionDenied => StoreError::Unreadable { path: path.to_owned() },
        _ => StoreError::from_io(path, &error),
    })?;
    check_header(path, &mut file)?;
    drop(file);
    let connection = connect_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check_format(path, &connection)?;
    Ok(connection)
}

/// Opens the only connection to a store on a full disk. It creates no file except an empty log;
/// shared memory is kept in this process. The caller holds the lock of the directory.
pub(super) fn connect_alone(path: &Path) -> Result<Connection, StoreError> {
    let to_error = |error| from_sqlite(path, &error);
    let mut file = File::open(path).map_err(|error| StoreError::from_io(path, &error))?;
    check_header(path, &mut file)?;
    drop(file);
    let connection = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let guard = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(guard, true).map_err(to_error)?;
    // Must precede any read, because the first access to the file creates the shared memory.
    let exclusive = "PRAGMA locking_mode = EXCLUSIVE";
    connection.query_row(exclusive, [], |_| Ok(())).map_err(to_error)?;
    check_format(path, &connection)?;
    Ok(connection)
}

/// Opens a connection with the common settings.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

fn open_connection(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let to_error = |error| from_sqlite(path, &error);
    let connection = Connection::open_with_flags(path, flags).map_err(to_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(to_error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

fn connect_with(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let to_error = |error| from_sqlite(path, &error);
    let connection = open_connection(path, access)?;
    let settings = format!("PRAGMA cache_size = -{CACHE_KIB}; PRAGMA trusted_schema = OFF;");
    connection.execute_batch(&settings).map_err(to_error)?;
    Ok(connection)
}

/// Whether the file has no tables and no application id: it is new, or its creator was killed.
fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0 && pragma(connection, "application_id")? == 0)
}

/// Creates the tables and sets the application id, in one transaction.
pub(super) fn create(connection: &Connection, revision: Revision) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(table::SCHEMA)?;
    table::set_revision(connection, revision)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    set_format(connection)?;
    connection.execute_batch("COMMIT")
}

/// Sets the format number to the current one, as part of a transaction.
pub(super) fn set_format(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, FORMAT_PRAGMA, FORMAT)
}

fn check_format(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let to_error = |error| from_sqlite(path, &error);
    let path = path.to_owned();
    if pragma(connection, "application_id").map_err(to_error)? != i64::from(APPLICATION_ID) {
        return Err(StoreError::Foreign { path });
    }
    check_format_number(&path, pragma(connection, FORMAT_PRAGMA).map_err(to_error)?)
}

/// Checks the structure of the whole file, if it is small enough for the startup of a gateway.
fn check_pages(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let size = fs::metadata(path).map_err(|error| StoreError::from_io(path, &error))?.len();
    if size > CHECKED_BYTES_MAX {
        return Ok(());
    }
    let found: rusqlite::Result<String> =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match found {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(reason) => Err(StoreError::Corrupt { path: path.to_owned(), reason }),
        Err(error) => Err(from_sqlite(path, &error)),
    }
}

/// Enables a write-ahead log that is flushed at every commit.
fn set_durable(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let to_error = |error| from_sqlite(path, &error);
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(to_error)?;
    if mode != "wal" {
        let reason = "its file system cannot share memory between processes, which the log \
                      needs; put the data directory on a local disk";
        return Err(StoreError::Io { path: path.to_owned(), reason: reason.to_owned() });
    }
    let settings = format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
         PRAGMA journal_size_limit = {LOG_BYTES_KEPT};"
    );
    connection.execute_batch(&settings).map_err(to_error)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Creates a file that must not exist, readable by its owner only.
pub(super) fn create_private(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE);
    options.open(path).map_err(|error| StoreError::from_io(path, &error))
}

/// Limits that tests lower to reach rare states quickly.
#[cfg(test)]
pub(super) fn set_test_bounds(
    connection: &Connection,
    options: &crate::options::Options,
) -> rusqlite::Result<()> {
    if let Some(pages) = options.pages_max {
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    if let Some(pages) = options.checkpoint_pages {
        connection.query_row(&format!("PRAGMA wal_autocheckpoint = {pages}"), [], |_| Ok(()))?;
    }
    Ok(())
}
