//! Connection options of a database. The caller reads files and configuration.

use std::fmt;
use std::time::Duration;

/// Database engine, which decides about the SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// MySQL from 8.0 on, MariaDB from 10.6 on.
    MySql,
    /// PostgreSQL, from version 13 on.
    PostgreSql,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::PostgreSql => "PostgreSQL",
        })
    }
}

/// Server of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlServer {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for SqlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Connection options of a database.
#[derive(Clone)]
pub struct SqlOptions {
    pub engine: Engine,
    /// Servers, at least one. They are tried in order until one accepts
    /// writes, so a standby may be listed beside the primary.
    pub servers: Vec<SqlServer>,
    /// The database, which must exist.
    pub database: String,
    pub user: String,
    /// Password of the user; empty if the server requires none.
    pub password: String,
    /// TLS settings; `None` connects in clear text.
    pub tls: Option<Tls>,
    /// Prefix of all tables: lower-case letters, digits and underscores.
    pub tables: String,
    /// Timeout for connecting, and for each packet of statements.
    pub timeout: Duration,
}

// Hides the password.
impl fmt::Debug for SqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOptions")
            .field("engine", &self.engine)
            .field("servers", &self.servers)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

impl SqlOptions {
    /// Returns engine and address of the database, for messages.
    pub(crate) fn place(&self) -> Box<str> {
        let servers: Vec<String> = self.servers.iter().map(SqlServer::to_string).collect();
        format!("{} at {}/{}", self.engine, servers.join(","), self.database).into()
    }

    /// Whether the prefix is valid for table names.
    pub(crate) fn has_sound_tables(&self) -> bool {
        let is_sound =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        // PostgreSQL truncates names after 63 bytes; the suffixes have up to 13.
        self.tables.len() <= 48 && self.tables.bytes().all(is_sound)
    }
}

/// TLS towards the database. Certificates and names are always verified.
#[derive(Clone, Default)]
pub struct Tls {
    /// Additional CA certificates, PEM, besides those of browsers.
    pub authorities: Option<Vec<u8>>,
}
