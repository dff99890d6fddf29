//! `tollhouse import ngxway`: the routes and upstreams of an ngxway, which are two files of nginx's. They are carried in the
//! shape that ngxway has them in; of everything else it is said what it was and why it was left.

mod carry;
mod syntax;

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tollhouse_config::{Document, Format, declarative};
use tollhouse_model::Problems;

use self::carry::Carried;
use crate::cli::check;
use crate::cli::configuration::Configuration;

/// The files, in the order in which they are read.
const FILES: [&str; 2] = ["upstream.conf", "vhosts.conf"];

/// Arguments of `import ngxway`.
#[derive(Debug, Args)]
pub struct NgxwayArguments {
    #[command(flatten)]
    pub(super) configuration: Configuration,
    /// The folder with upstream.conf and vhosts.conf: ngxway's conf/vhosts.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// What the files come to, or what is wrong with that; what was left is told on the standard error.
pub(super) fn document(
    arguments: &NgxwayArguments,
) -> anyhow::Result<(String, Result<Document, Problems>)> {
    let mut carried = Carried::default();
    for file in FILES {
        let path = arguments.folder.join(file);
        let text = match check::read(&path) {
            Ok(text) => text,
            Err(problem) => bail!("{problem}"),
        };
        match syntax::parse(&text) {
            Ok(directives) => carried.take(file, &directives),
            Err(error) => bail!("{} is none of nginx's files: {error}", path.display()),
        }
    }
    for left in &carried.left {
        eprintln!("not carried: {left}");
    }
    let Carried { routes, upstreams, .. } = carried;
    let text = json!({"routes": routes, "upstreams": upstreams}).to_string();
    let document = declarative::parse(&text, Format::Json, &|_| None);
    Ok((arguments.folder.display().to_string(), document))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(upstreams: &str, vhosts: &str) -> Carried {
        let mut carried = Carried::default();
        for (file, text) in FILES.into_iter().zip([upstreams, vhosts]) {
            carried.take(file, &syntax::parse(text).expect("it is right"));
        }
        carried
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
        let Carried { routes, upstreams, .. } = carried(UPSTREAMS, VHOSTS);
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
        // Unless it is told otherwise, nginx names the node to it.
        let rewrite = json!({"host": "10.0.0.1:81", "regex_uri": ["^/old/(.*)", "/new/$1"]});
        assert_eq!(routes[2]["plugins"]["proxy-rewrite"], rewrite);
        assert_eq!(routes[2]["upstream"]["nodes"][0]["port"], 81);
    }

    #[test]
    fn what_is_not_carried_is_told_with_its_place_and_the_reason() {
        let Carried { left, .. } = carried(UPSTREAMS, VHOSTS);
        for expected in [
            "upstream.conf:2: server: add checks",
            "vhosts.conf:2: listen: set listen.http",
            "vhosts.conf:7: access_by_lua_file: the firewall and the signature check of ngxway protect",
            "vhosts.conf:8: proxy_cache: kept in memory for 300 s",
            "vhosts.conf:17: stub_status: metrics are at listen.metrics",
            "vhosts.conf:18: root: files are not served",
            "vhosts.conf:19: location: only paths",
        ] {
            assert!(left.iter().any(|it| it.starts_with(expected)), "{expected} in {left:#?}");
        }
        let odd = "server { location ~ x { } location /a { proxy_pass ftp://a; rewrite x y; } }";
        let Carried { routes, left, .. } = carried("upstream u { server $x; }", odd);
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
}
