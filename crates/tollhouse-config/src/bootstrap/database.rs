//! Database URLs: user, servers, database name.

/// Type of the database server, which decides about the SQL dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    MySql,
    PostgreSql,
}

impl DatabaseKind {
    fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::MySql => &["mysql://", "mariadb://"],
            Self::PostgreSql => &["postgresql://", "postgres://"],
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::MySql => 3306,
            Self::PostgreSql => 5432,
        }
    }
}

/// Why a database URL is invalid. The URL is never included, because it contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// URLs of two databases are configured, one for each SQL dialect.
    #[error("two databases are named")]
    Two,
    /// The URL does not have the expected scheme, which this holds.
    #[error("the URL does not begin with {0}")]
    Scheme(&'static str),
    /// The path with the name of the database is missing.
    #[error("the URL names no database")]
    NoName,
    /// The path contains more than a plain database name.
    #[error("the URL does not end with a plain database name")]
    Name,
    /// The URL has no user name.
    #[error("the URL names no user")]
    NoUser,
    /// The bracket of an IPv6 address is not closed.
    #[error("a bracket in the URL is not closed")]
    OpenBracket,
    /// A server in the URL has no host.
    #[error("the URL names no host")]
    NoHost,
    /// A port in the URL is invalid; holds the host.
    #[error("invalid port in the URL after {0}")]
    Port(String),
    /// The text after a host in the URL is not a port; holds the host.
    #[error("unexpected text in the URL after {0}")]
    Trailing(String),
    /// The URL contains a percent sign without two hexadecimal digits after it.
    #[error("the URL has a % without two hexadecimal digits after it")]
    Escape,
    /// A part of the URL is not UTF-8 when decoded.
    #[error("the URL is not UTF-8")]
    NotUtf8,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    pub kind: DatabaseKind,
    /// Servers: hosts, without brackets, and ports.
    pub servers: Vec<(String, u16)>,
    pub name: String,
    pub user: String,
    /// Password for the login; empty if none is given.
    pub password: String,
}

// Hides the user and the password.
impl std::fmt::Debug for Database {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Database")
            .field("kind", &self.kind)
            .field("servers", &self.servers)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Parses `scheme://user:password@host:port,host:port/database` (RFC 3986 §3.2, with a list of
    /// hosts as in PostgreSQL).
    ///
    /// # Errors
    /// If a part is missing or invalid. The error does not contain the URL.
    pub(super) fn parse(url: &str, kind: DatabaseKind) -> Result<Self, DatabaseError> {
        let schemes = kind.schemes();
        let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or(DatabaseError::Scheme(schemes[0]))?;
        let (authority, name) = rest.split_once('/').ok_or(DatabaseError::NoName)?;
        if name.is_empty() || name.contains(['/', '?', '#']) {
            return Err(DatabaseError::Name);
        }
        let (login, hosts) = authority.rsplit_once('@').ok_or(DatabaseError::NoUser)?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if user.is_empty() {
            return Err(DatabaseError::NoUser);
        }
        let servers = hosts.split(',').map(|host| server(host, kind.port()));
        Ok(Self {
            kind,
            servers: servers.collect::<Result<_, DatabaseError>>()?,
            name: decoded(name)?,
            user: decoded(user)?,
            password: decoded(password)?,
        })
    }
}

fn server(text: &str, usual_port: u16) -> Result<(String, u16), DatabaseError> {
    // An IPv6 address is in brackets, because it contains colons.
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => (host, port),
        Some(None) => return Err(DatabaseError::OpenBracket),
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    if host.is_empty() {
        return Err(DatabaseError::NoHost);
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| DatabaseError::Port(host.to_owned()))?,
        None if port.is_empty() => usual_port,
        None => return Err(DatabaseError::Trailing(host.to_owned())),
    };
    Ok((host.to_owned(), port))
}

/// Decodes the percent escapes of a part of a URL (RFC 3986 §2.1).
fn decoded(text: &str) -> Result<String, DatabaseError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|it| it.map(char::from)?.to_digit(16));
        let [Some(high), Some(low)] = digits else {
            return Err(DatabaseError::Escape);
        };
        bytes.extend(u8::try_from(high * 16 + low));
    }
    String::from_utf8(bytes).map_err(|_| DatabaseError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_who_and_where() {
        let url = "mysql://toll:a%40b%3a%25@db1:3307,db2,[::1]:3308/registry";
        let database = Database::parse(url, DatabaseKind::MySql).expect("it is one");
        let servers = [("db1", 3307), ("db2", 3306), ("::1", 3308)];
        assert_eq!(database.servers, servers.map(|(host, port)| (host.to_owned(), port)));
        assert_eq!((&*database.user, &*database.password), ("toll", "a@b:%"));
        assert_eq!(database.name, "registry");
        assert!(!format!("{database:?}").contains("a@b"));
        let url = "postgres://toll@db/registry";
        let database = Database::parse(url, DatabaseKind::PostgreSql).expect("it is one");
        assert_eq!(database.servers, [("db".to_owned(), 5432)]);
        assert_eq!(database.password, "");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_without_its_password() {
        let cases = [
            ("postgresql://toll:geheim@db/registry", "does not begin with mysql://"),
            ("mysql://toll:geheim@db", "names no database"),
            ("mysql://toll:geheim@db/", "plain database name"),
            ("mysql://toll:geheim@db/a?tls=off", "plain database name"),
            ("mysql://db/registry", "names no user"),
            ("mysql://:geheim@db/registry", "names no user"),
            ("mysql://toll:geheim@/registry", "names no host"),
            ("mysql://toll:geheim@db:x/registry", "invalid port in the URL after db"),
            ("mysql://toll:geheim%4@db/registry", "two hexadecimal digits"),
            ("mysql://toll:geheim@[::1/registry", "not closed"),
        ];
        for (url, expected) in cases {
            let reason = Database::parse(url, DatabaseKind::MySql).expect_err("it is refused");
            let reason = reason.to_string();
            assert!(reason.contains(expected) && !reason.contains("geheim"), "{url}: {reason}");
        }
    }
}
