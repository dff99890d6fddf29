//! What can go wrong with a store. Each variant names its cause, the place, and what to do about it,
//! in words that read after "failed to …:".

use crate::entry::Revision;
use crate::lease::LeaseId;
use std::io;
use std::path::{Path, PathBuf};

/// What an error says about what happened: whoever retries must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was changed, and the same request is refused again: it has to be made anew.
    Refused,
    /// Nothing was changed, or could be read: the same request may succeed once the store works again.
    Unavailable,
    /// Nobody knows whether the change was made: read before you repeat it.
    Unknown,
    /// Nothing was changed: whoever asked has lost the right to, and must stop.
    Fenced,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A condition of the transaction did not hold; nothing was changed.
    #[error("{key} is not as the transaction expects; read it again and retry")]
    Conflict {
        /// The key of the first condition that failed.
        key: Box<str>,
    },
    /// Something was put after this revision, and the transaction expects otherwise; nothing was changed.
    #[error("the store has changed since revision {revision}; read it again and retry")]
    Outdated {
        /// The revision that the transaction is based on.
        revision: Revision,
    },
    /// The transaction passes a limit; nothing was changed.
    #[error("{what} is {actual}, more than the {max} that the store takes; split it")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// How large it is.
        actual: usize,
        /// The limit.
        max: usize,
    },
    /// A key has no bytes.
    #[error("the key is empty; give it at least one character")]
    EmptyKey,
    /// A transaction changes a key twice, by itself or by its prefix; nothing was changed.
    #[error("{key} is changed twice in one transaction; leave the last change of it only")]
    ChangedTwice {
        /// The key.
        key: Box<str>,
    },
    /// The lease has ended; nothing was changed.
    #[error("lease {lease} has ended; stop what it was for, and take a new one")]
    Fenced {
        /// The lease.
        lease: LeaseId,
    },
    /// Another process has the store open.
    #[error(
        "{} is in use by another process; stop that one, or give this one a data directory of \
         its own", path.display()
    )]
    InUse {
        /// The file that the other process holds.
        path: PathBuf,
    },
    /// The place of the store cannot be written to.
    #[error(
        "{} cannot be written ({reason}); give the user of this process the right to write \
         there, or choose another data directory", path.display()
    )]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The disk has no room for the write; nothing was changed.
    #[error(
        "the disk that holds {} is full, nothing was written; make room and repeat the \
         change", path.display()
    )]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is damaged. It was left as it is.
    #[error(
        "{} is damaged ({reason}) and was left untouched; put a backup in its place, or move \
         it away to start with an empty store", path.display()
    )]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer version of the program wrote the file. It was left as it is.
    #[error(
        "{} has format {found}, written by a newer version (this one reads up to {supported}), \
         and was left untouched; run that version, or put a backup of this one in its place",
        path.display()
    )]
    NewerVersion {
        /// The store's file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// The file belongs to another program. It was left as it is.
    #[error(
        "{} is not a store of this program and was left untouched; move it away, or choose \
         another data directory", path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// There is no store at this place.
    #[error(
        "{} does not exist: no gateway has kept objects there; name the data directory of one",
        path.display()
    )]
    Missing {
        /// The store's file.
        path: PathBuf,
    },
    /// The store may not be read.
    #[error(
        "{} cannot be read; run this as the user that the gateway runs as", path.display()
    )]
    Unreadable {
        /// The store's file.
        path: PathBuf,
    },
    /// The file that a backup should go to is there already.
    #[error("{} exists and is never overwritten; name another file", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// Reading or writing failed for a reason that has no variant of its own.
    #[error("{} cannot be used: {reason}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The disk failed while a commit was flushed: whether the change will be there after a restart
    /// is not known. It is not in what is read until then.
    #[error(
        "the disk that holds {} did not confirm the change ({reason}): it may be there after a \
         restart; look at the disk, then read the object again and repeat the change if need be",
        path.display()
    )]
    Unconfirmed {
        /// The store's file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The disk failed a commit before this one. What such a disk says later cannot be believed, so that
    /// nothing more is written until the store is opened anew, which reads back what is really there.
    #[error(
        "nothing more is written to {} since the disk did not confirm a change ({reason}); look at \
         the disk, then restart", path.display()
    )]
    Stopped {
        /// The store's file.
        path: PathBuf,
        /// What the system said of the change that it did not confirm.
        reason: String,
    },
    /// The engine that holds the store could not be asked; nothing was changed.
    #[error(
        "{place} cannot be reached ({reason}); look whether it runs, and whether its addresses, \
         certificates and credentials are right"
    )]
    Unreachable {
        /// What the engine is, and where.
        place: Box<str>,
        /// What was heard last.
        reason: String,
    },
    /// The engine was asked for a change and has not said whether it made it.
    #[error(
        "{place} did not confirm the change ({reason}): it may have been made; read the object again \
         and repeat the change if need be"
    )]
    Unanswered {
        /// What the engine is, and where.
        place: Box<str>,
        /// What was heard instead.
        reason: String,
    },
    /// The engine understood the request and does not do it; nothing was changed.
    #[error("{place} refuses ({reason}); {remedy}")]
    Declined {
        /// What the engine is, and where.
        place: Box<str>,
        /// What it said.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The engine has no room for what the change adds; nothing was changed. Changes that only take away are done
    /// all the same.
    #[error("{place} has no room ({reason}); {remedy}")]
    OutOfRoom {
        /// What the engine is, and where.
        place: Box<str>,
        /// What it said.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The store was closed while the request was under way.
    #[error("the store is closed; the process is ending")]
    Closed,
}

impl StoreError {
    /// What it says about what happened.
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

    /// Whether the store has no room for what the change adds. A change that only removes objects still succeeds, if it
    /// adds nothing else.
    #[must_use]
    pub fn is_without_room(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::OutOfRoom { .. })
    }

    /// Whether the disk or the file keeps a store from being used: a full, failing or read-only disk, or a damaged
    /// file. A lock of another process, and a file of another program or version, do not count.
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

    /// What an error of the file system at this path means.
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
