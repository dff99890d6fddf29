//! `tollhouse import ngxway`: imports the routes and upstreams of an ngxway from two nginx files,
//! and its Lua programs. Only the directives that ngxway writes are converted; all others are
//! reported with the reason.

mod access;
mod cache;
mod carry;
mod lua;
mod syntax;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use tollhouse_config::{Document, Format, declarative};
use tollhouse_model::Problems;

use self::carry::Conversion;
use self::lua::{Programs, UseOfPrograms};
use super::Destination;
use crate::cli::check;

/// Files of ngxway's folder `conf/vhosts`, in the order in which they are read.
const FILES: [&str; 2] = ["upstream.conf", "vhosts.conf"];

/// Arguments of `import ngxway`.
#[derive(Debug, Args)]
pub struct NgxwayArguments {
    #[command(flatten)]
    pub(super) destination: Destination,
    /// Folder with upstream.conf and vhosts.conf, which is ngxway's conf/vhosts; conf or ngxway's
    /// own folder work too.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Leave the Lua programs out, and switch off the routes that they protect. Programs need
    /// `scripting.lua: trusted` in the gateway's configuration.
    #[arg(long)]
    without_lua: bool,
}

/// Document converted from ngxway's files, with the routes that lost their access control.
pub(super) struct Import {
    /// Path of ngxway's folder.
    pub(super) name: String,
    /// Converted document, or the problems that prevent the conversion.
    pub(super) document: Result<Document, Problems>,
    /// Routes that are disabled because their access control could not be converted.
    pub(super) unprotected: Vec<String>,
}

/// Reads and converts the files. Prints the directives that are not converted to standard error.
pub(super) fn read(arguments: &NgxwayArguments) -> anyhow::Result<Import> {
    let folder = find(&arguments.folder)?;
    // ngxway's own folder, above conf/vhosts.
    let root = folder.ancestors().nth(2).unwrap_or(&folder);
    let use_of_programs =
        if arguments.without_lua { UseOfPrograms::Omit } else { UseOfPrograms::Convert };
    let programs = Some(Programs::new(root, use_of_programs));
    let mut carried = Conversion { programs, ..Conversion::default() };
    for file in FILES {
        let path = folder.join(file);
        let text = match check::read(&path) {
            Ok(text) => text,
            Err(problem) => bail!("{problem}"),
        };
        match syntax::parse(&text) {
            Ok(directives) => {
                carried.take(file, &directives, &|included| read_included(&folder, included));
            }
            Err(error) => bail!("{} is not one of nginx's files: {error}", path.display()),
        }
    }
    for left in &carried.left {
        eprintln!("not carried: {left}");
    }
    let Conversion { routes, upstreams, unprotected, .. } = carried;
    let text = json!({"routes": routes, "upstreams": upstreams}).to_string();
    let document = declarative::parse(&text, Format::Json, &|_| None);
    Ok(Import { name: folder.display().to_string(), document, unprotected })
}

/// Returns the folder with the files: the given one, or ngxway's usual place below it.
fn find(named: &Path) -> anyhow::Result<PathBuf> {
    let places = ["", "vhosts", "conf/vhosts"].map(|below| named.join(below));
    let found = places.iter().find(|place| FILES.iter().all(|file| place.join(file).is_file()));
    found.cloned().with_context(|| {
        let named = named.display();
        format!("{named} has neither {0} and {1} nor conf/vhosts with them", FILES[0], FILES[1])
    })
}

/// Reads a file that an nginx file includes, from the imported folder or from the path in the
/// directive.
fn read_included(folder: &Path, path: &str) -> Option<String> {
    let in_conf = path.rsplit_once("/conf/").map_or(path, |(_, below)| below);
    let in_conf = folder.parent().map(|conf| conf.join(in_conf.trim_start_matches('/')));
    // A copy of ngxway's folder still contains the paths of the original machine, so that the
    // imported folder is tried first.
    let places = [in_conf, Some(PathBuf::from(path))];
    places.into_iter().flatten().find_map(|place| check::read(&place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(upstreams: &str, vhosts: &str) -> Conversion {
        let mut carried = Conversion::default();
        for (file, text) in FILES.into_iter().zip([upstreams, vhosts]) {
            carried.take(file, &syntax::parse(text).expect("it is right"), &included);
        }
        carried
    }

    /// A list file of ngxway.
    fn included(path: &str) -> Option<String> {
        (path == "/dist/conf/nginx/blacklist.conf").then(|| "deny 10.0.0.9;\n".to_owned())
    }

    const UPSTREAMS: &str = "upstream api_host {\n    server 192.168.0.107:8000 weight=100 \
        max_fails=3 fail_timeout=6s;\n    server b.local backup;\n    server c.local:81 down;\n    \
        keepalive 1024;\n}\n";

    const VHOSTS: &str = "server {\n  listen 8090;\n  server_name localhost;\n  charset utf-8;\n  gzip on;\n  \
        location /api/ {\n    access_by_lua_file /dist/ngxway/main.lua;\n    proxy_cache my_cache;\n    \
        proxy_next_upstream error timeout;\n    proxy_set_header Connection \"\";\n    \
        proxy_set_header Host $host;\n    proxy_set_header X-Real-IP $remote_addr;\n    \
        proxy_set_header X-Team shop;\n    proxy_connect_timeout 10s;\n    \
        proxy_pass http://api_host;\n  }\n  location /ngxway_status { stub_status on; }\n  \
        location / { root /dist/html/; }\n  location @rewrites { return 404; }\n  \
        location = /gone { return 410 gone; }\n  location ^~ /old/ { proxy_pass http://10.0.0.1:81/new/; }\n}\n";

    #[test]
    fn routes_and_upstreams_of_ngxway_become_those_of_the_gateway() {
        let Conversion { routes, upstreams, .. } = carried(UPSTREAMS, VHOSTS);
        let nodes = json!([
            {"host": "192.168.0.107", "port": 8000, "weight": 100},
            {"host": "b.local", "port": 80, "weight": 1, "priority": -1},
        ]);
        let expected = json!([{"id": "api_host", "type": "roundrobin", "nodes": nodes,
            "keepalive_pool": {"size": 1024}}]);
        assert_eq!(json!(upstreams), expected);
        let uris: Vec<&str> = routes.iter().map(|it| it["uris"][0].as_str().unwrap()).collect();
        assert_eq!(uris, ["/api/*", "/gone", "/old/*"]);
        let api = &routes[0];
        assert_eq!(api["upstream_id"], "api_host");
        assert_eq!(api["status"], 0, "what protected it is not carried");
        assert_eq!((&routes[1]["status"], routes[2].get("status")), (&json!(1), None));
        assert_eq!(api["timeout"], json!({"connect": 10.0, "send": 60, "read": 60}));
        let rewrite = json!({"headers": {"set": {"X-Team": "shop"}}});
        assert_eq!(api["plugins"]["proxy-rewrite"], rewrite);
        assert_eq!(api["plugins"]["proxy-cache"]["cache_method"], json!(["GET", "HEAD"]));
        assert_eq!(api["plugins"]["gzip"], json!({}));
        assert_eq!(routes[1]["plugins"]["fault-injection"]["abort"]["http_status"], 410);
        // By default nginx sends the name of the node.
        let rewrite = json!({"host": "10.0.0.1:81", "regex_uri": ["^/old/(.*)", "/new/$1"]});
        assert_eq!(routes[2]["plugins"]["proxy-rewrite"], rewrite);
        assert_eq!(routes[2]["upstream"]["nodes"][0]["port"], 81);
    }

    #[test]
    fn hosts_that_no_plugin_takes_are_told_and_do_not_refuse_the_import() {
        let of = |lines: &str| {
            let text =
                format!("server {{ location /a/ {{ {lines} proxy_pass http://api_host; }} }}");
            let Conversion { mut routes, left, .. } = carried(UPSTREAMS, &text);
            (routes.remove(0), left)
        };
        for lines in
            ["", "proxy_set_header Host $proxy_host;", "proxy_set_header Host $server_name;"]
        {
            let (route, left) = of(lines);
            assert_eq!(route.get("plugins"), None, "{lines}");
            assert!(left[1].contains("location: nodes get the client's Host"), "{lines}: {left:?}");
        }
        let (route, left) = of("proxy_set_header Host shop.test;");
        assert_eq!(route["plugins"]["proxy-rewrite"]["host"], "shop.test");
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_is_not_carried_is_told_with_its_place_and_the_reason() {
        let Conversion { left, .. } = carried(UPSTREAMS, VHOSTS);
        for expected in [
            "upstream.conf:2: server: add checks",
            "vhosts.conf:2: listen: set listen.http",
            "vhosts.conf:7: access_by_lua_file: the program that protects these paths was not read",
            "vhosts.conf:11: proxy_set_header: nodes get the client's Host as it is, with its port",
            "vhosts.conf:17: stub_status: metrics are at listen.metrics",
            "vhosts.conf:18: root: files are not served",
            "vhosts.conf:19: location: only paths",
        ] {
            assert!(left.iter().any(|it| it.starts_with(expected)), "{expected} in {left:#?}");
        }
        let odd = "server { location ~ x { } location /a { proxy_pass ftp://a; rewrite x y; } }";
        let Conversion { routes, left, .. } = carried("upstream u { server $x; }", odd);
        assert!(routes.is_empty());
        for expected in [
            "server: expected a host",
            "no server",
            "only paths",
            "http://",
            "rewrite: it is not understood",
        ] {
            assert!(left.iter().any(|it| it.contains(expected)), "{expected} in {left:#?}");
        }
    }

    /// Shortened form of the location that ngxway is shipped with.
    const SHIPPED: &str = "server { listen 8090; location /api/ { proxy_cache my_cache; \
        proxy_cache_key \"$scheme$request_method$host$request_uri\"; proxy_cache_valid 200 100m; \
        proxy_cache_valid 404 1m; proxy_cache_methods GET HEAD; proxy_pass http://api_host;\n \
        if ($upstream_cache_status != \"HIT\") {\n access_by_lua_file /dist/ngxway/main.lua; } } \
        location /open/ { proxy_pass http://api_host; } include /dist/conf/nginx/blacklist.conf; }";

    #[test]
    fn what_protects_a_location_is_never_lost_without_switching_its_route_off() {
        let Conversion { routes, unprotected, left, .. } = carried(UPSTREAMS, SHIPPED);
        assert_eq!((&routes[0]["status"], routes[1].get("status")), (&json!(0), None));
        assert_eq!(unprotected, ["ngxway-1 /api/*: vhosts.conf:3 access_by_lua_file"]);
        assert!(left.iter().any(|it| it.contains("access_by_lua_file: the program")), "{left:#?}");
        let restriction = json!({"blacklist": ["10.0.0.9"]});
        assert_eq!(routes[1]["plugins"]["ip-restriction"], restriction);
        let lost = "server { location / { proxy_pass http://a; } include /other.conf; }";
        let Conversion { routes, unprotected, .. } = carried(UPSTREAMS, lost);
        assert_eq!(routes[0]["status"], 0, "the file may be a list");
        assert_eq!(unprotected, ["ngxway-1 /*: vhosts.conf:1 include"]);
        let mixed = "server { deny 10.0.0.1; allow 10.0.0.0/8; deny all; location / { proxy_pass http://a; } \
            location /own { allow 10.0.0.7; deny all; proxy_pass http://a; } }";
        let Conversion { routes, .. } = carried(UPSTREAMS, mixed);
        assert_eq!(routes[0]["status"], 0);
        let own = json!({"whitelist": ["10.0.0.7"]});
        assert_eq!(
            (&routes[1]["plugins"]["ip-restriction"], routes[1].get("status")),
            (&own, None)
        );
    }

    #[test]
    fn a_cache_has_the_key_the_methods_and_the_time_of_its_directives() {
        let Conversion { routes, left, .. } = carried(UPSTREAMS, SHIPPED);
        let cache = &routes[0]["plugins"]["proxy-cache"];
        let key = json!(["$scheme", "$host", "$request_uri"]);
        assert_eq!((&cache["cache_key"], &cache["cache_ttl"]), (&key, &json!(6000)));
        assert_eq!(cache["cache_http_status"], json!([200]));
        assert!(left.iter().any(|it| it.contains("not kept: [404]")), "{left:#?}");
        assert!(!left.iter().any(|it| it.contains("not understood")), "{left:#?}");
    }
}
