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
    pub(super) fn parse(url: &str, kind: DatabaseKind) -> Result<Self, String> {
        let schemes = kind.schemes();
        let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| format!("the URL does not begin with {}", schemes[0]))?;
        let (authority, name) = rest.split_once('/').ok_or("the URL names no database")?;
        if name.is_empty() || name.contains(['/', '?', '#']) {
            return Err("the URL ends in no plain name of a database".to_owned());
        }
        let (login, hosts) = authority.rsplit_once('@').ok_or("the URL names no user")?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if user.is_empty() {
            return Err("the URL names no user".to_owned());
        }
        let servers = hosts.split(',').map(|host| server(host, kind.port()));
        Ok(Self {
            kind,
            servers: servers.collect::<Result<_, String>>()?,
            name: decoded(name)?,
            user: decoded(user)?,
            password: decoded(password)?,
        })
    }
}

fn server(text: &str, usual_port: u16) -> Result<(String, u16), String> {
    // An address of IPv6 has colons of its own, and so brackets.
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => (host, port),
        Some(None) => return Err("a bracket in the URL is not closed".to_owned()),
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    if host.is_empty() {
        return Err("the URL names no host".to_owned());
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| format!("the URL has no port for {host}"))?,
        None if port.is_empty() => usual_port,
        None => return Err(format!("the URL has something odd behind {host}")),
    };
    Ok((host.to_owned(), port))
}

/// A part of a URL with its `%40` and the like resolved (RFC 3986 §2.1).
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|it| it.map(char::from)?.to_digit(16));
        let [Some(high), Some(low)] = digits else {
            return Err("the URL has a % without two hexadecimal digits behind it".to_owned());
        };
        bytes.extend(u8::try_from(high * 16 + low));
    }
    String::from_utf8(bytes).map_err(|_| "the URL is not UTF-8".to_owned())
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
            assert!(reason.contains(expected) && !reason.contains("geheim"), "{url}: {reason}");
        }
    }
}
