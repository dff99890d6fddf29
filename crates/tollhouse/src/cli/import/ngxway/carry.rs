//! Conversion of ngxway's routes and upstreams, and the list of directives that cannot be
//! converted.

use serde_json::{Map, Value, json};

use super::access::{AddressRules, protection};
use super::cache::{self, CacheTimes};
use super::lua::{Phases, Programs};
use super::syntax::{self, Directive};

/// Function that reads an included file; `None` if it cannot be found.
pub(super) type ReadIncluded<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Objects converted from nginx's directives.
#[derive(Default)]
pub(super) struct Conversion {
    pub(super) routes: Vec<Value>,
    pub(super) upstreams: Vec<Value>,
    /// Directives that are not converted, each with its place and the reason: `vhosts.conf:12: …`.
    pub(super) left: Vec<String>,
    /// Routes that are disabled because their access control could not be converted, each with its
    /// paths and the reason.
    pub(super) unprotected: Vec<String>,
    /// Lua programs; `None` if programs are not converted.
    pub(super) programs: Option<Programs>,
}

/// Place of the first access control that could not be converted; `None` if all could.
type Reason = Option<String>;

/// Settings that the locations of a server share.
#[derive(Default)]
struct Server {
    hosts: Vec<String>,
    plugins: Map<String, Value>,
    addresses: AddressRules,
    protection: Reason,
    phases: Phases,
}

/// Directives that need no conversion, because they describe Tollhouse's default behaviour or have
/// no meaning in it.
const IMPLIED: &[&str] = &[
    "charset",
    "proxy_buffering",
    "proxy_buffer_size",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_cache_lock",
    "proxy_cache_lock_timeout",
    "proxy_http_version",
    "proxy_pass_header",
    "proxy_redirect",
    "tcp_nodelay",
];

/// Directives that are not converted, each with the reason or an alternative.
const ELSEWHERE: &[(&str, &str)] = &[
    ("access_by_lua_block", PROTECTION),
    ("access_by_lua_file", PROTECTION),
    ("access_log", "set access_log in the gateway's configuration"),
    ("error_log", "the gateway logs to its standard error"),
    ("error_page", "pages of errors are the gateway's own"),
    (
        "add_header",
        "response-rewrite sets headers of answers; what a cache did is in Apisix-Cache-Status",
    ),
    ("allow", "of address lists make an ip-restriction plugin"),
    ("deny", "of address lists make an ip-restriction plugin"),
    ("if", "conditions are not carried; routes have vars"),
    ("index", "files are not served; ask a server of files as a node"),
    ("root", "files are not served; ask a server of files as a node"),
    ("try_files", "files are not served; ask a server of files as a node"),
    ("stub_status", "metrics are at listen.metrics"),
];

const PROTECTION: &str = "the program that protects these paths was not read, so that the route is switched off: \
    import without --without-lua, or add plugins that do the same and set the route's status to 1";

impl Conversion {
    /// Converts the directives of one file.
    pub(super) fn take(
        &mut self,
        file: &str,
        directives: &[Directive],
        included: ReadIncluded<'_>,
    ) {
        for directive in directives {
            match directive.name.as_str() {
                "upstream" => self.upstream(file, directive),
                "server" => self.server(file, directive, included),
                _ => self.leave(file, directive),
            }
        }
    }

    fn leave(&mut self, file: &str, directive: &Directive) {
        let Directive { line, name, .. } = directive;
        if IMPLIED.contains(&name.as_str()) {
            return;
        }
        let entry = ELSEWHERE.iter().find(|(directive, _)| directive == name);
        let reason = entry.map_or("it is not understood", |(_, reason)| reason);
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

    /// Converts a `server` directive of an upstream to a node; `None` if the node gets no requests.
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
                    Err(_) => self.say(file, directive, "the weight is not a number"),
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

    fn server(&mut self, file: &str, directive: &Directive, included: ReadIncluded<'_>) {
        let mut server = Server::default();
        server.protection = self.programs.as_ref().and_then(|it| it.protection.clone());
        let mut locations = Vec::new();
        for inner in directive.inner() {
            match inner.name.as_str() {
                "location" => locations.push(inner),
                "listen" => {
                    let listens = format!("set listen.http to this address: {}", inner.argument());
                    self.say(file, inner, &listens);
                }
                // In nginx, the first server also handles host names that no server lists.
                "server_name" => server.hosts.extend(inner.arguments.iter().cloned()),
                "gzip" if inner.argument() == "on" => {
                    server.plugins.insert("gzip".to_owned(), json!({}));
                }
                "include" => self.include(file, inner, &mut server, included),
                _ => self.take_server(file, inner, &mut server),
            }
        }
        if let Some(programs) = &self.programs {
            server.phases = std::mem::take(&mut server.phases).over(&programs.phases);
        }
        server.hosts.retain(|host| host != "_" && host != "localhost");
        for location in locations {
            if let Some((mut route, protection)) = self.location(file, location, &server) {
                let id = format!("ngxway-{}", self.routes.len() + 1);
                if let Some(reason) = protection {
                    route["status"] = json!(0);
                    let paths = route["uris"].as_array().into_iter().flatten();
                    let paths: Vec<&str> = paths.filter_map(Value::as_str).collect();
                    self.unprotected.push(format!("{id} {}: {reason}", paths.join(" ")));
                }
                if !server.hosts.is_empty() {
                    route["hosts"] = json!(server.hosts);
                }
                route["id"] = json!(id);
                self.routes.push(route);
            }
        }
    }

    /// Converts a directive that applies to all locations of a server.
    fn take_server(&mut self, file: &str, inner: &Directive, server: &mut Server) {
        if server.addresses.take(inner) || self.take_program(inner, &mut server.phases) {
            return;
        }
        if let Some(found) = protection(inner) {
            server.protection.get_or_insert_with(|| place(file, found));
        }
        self.leave(file, inner);
    }

    fn omits_programs(&self) -> bool {
        self.programs.as_ref().is_none_or(Programs::are_omitted)
    }

    fn take_program(&self, directive: &Directive, phases: &mut Phases) -> bool {
        self.programs.as_ref().is_some_and(|programs| programs.take(directive, phases))
    }

    /// Converts the directives of an included file. An unreadable file may be an address list, so
    /// that the server counts as protected.
    fn include(
        &mut self,
        file: &str,
        directive: &Directive,
        server: &mut Server,
        included: ReadIncluded<'_>,
    ) {
        let path = directive.argument();
        let directives = included(path).and_then(|text| syntax::parse(&text).ok());
        let Some(directives) = directives else {
            self.say(
                file,
                directive,
                &format!("{path} cannot be read, and may protect this server"),
            );
            server.protection.get_or_insert_with(|| place(file, directive));
            return;
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        for inner in &directives {
            self.take_server(name, inner, server);
        }
    }

    /// Converts a location to a route. Also returns the place of access control that could not be
    /// converted.
    fn location(
        &mut self,
        file: &str,
        location: &Directive,
        server: &Server,
    ) -> Option<(Value, Reason)> {
        let (uris, prefix) = match location.arguments.as_slice() {
            [path] if path.starts_with('/') => (vec![format!("{path}*")], path.as_str()),
            [mark, path] if mark == "^~" => (vec![format!("{path}*")], path.as_str()),
            [mark, path] if mark == "=" => (vec![path.clone()], path.as_str()),
            _ => {
                self.say(file, location, "only paths and beginnings of paths are carried");
                return None;
            }
        };
        let mut made = Location {
            plugins: server.plugins.clone(),
            protection: server.protection.clone(),
            ..Location::default()
        };
        for inner in location.inner() {
            self.location_part(file, inner, &mut made, prefix);
        }
        // In nginx, a location with `allow` or `deny` directives does not inherit those of its
        // server.
        let own = std::mem::take(&mut made.addresses);
        let rules = if own.is_empty() { &server.addresses } else { &own };
        match rules.plugin() {
            Ok(plugin) => {
                made.plugins.extend(plugin.map(|plugin| ("ip-restriction".to_owned(), plugin)));
            }
            Err(_) => {
                let reason =
                    "allow and deny: the first that matches decides, and no plugin has that";
                self.say(file, location, reason);
                made.protection.get_or_insert_with(|| place(file, location));
            }
        }
        let mut phases = std::mem::take(&mut made.phases).over(&server.phases);
        if made.caches {
            phases.share_cache();
        }
        if let Err(phase) = phases.add_to(&mut made.plugins) {
            self.say(file, location, &format!("no plugin is left for the Lua program of {phase}"));
            made.protection.get_or_insert_with(|| place(file, location));
        }
        made.finish_cache();
        let protection = made.protection.take();
        let Some(target) = made.target.take() else {
            if !made.plugins.contains_key("fault-injection") {
                self.say(file, location, "nothing here answers it, so that it has no route");
                return None;
            }
            let status = i32::from(protection.is_none());
            let route = json!({"uris": uris, "plugins": made.plugins, "status": status});
            return Some((route, protection));
        };
        if let Some(host) = made.host.take().filter(|_| !made.passes_host) {
            if is_host(&host) {
                made.host = Some(host);
            } else {
                let reason = format!(
                    "nodes get the client's Host, as proxy-rewrite does not take {host} as one"
                );
                self.say(file, location, &reason);
            }
        }
        Some((made.route(target, uris), protection))
    }

    /// Converts a directive of a location whose path begins with `prefix`.
    fn location_part(&mut self, file: &str, inner: &Directive, made: &mut Location, prefix: &str) {
        match inner.name.as_str() {
            "proxy_pass" => match target(inner.argument()) {
                Some((target, host, path)) => {
                    made.target = Some(target);
                    // Default `Host` of nginx's requests to nodes.
                    made.host.get_or_insert(host);
                    made.path = path.map(|path| {
                        let pattern = format!("^{}(.*)", escaped(prefix));
                        json!([pattern, format!("{path}$1")])
                    });
                }
                None => self.say(file, inner, "expected http:// or https:// and a name"),
            },
            "proxy_set_header" => {
                made.header(&inner.arguments);
                if inner.arguments.iter().any(|argument| argument == "$host") {
                    self.say(file, inner, "nodes get the client's Host as it is, with its port");
                }
            }
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
            "proxy_cache" if inner.argument() != "off" => made.caches = true,
            "proxy_cache_key" => match cache::key(inner.argument()) {
                Some(key) => made.cache_key = Some(key),
                None => self.say(
                    file,
                    inner,
                    "only variables and texts of two letters and more are carried",
                ),
            },
            "add_header" if !self.omits_programs() && is_cache_header(&inner.arguments) => {
                made.phases.add_cache_header();
            }
            "proxy_cache_methods" => made.cache_methods = Some(json!(inner.arguments)),
            "proxy_cache_valid" => {
                if let Err(reason) = made.cache_times.take(&inner.arguments) {
                    self.say(file, inner, &reason);
                }
            }
            "return" => match inner.argument().parse::<u16>() {
                Ok(status @ 200..=599) => {
                    let body = inner.arguments.get(1).cloned().unwrap_or_default();
                    let abort = json!({"abort": {"http_status": status, "body": body}});
                    made.plugins.insert("fault-injection".to_owned(), abort);
                }
                _ => self.say(file, inner, "only a status, with a text or without, is carried"),
            },
            "include" => {
                let reason = "files within a location are not read, and this one may protect it";
                self.say(file, inner, reason);
                made.protection.get_or_insert_with(|| place(file, inner));
            }
            _ => {
                if made.addresses.take(inner) || self.take_program(inner, &mut made.phases) {
                    return;
                }
                if let Some(found) = protection(inner) {
                    made.protection.get_or_insert_with(|| place(file, found));
                    // Reported with its own line, not that of the enclosing block.
                    return self.leave(file, found);
                }
                self.leave(file, inner);
            }
        }
    }
}

fn is_cache_header(arguments: &[String]) -> bool {
    matches!(arguments, [name, value] if name.eq_ignore_ascii_case("X-Cache") && value == "$upstream_cache_status")
}

/// Formats the place of a directive and its name, as `vhosts.conf:12 if`.
fn place(file: &str, directive: &Directive) -> String {
    format!("{file}:{} {}", directive.line, directive.name)
}

#[derive(Default)]
struct Location {
    /// Place of the first access control that could not be converted.
    protection: Reason,
    addresses: AddressRules,
    target: Option<Target>,
    timeout: Map<String, Value>,
    headers: Map<String, Value>,
    /// `Host` for nodes, unless the client's is passed on.
    host: Option<String>,
    passes_host: bool,
    path: Option<Value>,
    plugins: Map<String, Value>,
    phases: Phases,
    caches: bool,
    cache_key: Option<Vec<String>>,
    cache_methods: Option<Value>,
    cache_times: CacheTimes,
}

enum Target {
    Named(String),
    Node(Value),
}

impl Location {
    /// Builds the route object for these paths and this target.
    fn route(mut self, target: Target, uris: Vec<String>) -> Value {
        let mut route = json!({"uris": uris});
        match target {
            Target::Named(name) => route["upstream_id"] = json!(name),
            Target::Node(upstream) => route["upstream"] = upstream,
        }
        if !self.timeout.is_empty() {
            for kind in ["connect", "send", "read"] {
                self.timeout.entry(kind).or_insert(json!(60));
            }
            route["timeout"] = Value::Object(self.timeout);
        }
        let mut rewrite = Map::new();
        if let Some(host) = self.host {
            rewrite.insert("host".to_owned(), json!(host));
        }
        if !self.headers.is_empty() {
            rewrite.insert("headers".to_owned(), json!({"set": self.headers}));
        }
        if let Some(path) = self.path {
            rewrite.insert("regex_uri".to_owned(), path);
        }
        if !rewrite.is_empty() {
            self.plugins.insert("proxy-rewrite".to_owned(), Value::Object(rewrite));
        }
        if !self.plugins.is_empty() {
            route["plugins"] = Value::Object(self.plugins);
        }
        route
    }

    /// Adds the `proxy-cache` plugin that the location's directives describe.
    fn finish_cache(&mut self) {
        if !self.caches {
            return;
        }
        let key = self.cache_key.take();
        let key =
            key.unwrap_or_else(|| ["$scheme", "$host", "$request_uri"].map(str::to_owned).into());
        let methods = self.cache_methods.take().unwrap_or_else(|| json!(["GET", "HEAD"]));
        let (statuses, seconds) = self.cache_times.settings();
        let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache",
            "cache_ttl": seconds, "cache_method": methods, "cache_http_status": statuses,
            "cache_key": key});
        self.plugins.insert("proxy-cache".to_owned(), cache);
    }

    fn header(&mut self, arguments: &[String]) {
        let [name, value] = arguments else { return };
        match (name.to_ascii_lowercase().as_str(), value.as_str()) {
            // Tollhouse handles `Connection` itself.
            ("connection", _)
            | ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for") => {}
            ("host", "$host" | "$http_host") => self.passes_host = true,
            // Default behaviour of nginx.
            ("host", "$proxy_host") => {}
            ("host", value) => self.host = Some(value.to_owned()),
            _ => drop(self.headers.insert(name.clone(), json!(value))),
        }
    }
}

/// Parses the argument of `proxy_pass`: target, host, and the path that replaces the location's.
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
    // A name without a port and a dot refers to an upstream.
    if scheme == "http" && !authority.contains([':', '.']) && authority != "localhost" {
        return Some((Target::Named(authority.to_owned()), authority.to_owned(), path));
    }
    let (host, port) = address(authority, default_port)?;
    let nodes = json!([{"host": host, "port": port, "weight": 1}]);
    let upstream = json!({"type": "roundrobin", "scheme": scheme, "nodes": nodes});
    Some((Target::Node(upstream), authority.to_owned(), path))
}

/// Whether proxy-rewrite accepts a text as `Host`. Names of upstreams often have an underscore,
/// which it refuses.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
}

/// Parses `host`, `host:port` or `[v6]:port`.
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

/// Parses nginx's `10`, `10s`, `500ms`, `1m` as seconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
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

/// Escapes a path for a regular expression.
fn escaped(path: &str) -> String {
    let special = |letter: char| !(letter.is_ascii_alphanumeric() || "/_-".contains(letter));
    path.chars()
        .flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter]))
        .collect()
}
