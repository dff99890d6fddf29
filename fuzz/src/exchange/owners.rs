//! Two users who request the same page behind a cache: each must not read the page that was made
//! for the other.

use std::io::Write;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::client::{VICTIM_PATIENCE, connect, listen, next_token};
use super::node::VICTIM;

/// A page that one user has read.
#[derive(Debug)]
pub struct Page {
    /// Token that the node writes into this user's pages only.
    token: String,
    bytes: Vec<u8>,
}

/// Returns combinations of a cache with plugins that identify the user.
pub fn plugins(side: &str) -> Vec<Value> {
    let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60});
    let with = |name: &str, conf: Value| json!({"proxy-cache": cache, name: conf});
    let uri = format!("{side}/auth");
    vec![
        with("key-auth", json!({})),
        with("basic-auth", json!({"hide_credentials": true})),
        with("forward-auth", json!({"uri": uri, "request_headers": ["X-H"]})),
        with("forward-auth", json!({"uri": uri, "request_headers": ["X-H", "Cookie"]})),
        with("opa", json!({"host": side, "policy": "p"})),
    ]
}

/// Header with a user's credentials.
#[derive(Debug, Clone, Copy)]
enum Carrier {
    Cookie,
    Authorization,
    ApiKey,
    Session,
}

impl Carrier {
    /// Chooses a header that the plugins of a configuration read, or that every cache has to
    /// respect.
    fn choose(configuration: &str, draw: usize) -> Self {
        let mut all = vec![Self::Cookie];
        if configuration.contains("key-auth") {
            all.push(Self::ApiKey);
        }
        if configuration.contains("forward-auth") {
            all.push(Self::Session);
        }
        if !configuration.contains("basic-auth") {
            all.push(Self::Authorization);
        }
        all[draw % all.len()]
    }

    /// Returns the header lines of user 0 or 1; only the line of the carrier differs between them.
    fn lines(self, user: usize) -> String {
        let of = |carrier: bool, both: [&str; 2]| both[if carrier { user } else { 0 }].to_owned();
        let key = of(matches!(self, Self::ApiKey), ["key-one", "key-two"]);
        let login = ["Basic Zm9vOmJhcg==", "Basic YmFyOmZvbw=="];
        let login = of(matches!(self, Self::Authorization), login);
        let mut lines = format!("apikey: {key}\r\nAuthorization: {login}\r\n");
        match self {
            Self::Cookie => lines.push_str(["Cookie: a=1\r\n", "Cookie: a=2\r\n"][user]),
            Self::Session => lines.push_str(["X-H: one\r\n", "X-H: two\r\n"][user]),
            Self::ApiKey | Self::Authorization => {}
        }
        lines
    }
}

/// Requests the page for both users, and for the first one again; returns an empty list for
/// configurations without a cache.
pub fn ask(gateway: SocketAddr, configuration: &str, draw: usize) -> Vec<Page> {
    if !configuration.contains("proxy-cache") {
        return Vec::new();
    }
    let carrier = Carrier::choose(configuration, draw);
    let (path, tokens) = (next_token(), [next_token(), next_token()]);
    let pages = [0, 1, 0].into_iter().map(|user| {
        let token = tokens[user].clone();
        let mut stream = connect(gateway, VICTIM_PATIENCE);
        let request = format!(
            "GET /owned/{path} HTTP/1.1\r\nHost: victim.example\r\n{}{VICTIM}: {token}\r\n\
             Connection: close\r\n\r\n",
            carrier.lines(user)
        );
        // A request that cannot be sent results in an empty page.
        let _ = stream.write_all(request.as_bytes());
        Page { token, bytes: listen(&mut stream).bytes }
    });
    pages.collect()
}

/// Checks that each user only reads its own token.
pub fn findings(pages: &[Page]) -> Vec<String> {
    let is_foreign = |page: &&Page| {
        let text = String::from_utf8_lossy(&page.bytes);
        text.split("token:").skip(1).any(|found| !found.starts_with(&page.token))
    };
    let foreign = pages.iter().filter(is_foreign);
    foreign.map(|page| format!("a user reads the page of another: {page:?}")).collect()
}
