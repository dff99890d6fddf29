//! The proxies with HTTP/2, TLS and gRPC, configured as their operators would do it: one worker,
//! kept connections on both sides, session tickets, no access log.

use crate::bench::gateway::route_json;
use crate::bench::peer::{Peer, nginx_command};
use crate::bench::plan::Plan;
use crate::bench::process::{self, Running, free_port};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name in the certificate. Clients that connect to an address send no name.
const NAME: &str = "bench.test";

/// A self-signed certificate with a P-256 key.
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// Chain and key in one file, as HAProxy reads them.
    both: PathBuf,
}

impl Certificate {
    /// Creates a self-signed certificate and its key in `folder`.
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
        let output = command.output().context("openssl")?;
        if !output.status.success() {
            bail!("{}: {}", shell::render(&command), String::from_utf8_lossy(&output.stderr));
        }
        let texts = [std::fs::read(&made.chain)?, std::fs::read(&made.key)?];
        std::fs::write(&made.both, texts.concat())?;
        Ok(made)
    }
}

/// Ports of the nodes that requests go to.
pub(super) struct Nodes {
    pub(super) http_port: u16,
    pub(super) grpc_port: u16,
}

/// Running proxy, with the ports it listens on.
pub(super) struct EdgeProxy {
    pub(super) peer: Peer,
    /// Port for HTTP/2 in clear text.
    pub(super) plain_port: u16,
    /// Port for TLS, with HTTP/2 and HTTP/1.1 by ALPN.
    pub(super) tls_port: u16,
    pub(super) running: Running,
}

/// The two ports of a proxy.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    tls: u16,
}

impl EdgeProxy {
    /// Starts the proxy on the core of the proxies.
    pub(super) fn start(
        plan: &Plan,
        peer: Peer,
        nodes: &Nodes,
        certificate: &Certificate,
    ) -> Result<Self> {
        let folder = process::fresh_folder()?;
        let ports = Ports { plain: free_port()?, tls: free_port()? };
        let place = folder.path();
        let command = match peer {
            Peer::Tollhouse => {
                std::fs::write(place.join("resources.json"), resources(nodes, certificate)?)?;
                std::fs::write(place.join("tollhouse.yaml"), bootstrap(place, ports)?)?;
                let mut command = plan.cores.on_proxy_core(&plan.binary.display().to_string());
                command.args(["run", "--config"]).arg(place.join("tollhouse.yaml"));
                command
            }
            Peer::Nginx => {
                std::fs::write(place.join("nginx.conf"), nginx(ports, nodes, certificate))?;
                nginx_command(plan.cores.on_proxy_core("nginx"), place)
            }
            Peer::Haproxy | Peer::HaproxyTcp => {
                std::fs::write(place.join("haproxy.cfg"), haproxy(ports, nodes, certificate))?;
                let mut command = plan.cores.on_proxy_core("haproxy");
                command.args(["-db", "-f"]).arg(place.join("haproxy.cfg"));
                command
            }
        };
        // Some peers open the TLS port last, so that both ports have to be waited for.
        let mut running = Running::start(command, folder)?;
        running.wait_until_it_listens(ports.tls).with_context(|| peer.name())?;
        running.wait_until_it_listens(ports.plain).with_context(|| peer.name())?;
        Ok(Self { peer, plain_port: ports.plain, tls_port: ports.tls, running })
    }
}

fn resources(nodes: &Nodes, certificate: &Certificate) -> Result<String> {
    let route = serde_json::from_str::<serde_json::Value>(&route_json(nodes.http_port, 0))?;
    let calls = json!({
        "id": "calls",
        "uri": "/bench.Echo/*",
        "upstream": {
            "type": "roundrobin",
            "scheme": "grpc",
            "nodes": { format!("127.0.0.1:{}", nodes.grpc_port): 1 },
            // Long times, as for the other proxies, which keep their connections for the whole
            // case.
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

fn bootstrap(place: &Path, Ports { plain, tls }: Ports) -> Result<String> {
    let metrics = free_port()?;
    let place = place.display();
    Ok(format!(
        "data_dir: {place}/data\nworkers: 1\nresources: {place}/resources.json\n\
         tls: {{ fallback_sni: {NAME} }}\n\
         limits: {{ requests_per_connection: 1000000000 }}\n\
         listen:\n  http: [\"127.0.0.1:{plain}\"]\n  https: [\"127.0.0.1:{tls}\"]\n  admin: \"\"\n  \
         control: \"\"\n  metrics: \"127.0.0.1:{metrics}\"\n  registry_grpc: \"\"\n  registry_http: \"\"\n"
    ))
}

fn nginx(Ports { plain, tls }: Ports, nodes: &Nodes, certificate: &Certificate) -> String {
    let Nodes { http_port, grpc_port } = nodes;
    let (chain, key) = (certificate.chain.display(), certificate.key.display());
    format!(
        "daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid nginx.pid;\n\
         error_log stderr crit;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n\
           access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;\n\
           client_body_temp_path body_temp; proxy_temp_path proxy_temp;\n\
           fastcgi_temp_path fastcgi_temp; uwsgi_temp_path uwsgi_temp; scgi_temp_path scgi_temp;\n\
           upstream origin {{\n\
             server 127.0.0.1:{http_port}; keepalive 320; keepalive_requests 1000000000;\n\
           }}\n\
           upstream calls {{\n\
             server 127.0.0.1:{grpc_port}; keepalive 320; keepalive_requests 1000000000;\n\
           }}\n\
           proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
           server {{\n\
             listen 127.0.0.1:{plain} http2 backlog=4096; listen 127.0.0.1:{tls} ssl http2 backlog=4096;\n\
             ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;\n\
             ssl_session_cache shared:tls:10m;\n\
             location = /r/0 {{ proxy_pass http://origin; }}\n\
             location /bench.Echo/ {{ grpc_pass grpc://calls; }}\n\
           }}\n\
         }}\n"
    )
}

fn haproxy(Ports { plain, tls }: Ports, nodes: &Nodes, certificate: &Certificate) -> String {
    let Nodes { http_port, grpc_port } = nodes;
    let both = certificate.both.display();
    format!(
        "global\n  nbthread 1\n  maxconn 16000\n  no strict-limits\n\
         defaults\n  mode http\n  http-reuse always\n  timeout connect 10s\n  timeout client 600s\n  \
         timeout server 600s\n\
         frontend bench\n  bind 127.0.0.1:{plain} proto h2 backlog 4096\n  \
         bind 127.0.0.1:{tls} ssl crt {both} alpn h2,http/1.1 backlog 4096\n  \
         use_backend calls if {{ path_beg /bench.Echo/ }}\n  \
         http-request deny deny_status 404 unless {{ path /r/0 }} or {{ path_beg /bench.Echo/ }}\n  \
         default_backend origin\n\
         backend origin\n  server origin 127.0.0.1:{http_port}\n\
         backend calls\n  server calls 127.0.0.1:{grpc_port} proto h2\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_configurations_match() {
        let certificate = Certificate { chain: "c".into(), key: "k".into(), both: "b".into() };
        let nodes = Nodes { http_port: 1, grpc_port: 2 };
        let ports = Ports { plain: 3, tls: 4 };
        let texts = [nginx(ports, &nodes, &certificate), haproxy(ports, &nodes, &certificate)];
        for text in texts {
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }
}
