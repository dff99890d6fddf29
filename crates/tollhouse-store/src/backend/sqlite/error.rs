//! Translation of SQLite errors for operators of the store.

use crate::error::StoreError;
use rusqlite::{Error, ErrorCode, ffi};
use std::path::Path;

/// Converts an SQLite error about this file.
pub(super) fn from_sqlite(path: &Path, error: &Error) -> StoreError {
    let path = path.to_owned();
    let reason = error.to_string();
    let Error::SqliteFailure(failure, _) = error else {
        // The remaining errors are about results of an unexpected shape.
        return StoreError::Corrupt { path, reason };
    };
    match failure.code {
        ErrorCode::DiskFull => StoreError::Full { path },
        // The shared memory of the connections is a file, which is created at each opening.
        _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::Full { path },
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => StoreError::InUse { path },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path, reason },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Corrupt { path, reason }
        }
        // Statements are fixed, so one that does not compile has met unexpected tables.
        ErrorCode::Unknown if failure.extended_code == ffi::SQLITE_ERROR => {
            StoreError::Corrupt { path, reason }
        }
        _ if failure.extended_code == ffi::SQLITE_IOERR_CORRUPTFS => {
            StoreError::Corrupt { path, reason }
        }
        _ => StoreError::Io { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_variant() {
        let path = Path::new("store.db");
        let cases = [
            (ffi::SQLITE_FULL, "is full"),
            (ffi::SQLITE_IOERR_SHMSIZE, "is full"),
            (ffi::SQLITE_BUSY, "in use by another process"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "in use by another process"),
            (ffi::SQLITE_READONLY_DIRECTORY, "cannot be written"),
            (ffi::SQLITE_CORRUPT_INDEX, "is damaged"),
            (ffi::SQLITE_NOTADB, "is damaged"),
            (ffi::SQLITE_ERROR, "is damaged"),
            (ffi::SQLITE_IOERR_CORRUPTFS, "is damaged"),
            (ffi::SQLITE_IOERR_FSYNC, "cannot be used"),
            (ffi::SQLITE_CANTOPEN, "cannot be used"),
        ];
        for (code, expected) in cases {
            let error = Error::SqliteFailure(ffi::Error::new(code), None);
            let text = from_sqlite(path, &error).to_string();
            assert!(text.starts_with("store.db") || text.contains("store.db"), "{text}");
            assert!(text.contains(expected), "{code}: {text}");
        }
    }
}
