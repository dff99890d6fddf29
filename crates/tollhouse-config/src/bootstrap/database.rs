//! The URL of a database: who, where, which.

/// Which dialect a database speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL.
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

/// What is wrong with the URL of a database. The URL is never repeated: it holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// One of either dialect is named.
    #[error("two databases are named")]
    Two,
    /// It begins with another scheme than this.
    #[error("the URL does not begin with {0}")]
    Scheme(&'static str),
    /// Nothing follows its servers.
    #[error("the URL names no database")]
    NoName,
    /// What follows its servers is no name.
    #[error("the URL ends in no plain name of a database")]
    Name,
    /// Nobody logs in.
    #[error("the URL names no user")]
    NoUser,
    /// An address of IPv6 does not end.
    #[error("a bracket in the URL is not closed")]
    OpenBracket,
    /// A server has no host.
    #[error("the URL names no host")]
    NoHost,
    /// The port of this host is no number of one.
    #[error("the URL has no port for {0}")]
    Port(String),
    /// Something else than a port follows this host.
    #[error("the URL has something odd behind {0}")]
    Trailing(String),
    /// A percent sign begins no escape.
    #[error("the URL has a % without two hexadecimal digits behind it")]
    Escape,
    /// What is escaped is no text.
    #[error("the URL is not UTF-8")]
    NotUtf8,
}

/// A database, by its URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// Its dialect.
    pub kind: DatabaseKind,
    /// Its servers: hosts, without brackets, and ports.
    pub servers: Vec<(String, u16)>,
    /// Its name.
    pub name: String,
    /// Who logs in.
    pub user: String,
    /// With what; empty where no password is given.
    pub password: String,
}

// The password has no business in a log.
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
    /// Reads `scheme://user:password@host:port,host:port/database` (RFC 3986 §3.2, with a list of hosts as
    /// PostgreSQL has it).
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
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
    // An address of IPv6 has colons of its own, and so brackets.
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

/// A part of a URL with its `%40` and the like resolved (RFC 3986 §2.1).
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
            ("mysql://toll:geheim@db/", "no plain name"),
            ("mysql://toll:geheim@db/a?tls=off", "no plain name"),
            ("mysql://db/registry", "names no user"),
            ("mysql://:geheim@db/registry", "names no user"),
            ("mysql://toll:geheim@/registry", "names no host"),
            ("mysql://toll:geheim@db:x/registry", "no port for db"),
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
