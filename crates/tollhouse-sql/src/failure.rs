//! Failures of connections and statements, and their meaning.

use tollhouse_store::StoreError;

/// Why statements failed. After any failure the connection is closed, so that the engine rolls back
/// the open transaction, and a primary is searched again in case this one was demoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Connecting failed, or the connection was lost; the last packet may have been executed.
    Lost(String),
    /// The engine aborted the transaction in favour of another one; a retry may succeed at once.
    GivenUp(String),
    /// A row with this unique key already exists.
    Duplicate(String),
    /// The server refuses writes: a standby, or a demoted primary.
    ReadOnly(String),
    /// The disk or the table has no space for the new rows.
    NoRoom(String),
    /// The engine refused the statement; the second field is the remedy.
    Declined(String, &'static str),
}

const REMEDY_RIGHTS: &str = "give this user the right to create, read and write the tables of the database, \
                             and check its name and password";
const REMEDY_ROOM: &str = "make room on the disk of the database";
const REMEDY_PACKET: &str = "set max_allowed_packet to 16 MiB or more";
const REMEDY_OTHER: &str = "look at the log of the database";
const REMEDY_CONNECTIONS: &str =
    "let the database take more connections (about eight for each node)";

impl Failure {
    /// Whether the failed statements may succeed at once on a new connection.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Lost(_) | Self::GivenUp(_) | Self::ReadOnly(_) => true,
            Self::Duplicate(_) | Self::NoRoom(_) | Self::Declined(..) => false,
        }
    }

    /// Converts the failure of a request that changed nothing.
    pub(crate) fn to_error(&self, place: &str) -> StoreError {
        let place = place.into();
        match self {
            Self::Lost(reason) | Self::GivenUp(reason) | Self::ReadOnly(reason) => {
                StoreError::Unreachable { place, reason: reason.clone() }
            }
            Self::Duplicate(reason) => {
                StoreError::Declined { place, reason: reason.clone(), remedy: REMEDY_OTHER }
            }
            Self::NoRoom(reason) => {
                StoreError::OutOfRoom { place, reason: reason.clone(), remedy: REMEDY_ROOM }
            }
            Self::Declined(reason, remedy) => {
                StoreError::Declined { place, reason: reason.clone(), remedy }
            }
        }
    }

    /// Returns the message of the driver or the engine.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Lost(reason)
            | Self::GivenUp(reason)
            | Self::Duplicate(reason)
            | Self::ReadOnly(reason)
            | Self::NoRoom(reason)
            | Self::Declined(reason, _) => reason,
        }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(error) = error else {
            return Self::Lost(connection_reason(&error.to_string()));
        };
        let reason = error.message().to_owned();
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return from_mysql(error.number(), reason);
        }
        from_postgres(&error.code().unwrap_or_default(), reason)
    }
}

/// Returns the driver's message, with an explanation for certificates whose form its TLS library
/// refuses.
fn connection_reason(text: &str) -> String {
    let refusals = [
        ("UnsupportedCertVersion", "version 1 certificate: the database needs one of version 3"),
        (
            "CaUsedAsEndEntity",
            "the database shows an authority's certificate (CA:TRUE): give it one that this authority has signed",
        ),
    ];
    match refusals.iter().find(|(name, _)| text.contains(name)) {
        Some((_, reason)) => format!("{text}: {reason}"),
        None => text.to_owned(),
    }
}

/// Classifies an error number of MySQL or MariaDB.
fn from_mysql(number: u16, reason: String) -> Failure {
    let reason = format!("{reason} (error {number})");
    match number {
        // Deadlock; lock wait timed out; MariaDB's "record has changed since last read".
        1213 | 1205 | 1020 => Failure::GivenUp(reason),
        1062 => Failure::Duplicate(reason),
        // --read-only; in a read-only transaction; read-only mode.
        1290 | 1792 | 1836 => Failure::ReadOnly(reason),
        // Shutting down; killed; network errors.
        1053 | 1927 | 1317 | 1158..=1161 => Failure::Lost(reason),
        1040 | 1203 | 1226 => Failure::Declined(reason, REMEDY_CONNECTIONS),
        1044 | 1045 | 1049 | 1142 | 1143 | 1227 | 1698 => Failure::Declined(reason, REMEDY_RIGHTS),
        // Disk full; table or file full; the storage engine's own number of the system error.
        1021 | 1114 => Failure::NoRoom(reason),
        1030 if reason.contains("error 28") => Failure::NoRoom(reason),
        1153 => Failure::Declined(reason, REMEDY_PACKET),
        _ => Failure::Declined(reason, REMEDY_OTHER),
    }
}

/// Classifies a PostgreSQL error code (appendix A of its manual).
fn from_postgres(code: &str, reason: String) -> Failure {
    let reason = format!("{reason} (error {code})");
    match code {
        // Serialization, deadlock, lock timeout.
        "40001" | "40P01" | "55P03" => Failure::GivenUp(reason),
        "23505" => Failure::Duplicate(reason),
        "25006" => Failure::ReadOnly(reason),
        // Shutdown, crash, startup; idle for too long within a transaction; connection errors.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "57014" => Failure::Lost(reason),
        "53300" => Failure::Declined(reason, REMEDY_CONNECTIONS),
        "53100" => Failure::NoRoom(reason),
        "42501" | "3D000" => Failure::Declined(reason, REMEDY_RIGHTS),
        _ if code.starts_with("28") => Failure::Declined(reason, REMEDY_RIGHTS),
        _ if code.starts_with("08") => Failure::Lost(reason),
        _ => Failure::Declined(reason, REMEDY_OTHER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_engines_are_told_apart() {
        let name = |failure: &Failure| match failure {
            Failure::Lost(_) => "lost",
            Failure::GivenUp(_) => "given up",
            Failure::Duplicate(_) => "duplicate",
            Failure::ReadOnly(_) => "read only",
            Failure::NoRoom(_) => "no room",
            Failure::Declined(..) => "declined",
        };
        let mysql = [
            (1213, "given up"),
            (1205, "given up"),
            (1290, "read only"),
            (1836, "read only"),
            (1062, "duplicate"),
            (1053, "lost"),
            (1045, "declined"),
            (1064, "declined"),
            (1114, "no room"),
        ];
        for (number, expected) in mysql {
            assert_eq!(name(&from_mysql(number, String::new())), expected, "{number}");
        }
        let postgres = [
            ("40P01", "given up"),
            ("40001", "given up"),
            ("25006", "read only"),
            ("23505", "duplicate"),
            ("57P01", "lost"),
            ("08006", "lost"),
            ("28P01", "declined"),
            ("42601", "declined"),
            ("53100", "no room"),
        ];
        for (code, expected) in postgres {
            assert_eq!(name(&from_postgres(code, String::new())), expected, "{code}");
        }
    }
}
