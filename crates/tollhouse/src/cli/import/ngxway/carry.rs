//! What becomes of ngxway's routes and upstreams, and what of them cannot become anything here, with the reason.

use serde_json::{Map, Value, json};

use super::syntax::Directive;

/// What was made of the files.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) routes: Vec<Value>,
    pub(super) upstreams: Vec<Value>,
    /// What was not carried, each with its place: `vhosts.conf:12: …`.
    pub(super) left: Vec<String>,
}

/// Directives that say what holds here anyway, or what has no meaning here.
const IMPLIED: &[&str] = &[
    "charset",
    "proxy_buffering",
    "proxy_cache_lock",
    "proxy_cache_lock_timeout",
    "proxy_http_version",
    "proxy_pass_header",
    "proxy_redirect",
    "tcp_nodelay",
];

/// Directives that are not carried: why, and what to use.
const ELSEWHERE: &[(&str, &str)] = &[
    ("access_by_lua_block", PROTECTION),
    ("access_by_lua_file", PROTECTION),
    ("access_log", "set access_log in the gateway's configuration"),
    ("error_log", "the gateway logs to its standard error"),
    ("error_page", "pages of errors are the gateway's own"),
    ("include", "of address lists make an ip-restriction plugin"),
    ("index", "files are not served; ask a server of files as a node"),
    ("root", "files are not served; ask a server of files as a node"),
    ("try_files", "files are not served; ask a server of files as a node"),
    ("stub_status", "metrics are at listen.metrics"),
];

const PROTECTION: &str = "the firewall and the signature check of ngxway protect these paths and are not carried, so that \
    the route is switched off: add uri-blocker, ua-restriction and an authentication plugin, then set its status to 1";

impl Carried {
    /// Takes the directives of a file.
    pub(super) fn take(&mut self, file: &str, directives: &[Directive]) {
        for directive in directives {
            match directive.name.as_str() {
                "upstream" => self.upstream(file, directive),
                "server" => self.server(file, directive),
                _ => self.leave(file, directive),
            }
        }
    }

    fn leave(&mut self, file: &str, directive: &Directive) {
        let Directive { line, name, .. } = directive;
        if IMPLIED.contains(&name.as_str()) {
            return;
        }
        let known = ELSEWHERE.iter().find(|(known, _)| known == name);
        let reason = known.map_or("it is not understood", |(_, reason)| reason);
        self.left.push(format!("{file}:{line}: {name}: {reason}"));
    }

    fn say(&mut self, file: &str, directive: &Directive, reason: &str) {
        self.left.push(format!("{file}:{}: {}: {reason}", directive.line, directive.name));
    }

    fn upstream(&mut self, file: &str, directive: &Directive) {
        let mut nodes = Vec::new();
        let mut made = json!({"id": directive.argument(), "type": "roundrobin"});
        for inner in directive.inner() {
            match inner.name.as_str() {
                "server" => nodes.extend(self.node(file, inner)),
                "least_conn" => made["type"] = json!("least_conn"),
                "ip_hash" => {
                    made["type"] = json!("chash");
                    made["key"] = json!("remote_addr");
                }
                "keepalive" => match inner.argument().parse::<u32>() {
                    Ok(size @ 1..) => made["keepalive_pool"] = json!({"size": size}),
                    _ => self.say(file, inner, "expected a number"),
                },
                _ => self.leave(file, inner),
            }
        }
        if nodes.is_empty() {
            self.say(file, directive, "it has no server that takes requests");
            return;
        }
        made["nodes"] = json!(nodes);
        self.upstreams.push(made);
    }

    /// A node of an upstream; `None` where it takes no requests.
    fn node(&mut self, file: &str, directive: &Directive) -> Option<Value> {
        let Some((host, port)) = address(directive.argument(), 80) else {
            self.say(file, directive, "expected a host, with a port or without");
            return None;
        };
        let mut node = json!({"host": host, "port": port, "weight": 1});
        for option in directive.arguments.iter().skip(1) {
            match option.split_once('=') {
                Some(("weight", weight)) => match weight.parse::<u32>() {
                    Ok(weight) => node["weight"] = json!(weight),
                    Err(_) => self.say(file, directive, "the weight is no number"),
                },
                Some(("max_fails" | "fail_timeout", _)) => {
                    let reason =
                        "add checks to the upstream in the place of max_fails and fail_timeout";
                    let text = format!("{file}:{}: server: {reason}", directive.line);
                    if !self.left.contains(&text) {
                        self.left.push(text);
                    }
                }
                None if option == "backup" => node["priority"] = json!(-1),
                None if option == "down" => return None,
                _ => self.say(file, directive, &format!("{option} is not understood")),
            }
        }
        Some(node)
    }

    fn server(&mut self, file: &str, directive: &Directive) {
        let mut hosts = Vec::new();
        let mut shared = Map::new();
        let mut locations = Vec::new();
        for inner in directive.inner() {
            match inner.name.as_str() {
                "location" => locations.push(inner),
                "listen" => {
                    let listens = format!("set listen.http to this address: {}", inner.argument());
                    self.say(file, inner, &listens);
                }
                // The first of nginx's servers answers for names that none has.
                "server_name" => hosts.extend(inner.arguments.iter().cloned()),
                "gzip" if inner.argument() == "on" => {
                    shared.insert("gzip".to_owned(), json!({}));
                }
                _ => self.leave(file, inner),
            }
        }
        hosts.retain(|host| host != "_" && host != "localhost");
        for location in locations {
            if let Some(mut route) = self.location(file, location, &shared) {
                if !hosts.is_empty() {
                    route["hosts"] = json!(hosts);
                }
                route["id"] = json!(format!("ngxway-{}", self.routes.len() + 1));
                self.routes.push(route);
            }
        }
    }

    fn location(
        &mut self,
        file: &str,
        location: &Directive,
        shared: &Map<String, Value>,
    ) -> Option<Value> {
        let (uris, prefix) = match location.arguments.as_slice() {
            [path] if path.starts_with('/') => (vec![format!("{path}*")], path.as_str()),
            [mark, path] if mark == "^~" => (vec![format!("{path}*")], path.as_str()),
            [mark, path] if mark == "=" => (vec![path.clone()], path.as_str()),
            _ => {
                self.say(file, location, "only paths and beginnings of paths are carried");
                return None;
            }
        };
        let mut made = Location { plugins: shared.clone(), ..Location::default() };
        for inner in location.inner() {
            self.within(file, inner, (&mut made, prefix));
        }
        let Some(target) = made.target.take() else {
            if !made.plugins.contains_key("fault-injection") {
                self.say(file, location, "nothing here answers it, so that it has no route");
                return None;
            }
            let status = i32::from(!made.is_protected);
            return Some(json!({"uris": uris, "plugins": made.plugins, "status": status}));
        };
        let mut route = json!({"uris": uris});
        if made.is_protected {
            route["status"] = json!(0);
        }
        match target {
            Target::Named(name) => route["upstream_id"] = json!(name),
            Target::Node(upstream) => route["upstream"] = upstream,
        }
        if !made.timeout.is_empty() {
            for kind in ["connect", "send", "read"] {
                made.timeout.entry(kind).or_insert(json!(60));
            }
            route["timeout"] = Value::Object(made.timeout);
        }
        let mut rewrite = Map::new();
        if let Some(host) = made.host.filter(|_| !made.passes_host) {
            rewrite.insert("host".to_owned(), json!(host));
        }
        if !made.headers.is_empty() {
            rewrite.insert("headers".to_owned(), json!({"set": made.headers}));
        }
        if let Some(path) = made.path {
            rewrite.insert("regex_uri".to_owned(), path);
        }
        if !rewrite.is_empty() {
            made.plugins.insert("proxy-rewrite".to_owned(), Value::Object(rewrite));
        }
        if !made.plugins.is_empty() {
            route["plugins"] = Value::Object(made.plugins);
        }
        Some(route)
    }

    fn within(&mut self, file: &str, inner: &Directive, (made, prefix): (&mut Location, &str)) {
        match inner.name.as_str() {
            "proxy_pass" => match target(inner.argument()) {
                Some((target, host, path)) => {
                    made.target = Some(target);
                    // What nginx says to nodes unless it is told otherwise.
                    made.host.get_or_insert(host);
                    made.path = path.map(|path| {
                        let pattern = format!("^{}(.*)", escaped(prefix));
                        json!([pattern, format!("{path}$1")])
                    });
                }
                None => self.say(file, inner, "expected http:// or https:// and a name"),
            },
            "proxy_set_header" => made.header(&inner.arguments),
            "proxy_connect_timeout" | "proxy_read_timeout" | "proxy_send_timeout" => {
                match seconds(inner.argument()) {
                    Some(time) => {
                        let kind = inner.name.split('_').nth(1).unwrap_or_default();
                        made.timeout.insert(kind.to_owned(), json!(time));
                    }
                    None => self.say(file, inner, "expected a time such as 10s"),
                }
            }
            "proxy_next_upstream" if inner.argument() != "off" => {}
            "proxy_cache" if inner.argument() != "off" => {
                let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache",
                    "cache_ttl": 300, "cache_method": ["GET", "HEAD"], "cache_http_status": [200],
                    "cache_key": ["$host", "$request_uri"]});
                made.plugins.insert("proxy-cache".to_owned(), cache);
                let reason =
                    "kept in memory for 300 s; say in cache_ttl what proxy_cache_valid said";
                self.say(file, inner, reason);
            }
            "return" => match inner.argument().parse::<u16>() {
                Ok(status @ 200..=599) => {
                    let body = inner.arguments.get(1).cloned().unwrap_or_default();
                    let abort = json!({"abort": {"http_status": status, "body": body}});
                    made.plugins.insert("fault-injection".to_owned(), abort);
                }
                _ => self.say(file, inner, "only a status, with a text or without, is carried"),
            },
            name => {
                made.is_protected |= name.starts_with("access_by_lua");
                self.leave(file, inner);
            }
        }
    }
}

#[derive(Default)]
struct Location {
    /// Whether something decides who may come that is not carried.
    is_protected: bool,
    target: Option<Target>,
    timeout: Map<String, Value>,
    headers: Map<String, Value>,
    /// What nodes are told as `Host`, unless the client's is passed on.
    host: Option<String>,
    passes_host: bool,
    path: Option<Value>,
    plugins: Map<String, Value>,
}

enum Target {
    Named(String),
    Node(Value),
}

impl Location {
    fn header(&mut self, arguments: &[String]) {
        let [name, value] = arguments else { return };
        match (name.to_ascii_lowercase().as_str(), value.as_str()) {
            // So it is here anyway.
            ("connection", _)
            | ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for") => {}
            ("host", "$host" | "$http_host") => self.passes_host = true,
            ("host", value) => self.host = Some(value.to_owned()),
            _ => drop(self.headers.insert(name.clone(), json!(value))),
        }
    }
}

/// Where requests go, the host in it, and the path that takes the place of the location's.
fn target(text: &str) -> Option<(Target, String, Option<String>)> {
    let (scheme, rest) = text.split_once("://")?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
        None => (rest, None),
    };
    if authority.is_empty() || authority.contains('$') {
        return None;
    }
    // A name without a port and a dot is the one of an upstream.
    if scheme == "http" && !authority.contains([':', '.']) && authority != "localhost" {
        return Some((Target::Named(authority.to_owned()), authority.to_owned(), path));
    }
    let (host, port) = address(authority, default_port)?;
    let nodes = json!([{"host": host, "port": port, "weight": 1}]);
    let upstream = json!({"type": "roundrobin", "scheme": scheme, "nodes": nodes});
    Some((Target::Node(upstream), authority.to_owned(), path))
}

/// Host and port of `host`, `host:port` or `[v6]:port`.
fn address(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => {
            (host, port.parse::<u16>().ok().filter(|port| *port != 0)?)
        }
        Some(_) if !text.starts_with('[') => return None,
        _ => (text, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || ".-_:".contains(letter);
    (!host.is_empty() && host.chars().all(is_name)).then(|| (host.to_owned(), port))
}

/// Seconds of nginx's `10`, `10s`, `500ms`, `1m`.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    (number > 0.0).then_some(number * unit)
}

/// A path in which no letter is special to a pattern.
fn escaped(path: &str) -> String {
    let special = |letter: char| !(letter.is_ascii_alphanumeric() || "/_-".contains(letter));
    path.chars()
        .flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter]))
        .collect()
}
