//! The proxies with HTTP/2, TLS and gRPC, configured as their operators would do it: one worker,
//! kept connections on both sides, session tickets, no access log.

use crate::gateway::{self, route_json};
use crate::peer::Peer;
use crate::plan::{Core, Plan};
use crate::shell;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tollhouse_testbed::{Bootstrap, Haproxy, Listen, Nginx, Program, Upstream, free_port};

/// Host name in the certificate. The name is not used for routing, because clients that connect to
/// an IP address send no name.
const NAME: &str = "bench.test";

/// Files of a self-signed certificate with a P-256 key.
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// Chain and key in one file, as HAProxy reads them.
    both: PathBuf,
}

impl Certificate {
    /// Creates a certificate in `folder`.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let made = Self {
            chain: folder.join("chain.pem"),
            key: folder.join("key.pem"),
            both: folder.join("both.pem"),
        };
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        command.args(["-nodes", "-days", "30", "-subj", &format!("/CN={NAME}")]);
        command.args(["-addext", &format!("subjectAltName=DNS:{NAME}")]);
        command.arg("-out").arg(&made.chain).arg("-keyout").arg(&made.key);
        shell::output_of(&mut command)?;
        let texts = [std::fs::read(&made.chain)?, std::fs::read(&made.key)?];
        std::fs::write(&made.both, texts.concat())?;
        Ok(made)
    }
}

/// Ports of the nodes behind the proxies.
pub(crate) struct Nodes {
    pub(crate) http_port: u16,
    pub(crate) grpc_port: u16,
}

/// Running proxy, with its ports.
pub(super) struct EdgeProxy {
    pub(super) peer: Peer,
    /// Port for HTTP/2 in clear text.
    pub(super) plain_port: u16,
    /// Port for TLS, with HTTP/2 and HTTP/1.1 by ALPN.
    pub(super) tls_port: u16,
    pub(super) program: Program,
}

/// Ports of a proxy for HTTP/2 in clear text and for TLS.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: u16,
}

impl Ports {
    /// Returns free ports.
    pub(crate) fn free() -> Result<Self> {
        Ok(Self { plain: free_port()?, tls: free_port()? })
    }

    /// Returns the listeners of Tollhouse on these ports.
    pub(crate) fn listen(self) -> Result<Listen> {
        Ok(Listen { https: self.tls, ..gateway::listen(self.plain)? })
    }
}

/// Returns the further settings of Tollhouse.
pub(crate) fn tollhouse_settings() -> String {
    format!("tls: {{ fallback_sni: {NAME} }}\nlimits: {{ requests_per_connection: 1000000000 }}\n")
}

impl EdgeProxy {
    /// Starts the proxy on the core of the programs under test.
    pub(super) fn start(
        plan: &Plan,
        peer: Peer,
        nodes: &Nodes,
        certificate: &Certificate,
    ) -> Result<Self> {
        let ports = Ports::free()?;
        let program = match peer {
            Peer::Tollhouse => {
                let (listen, settings) = (ports.listen()?, tollhouse_settings());
                let bootstrap = Bootstrap { listen, settings: &settings, ..Bootstrap::default() };
                plan.gateway(Core::Proxy, &bootstrap, &resources(nodes, certificate)?)?
            }
            Peer::Nginx => {
                let upstreams = [
                    Upstream { name: "origin", port: nodes.http_port },
                    Upstream { name: "calls", port: nodes.grpc_port },
                ];
                let server = nginx_server(ports, certificate);
                let (connections, kept) = (20_000, 320);
                let (upstreams, server) = (&upstreams, &*server);
                let nginx = Nginx { workers: 1, connections, upstreams, kept, http: "", server };
                plan.nginx(Core::Proxy, &nginx)?
            }
            Peer::Haproxy | Peer::HaproxyTcp => {
                let sections = haproxy_sections(ports, nodes, certificate);
                let defaults = "  mode http\n  http-reuse always\n";
                let haproxy = Haproxy { threads: 1, defaults, sections: &sections };
                plan.haproxy_in(shell::fresh_folder()?, &haproxy)?
            }
        };
        // Some peers open the TLS port last, so that both ports have to be waited for.
        program.wait_until_it_listens(ports.tls).with_context(|| peer.name())?;
        program.wait_until_it_listens(ports.plain).with_context(|| peer.name())?;
        Ok(Self { peer, plain_port: ports.plain, tls_port: ports.tls, program })
    }
}

/// Returns the routes to the nodes, and the certificate.
pub(crate) fn resources(nodes: &Nodes, certificate: &Certificate) -> Result<String> {
    let route = serde_json::from_str::<serde_json::Value>(&route_json(nodes.http_port, 0))?;
    let calls = json!({
        "id": "calls",
        "uri": "/bench.Echo/*",
        "upstream": {
            "type": "roundrobin",
            "scheme": "grpc",
            "nodes": { format!("127.0.0.1:{}", nodes.grpc_port): 1 },
            // Connections to the nodes are kept for the whole case, as in the other proxies.
            "keepalive_pool": { "size": 320, "idle_timeout": 600, "requests": 1_000_000_000 },
        },
    });
    let ssl = json!({
        "id": "bench",
        "snis": [NAME],
        "cert": std::fs::read_to_string(&certificate.chain)?,
        "key": std::fs::read_to_string(&certificate.key)?,
    });
    Ok(json!({ "routes": [route, calls], "ssls": [ssl] }).to_string())
}

fn nginx_server(Ports { plain, tls }: Ports, certificate: &Certificate) -> String {
    let (chain, key) = (certificate.chain.display(), certificate.key.display());
    format!(
        "    listen 127.0.0.1:{plain} http2 backlog=4096;\n    \
         listen 127.0.0.1:{tls} ssl http2 backlog=4096;\n    \
         ssl_certificate {chain};\n    ssl_certificate_key {key};\n    \
         ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_session_cache shared:tls:10m;\n    \
         location = /r/0 {{ proxy_pass http://origin; }}\n    \
         location /bench.Echo/ {{ grpc_pass grpc://calls; }}\n"
    )
}

fn haproxy_sections(
    Ports { plain, tls }: Ports,
    nodes: &Nodes,
    certificate: &Certificate,
) -> String {
    let Nodes { http_port, grpc_port } = nodes;
    let both = certificate.both.display();
    format!(
        "frontend bench\n  bind 127.0.0.1:{plain} proto h2 backlog 4096\n  \
         bind 127.0.0.1:{tls} ssl crt {both} alpn h2,http/1.1 backlog 4096\n  \
         use_backend calls if {{ path_beg /bench.Echo/ }}\n  \
         http-request deny deny_status 404 unless {{ path /r/0 }} or {{ path_beg /bench.Echo/ }}\n  \
         default_backend origin\n\
         backend origin\n  server origin 127.0.0.1:{http_port}\n\
         backend calls\n  server calls 127.0.0.1:{grpc_port} proto h2\n"
    )
}
