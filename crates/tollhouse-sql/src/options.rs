//! How a database is reached. Reading files and configurations is the business of whoever gives these.

use std::fmt;
use std::time::Duration;

/// Which dialect a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// MySQL from 8.0 on, MariaDB from 10.6 on.
    MySql,
    /// PostgreSQL from 13 on.
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

/// How a database is reached.
#[derive(Clone)]
pub struct SqlOptions {
    /// Its dialect.
    pub engine: Engine,
    /// Hosts and ports of its servers, one at least. They are tried in turn until one can be written to:
    /// so a standby can be named beside the primary.
    pub servers: Vec<(String, u16)>,
    /// The database, which must exist.
    pub database: String,
    /// The user.
    pub user: String,
    /// Its password; empty where the server asks for none.
    pub password: String,
    /// How the connection is protected; in clear where absent.
    pub tls: Option<Tls>,
    /// What the names of all tables begin with: lower-case letters, digits and underscores.
    pub tables: String,
    /// How long connecting, and any one packet of statements, may take.
    pub timeout: Duration,
}

// The password has no business in a log.
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
    /// What the database is, and where, for messages.
    pub(crate) fn place(&self) -> Box<str> {
        let servers: Vec<String> =
            self.servers.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!("{} at {}/{}", self.engine, servers.join(","), self.database).into()
    }

    /// Whether the names of tables can be made of the prefix.
    pub(crate) fn has_sound_tables(&self) -> bool {
        let is_sound =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        // Names of PostgreSQL end after 63 bytes; ours add up to 13.
        self.tables.len() <= 48 && self.tables.bytes().all(is_sound)
    }
}

/// TLS towards the database. Certificates are always checked, names included.
#[derive(Clone, Default)]
pub struct Tls {
    /// Authorities, PEM, beside those that browsers know.
    pub authorities: Option<Vec<u8>>,
}
