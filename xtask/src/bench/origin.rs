//! The origin behind every proxy of the bench: nginx on the core of the load, which answers any
//! path with a body of a given size over kept connections.

use super::machine::Cores;
use super::peer::nginx_command;
use super::process::{self, Running, free_port};
use anyhow::Result;

/// Size up to which nginx holds a literal body in its configuration; larger bodies come from a
/// file.
const LITERAL_BYTES_MAX: usize = 3072;

pub(crate) struct Origin {
    pub(crate) port: u16,
    _running: Running,
}

/// Starts an origin that answers with `body_bytes`.
pub(crate) fn start(cores: &Cores, body_bytes: usize) -> Result<Origin> {
    let folder = process::fresh_folder()?;
    let port = free_port()?;
    let body = "x".repeat(body_bytes);
    let location = if body_bytes <= LITERAL_BYTES_MAX {
        format!("default_type text/plain; return 200 \"{body}\";")
    } else {
        std::fs::write(folder.path().join("body"), body)?;
        let root = folder.path().display();
        format!(
            "root {root}; rewrite ^ /body break; sendfile on; open_file_cache max=8; \
             default_type text/plain;"
        )
    };
    let text = configuration(port, "", &location);
    std::fs::write(folder.path().join("nginx.conf"), text)?;
    let command = nginx_command(cores.on_load_core("nginx"), folder.path());
    let mut running = Running::start(command, folder)?;
    running.wait_until_it_answers(port, "/")?;
    Ok(Origin { port, _running: running })
}

/// Starts a server that does as little as possible, on the core of the program under test.
/// `protocol` is the end of its `listen` line. Returns the port and the process.
pub(crate) fn start_null(cores: &Cores, protocol: &str) -> Result<(u16, Running)> {
    let folder = process::fresh_folder()?;
    let port = free_port()?;
    let text = configuration(port, protocol, "default_type text/plain; return 200 \"ok\";");
    std::fs::write(folder.path().join("nginx.conf"), text)?;
    let command = nginx_command(cores.on_proxy_core("nginx"), folder.path());
    let mut running = Running::start(command, folder)?;
    running.wait_until_it_listens(port)?;
    Ok((port, running))
}

fn configuration(port: u16, protocol: &str, location: &str) -> String {
    format!(
        "daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid nginx.pid;\n\
         error_log stderr crit;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n\
           access_log off; client_max_body_size 0; keepalive_requests 1000000000; keepalive_timeout 600s;\n\
           client_body_temp_path body_temp; proxy_temp_path proxy_temp;\n\
           fastcgi_temp_path fastcgi_temp; uwsgi_temp_path uwsgi_temp; scgi_temp_path scgi_temp;\n\
           server {{\n\
             listen 127.0.0.1:{port}{protocol} backlog=4096;\n\
             location / {{ {location} }}\n\
           }}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_the_configuration_match() {
        let text = configuration(1, " http2", "return 200;");
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(text.contains("listen 127.0.0.1:1 http2 "));
    }
}
