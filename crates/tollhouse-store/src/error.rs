//! Errors of a store. Each message names cause, place and remedy, and reads after "failed to …:".

use crate::entry::Revision;
use crate::lease::LeaseId;
use std::io;
use std::path::{Path, PathBuf};

/// Outcome of a failed request, which decides about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No change was made. Repeating the request would fail again; the caller must rebuild it.
    Refused,
    /// No change was made and no data was read. The request may succeed once the store works again.
    Unavailable,
    /// The change may have been made; read before repeating it.
    Unknown,
    /// No change was made. The caller has lost its lease and must stop.
    Fenced,
}

/// Why a request to a store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A condition of the transaction did not hold; nothing was changed.
    #[error("{key} is not as the transaction expects; read it again and retry")]
    Conflict {
        /// The key of the first condition that failed.
        key: Box<str>,
    },
    /// A key was put after the expected revision; nothing was changed.
    #[error("the store has changed since revision {revision}; read it again and retry")]
    Outdated {
        /// The revision that the transaction is based on.
        revision: Revision,
    },
    /// The transaction exceeds a limit; nothing was changed.
    #[error("{what} is {actual}, more than the limit of {max}; split it")]
    TooLarge {
        /// Quantity that exceeds the limit, with its unit.
        what: &'static str,
        actual: usize,
        /// Maximum of the quantity.
        max: usize,
    },
    #[error("the key is empty; give it at least one character")]
    EmptyKey,
    /// A transaction changes a key twice, directly or by its prefix; nothing was changed.
    #[error("{key} is changed twice in one transaction; leave the last change of it only")]
    ChangedTwice { key: Box<str> },
    /// The lease has ended; nothing was changed.
    #[error("lease {lease} has ended; stop its work, and take a new one")]
    Fenced { lease: LeaseId },
    /// Another process has the store open.
    #[error(
        "{} is in use by another process; stop that one, or give this one a data directory of \
         its own", path.display()
    )]
    InUse {
        /// The file that the other process has locked.
        path: PathBuf,
    },
    #[error(
        "{} cannot be written ({reason}); give the user of this process the right to write \
         there, or choose another data directory", path.display()
    )]
    ReadOnly {
        /// File or directory that cannot be written.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The disk is full; nothing was changed.
    #[error(
        "the disk that holds {} is full, nothing was written; make room and repeat the \
         change", path.display()
    )]
    Full {
        /// Path of the store's file.
        path: PathBuf,
    },
    /// The file is damaged; it was not modified.
    #[error(
        "{} is damaged ({reason}) and was left untouched; put a backup in its place, or move \
         it away to start with an empty store", path.display()
    )]
    Corrupt {
        /// Path of the store's file.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// A newer version of the program wrote the file; it was not modified.
    #[error(
        "{} has format {found}, written by a newer version (this one reads up to {supported}), \
         and was left untouched; run that version, or put a backup of this one in its place",
        path.display()
    )]
    NewerVersion {
        /// Path of the store's file.
        path: PathBuf,
        /// Format version of the file.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// The file belongs to another program; it was not modified.
    #[error(
        "{} is not a store of this program and was left untouched; move it away, or choose \
         another data directory", path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{} does not exist: no gateway has kept objects there; name the data directory of one",
        path.display()
    )]
    Missing {
        /// Path of the store's file.
        path: PathBuf,
    },
    /// The user of the process may not read the store.
    #[error(
        "{} cannot be read; run this as the user that the gateway runs as", path.display()
    )]
    Unreadable {
        /// Path of the store's file.
        path: PathBuf,
    },
    /// The destination of a backup already exists.
    #[error("{} exists and is never overwritten; name another file", path.display())]
    FileExists { path: PathBuf },
    /// Reading or writing failed for another reason.
    #[error("{} cannot be used: {reason}", path.display())]
    Io {
        /// File or directory of the failed operation.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The disk failed while a commit was flushed. The change may be there after a restart; until
    /// then reads do not show it.
    #[error(
        "the disk that holds {} did not confirm the change ({reason}): it may be there after a \
         restart; look at the disk, then read the object again and repeat the change if need be",
        path.display()
    )]
    Unconfirmed {
        /// Path of the store's file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The disk failed to confirm an earlier commit. Later confirmations of such a disk are not
    /// reliable, so nothing more is written until the store is opened again, which reads the actual
    /// content.
    #[error(
        "nothing more is written to {} since the disk did not confirm a change ({reason}); look at \
         the disk, then restart", path.display()
    )]
    Stopped {
        /// Path of the store's file.
        path: PathBuf,
        /// Message of the system about the unconfirmed change.
        reason: String,
    },
    /// The external engine is not reachable; nothing was changed.
    #[error(
        "{place} cannot be reached ({reason}); check that it runs, and that its addresses, \
         certificates and credentials are right"
    )]
    Unreachable {
        /// Kind and address of the engine.
        place: Box<str>,
        /// Error of the last attempt to reach the engine.
        reason: String,
    },
    /// The external engine has not confirmed a change.
    #[error(
        "{place} did not confirm the change ({reason}): it may have been made; read the object again \
         and repeat the change if need be"
    )]
    Unanswered {
        /// Kind and address of the engine.
        place: Box<str>,
        /// Error received in place of an answer.
        reason: String,
    },
    /// The external engine refused the request; nothing was changed.
    #[error("{place} refuses ({reason}); {remedy}")]
    Declined {
        /// Kind and address of the engine.
        place: Box<str>,
        /// Message of the database engine.
        reason: String,
        /// Advice for the operator.
        remedy: &'static str,
    },
    /// The external engine has no space for the change; nothing was changed. Changes that only
    /// remove still succeed.
    #[error("{place} has no room ({reason}); {remedy}")]
    OutOfRoom {
        /// Kind and address of the engine.
        place: Box<str>,
        /// Message of the database engine.
        reason: String,
        /// Advice for the operator.
        remedy: &'static str,
    },
    /// The store was closed during the request.
    #[error("the store is closed; the process is ending")]
    Closed,
}

impl StoreError {
    /// Returns the effect of the failed request, for the decision about a retry.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict { .. }
            | Self::Outdated { .. }
            | Self::TooLarge { .. }
            | Self::EmptyKey
            | Self::ChangedTwice { .. } => ErrorKind::Refused,
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::Unconfirmed { .. } | Self::Unanswered { .. } => ErrorKind::Unknown,
            Self::InUse { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Corrupt { .. }
            | Self::NewerVersion { .. }
            | Self::Foreign { .. }
            | Self::Missing { .. }
            | Self::Unreadable { .. }
            | Self::FileExists { .. }
            | Self::Io { .. }
            | Self::Stopped { .. }
            | Self::Unreachable { .. }
            | Self::Declined { .. }
            | Self::OutOfRoom { .. }
            | Self::Closed => ErrorKind::Unavailable,
        }
    }

    /// Whether the store has no space for the change. A change that only removes still succeeds.
    #[must_use]
    pub fn is_without_room(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::OutOfRoom { .. })
    }

    /// Whether the disk or the file prevents the use of the store: a full, failing or read-only
    /// disk, or a damaged file. A lock of another process, and a file of another program or
    /// version, do not count.
    #[must_use]
    pub fn is_of_the_disk(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::ReadOnly { .. }
                | Self::Corrupt { .. }
                | Self::Io { .. }
                | Self::Unconfirmed { .. }
                | Self::Stopped { .. }
        )
    }

    /// Converts a file system error about this path.
    pub(crate) fn from_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, reason }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => Self::InUse { path },
            io::ErrorKind::AlreadyExists => Self::FileExists { path },
            _ => Self::Io { path, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_file_system_says_what_to_do() {
        let cases = [
            (io::ErrorKind::PermissionDenied, "give the user of this process the right"),
            (io::ErrorKind::ReadOnlyFilesystem, "choose another data directory"),
            (io::ErrorKind::StorageFull, "make room"),
            (io::ErrorKind::QuotaExceeded, "make room"),
            (io::ErrorKind::WouldBlock, "stop that one"),
            (io::ErrorKind::AlreadyExists, "name another file"),
            (io::ErrorKind::TimedOut, "cannot be used"),
        ];
        for (kind, remedy) in cases {
            let text = StoreError::from_io(Path::new("data/store.db"), &kind.into()).to_string();
            assert!(text.contains("data/store.db") && text.contains(remedy), "{kind}: {text}");
        }
    }
}
