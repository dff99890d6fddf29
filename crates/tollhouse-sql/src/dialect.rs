//! Differences between the two dialects, and literals that are safe for any content.

use crate::limits::{LOCK_WAIT_SECONDS, RESTING_TRANSACTION_SECONDS};
use crate::options::Engine;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt::Write as _;

/// Use of a connection, which decides about its transaction settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Writes: every statement sees everything committed before it.
    Writing,
    /// Reads: all statements of a transaction see the data of one instant.
    Reading,
    /// Reads that a standby may answer too.
    Looking,
}

/// A dialect with the prefix of the tables.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) engine: Engine,
    pub(crate) tables: Box<str>,
}

impl Dialect {
    /// Returns the table's name with the configured prefix.
    pub(crate) fn table(&self, name: &str) -> String {
        format!("{}{name}", self.tables)
    }

    /// Appends bytes as a hexadecimal literal, for keys. Optimizers treat it as a constant.
    pub(crate) fn push_key(&self, sql: &mut String, bytes: &[u8]) {
        sql.push_str(match self.engine {
            Engine::MySql => "x'",
            Engine::PostgreSql => "'\\x",
        });
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(sql, "{byte:02x}");
        }
        sql.push_str(match self.engine {
            Engine::MySql => "'",
            Engine::PostgreSql => "'::bytea",
        });
    }

    /// Appends bytes as a base64 expression, for values. It is shorter than hexadecimal.
    pub(crate) fn push_value(&self, sql: &mut String, bytes: &[u8]) {
        sql.push_str(match self.engine {
            Engine::MySql => "FROM_BASE64('",
            Engine::PostgreSql => "decode('",
        });
        BASE64.encode_string(bytes, sql);
        sql.push_str(match self.engine {
            Engine::MySql => "')",
            Engine::PostgreSql => "','base64')",
        });
    }

    /// Formats a list of keys in parentheses.
    pub(crate) fn keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut sql = String::from("(");
        for (index, key) in keys.into_iter().enumerate() {
            if index > 0 {
                sql.push(',');
            }
            self.push_key(&mut sql, key);
        }
        sql.push(')');
        sql
    }

    /// Formats the condition that a key has a prefix; `None` for the empty prefix, which all keys
    /// have.
    pub(crate) fn begins_with(&self, prefix: &str) -> Option<String> {
        if prefix.is_empty() {
            return None;
        }
        let mut sql = String::from("k >= ");
        self.push_key(&mut sql, prefix.as_bytes());
        if let Some(end) = tollhouse_store::engine::end_of_prefix(prefix) {
            sql.push_str(" AND k < ");
            self.push_key(&mut sql, end.as_bytes());
        }
        Some(sql)
    }

    /// Returns the statement that begins a read-only transaction with a single snapshot.
    pub(crate) fn begin_reading(&self) -> &'static str {
        match self.engine {
            Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            Engine::PostgreSql => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        }
    }

    /// Returns the statements that set up a new connection. The last one is a query for whether the
    /// server refuses writes.
    pub(crate) fn session(&self, purpose: Purpose) -> String {
        match (self.engine, purpose) {
            (Engine::MySql, Purpose::Writing) => format!(
                // MySQL has no limit on idle transactions, so the idle limit of the connection
                // replaces it. A connection that is idle for that long is opened again.
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION \
                 innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, wait_timeout = \
                 {RESTING_TRANSACTION_SECONDS}, autocommit = 1; SELECT @@global.read_only + 0"
            ),
            (Engine::MySql, Purpose::Looking) => {
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 0".to_owned()
            }
            (Engine::PostgreSql, Purpose::Looking) => {
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET \
                 standard_conforming_strings = on; SET bytea_output = hex; SELECT 0"
                    .to_owned()
            }
            (Engine::MySql, Purpose::Reading) => {
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT \
                 @@global.read_only + 0"
                    .to_owned()
            }
            (Engine::PostgreSql, Purpose::Writing | Purpose::Reading) => format!(
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; SET \
                 lock_timeout = '{LOCK_WAIT_SECONDS}s'; SET idle_in_transaction_session_timeout = \
                 '{RESTING_TRANSACTION_SECONDS}s'; SET standard_conforming_strings = on; SET \
                 bytea_output = hex; SELECT pg_is_in_recovery()::int"
            ),
        }
    }

    /// Returns the clause after `INSERT INTO objects ... VALUES ...` that replaces existing rows.
    pub(crate) fn or_replace_object(&self) -> &'static str {
        match self.engine {
            Engine::MySql => {
                " ON DUPLICATE KEY UPDATE v = VALUES(v), created = VALUES(created), \
                 modified = VALUES(modified), lease = VALUES(lease)"
            }
            Engine::PostgreSql => {
                " ON CONFLICT (k) DO UPDATE SET v = excluded.v, created = excluded.created, \
                 modified = excluded.modified, lease = excluded.lease"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_content_leaves_its_literal() {
        let content = b"'; DROP TABLE x; -- \\ \0";
        for engine in [Engine::MySql, Engine::PostgreSql] {
            let dialect = Dialect { engine, tables: "t_".into() };
            let (mut key, mut value) = (String::new(), String::new());
            dialect.push_key(&mut key, content);
            dialect.push_value(&mut value, content);
            assert!(key.matches('\'').count() == 2 && !key.contains("DROP"), "{key}");
            assert!(!value.contains("DROP") && !value.contains(';'), "{value}");
        }
    }
}
