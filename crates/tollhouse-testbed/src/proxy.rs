//! nginx and HAProxy: their configurations for speed, with connections kept on both sides and
//! without an access log, and the commands that start them in the foreground.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::program::find;

/// A named server that requests are forwarded to, on loopback.
#[derive(Debug, Clone, Copy)]
pub struct Upstream<'a> {
    /// Name in the configuration.
    pub name: &'a str,
    /// Port of the server on loopback.
    pub port: u16,
}

/// Configuration of nginx.
#[derive(Debug, Clone)]
pub struct Nginx<'a> {
    /// Number of worker processes.
    pub workers: usize,
    /// Maximum number of connections per worker.
    pub connections: usize,
    /// Servers that requests are forwarded to.
    pub upstreams: &'a [Upstream<'a>],
    /// Maximum number of idle connections that nginx keeps per upstream and worker.
    pub kept: usize,
    /// Further directives of the `http` block.
    pub http: &'a str,
    /// Directives of the server: `listen`, certificates and locations.
    pub server: &'a str,
}

impl Nginx<'_> {
    /// Name of the configuration file.
    pub const FILE: &'static str = "nginx.conf";

    /// Returns the text of the configuration file.
    pub fn text(&self) -> String {
        let Self { workers, connections, kept, http, server, .. } = self;
        let mut text = format!(
            "daemon off;\nworker_processes {workers};\nworker_rlimit_nofile 65536;\n\
             pid nginx.pid;\nerror_log stderr crit;\n\
             events {{ worker_connections {connections}; }}\n\
             http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  \
             keepalive_timeout 600s;\n  client_body_temp_path body_temp;\n  \
             proxy_temp_path proxy_temp;\n  fastcgi_temp_path fastcgi_temp;\n  \
             uwsgi_temp_path uwsgi_temp;\n  scgi_temp_path scgi_temp;\n"
        );
        for Upstream { name, port } in self.upstreams {
            let _ = writeln!(
                text,
                "  upstream {name} {{ server 127.0.0.1:{port}; keepalive {kept}; \
                 keepalive_requests 1000000000; }}"
            );
        }
        if !self.upstreams.is_empty() {
            text.push_str("  proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n");
        }
        let _ = write!(text, "{http}  server {{\n{server}  }}\n}}\n");
        text
    }

    /// Returns the command that starts nginx in the foreground with the configuration in a folder.
    ///
    /// # Errors
    /// If nginx is not installed.
    pub fn command(folder: &Path) -> Result<Command, Error> {
        let mut command = installed("nginx")?;
        command.arg("-p").arg(folder).arg("-c").arg(folder.join(Self::FILE));
        command.args(["-e", "stderr"]);
        if rustix::process::geteuid().is_root() {
            // The folder belongs to root, and the worker must be able to read it.
            command.args(["-g", "user root;"]);
        }
        Ok(command)
    }
}

/// Configuration of HAProxy.
#[derive(Debug, Clone, Copy)]
pub struct Haproxy<'a> {
    /// Number of threads.
    pub threads: usize,
    /// Directives of the `defaults` section besides the timeouts: the mode.
    pub defaults: &'a str,
    /// Sections after the defaults.
    pub sections: &'a str,
}

impl Haproxy<'_> {
    /// Name of the configuration file.
    pub const FILE: &'static str = "haproxy.cfg";

    /// Returns the text of the configuration file. `no strict-limits` lets HAProxy start with fewer
    /// open files than the two per connection that it reserves, because idle connections need only
    /// one.
    pub fn text(&self) -> String {
        let Self { threads, defaults, sections } = self;
        format!(
            "global\n  nbthread {threads}\n  maxconn 16000\n  no strict-limits\n\n\
             defaults\n{defaults}  timeout connect 10s\n  timeout client 600s\n  \
             timeout server 600s\n\n{sections}"
        )
    }

    /// Returns the command that starts HAProxy in the foreground with the configuration in a folder.
    ///
    /// # Errors
    /// If HAProxy is not installed.
    pub fn command(folder: &Path) -> Result<Command, Error> {
        let mut command = installed("haproxy")?;
        command.args(["-db", "-f"]).arg(folder.join(Self::FILE));
        Ok(command)
    }
}

fn installed(name: &str) -> Result<Command, Error> {
    let program = find(name).ok_or_else(|| {
        Error::Machine(format!(
            "{name} is not installed; install it (`apt-get install {name}`) or leave it out of --peers"
        ))
    })?;
    Ok(Command::new(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_the_configuration_match() {
        let upstreams = [Upstream { name: "origin", port: 81 }];
        let nginx = Nginx {
            workers: 2,
            connections: 100,
            upstreams: &upstreams,
            kept: 32,
            http: "",
            server: "    listen 127.0.0.1:80;\n    location / { proxy_pass http://origin; }\n",
        };
        let text = nginx.text();
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        assert!(text.contains("upstream origin { server 127.0.0.1:81; keepalive 32;"), "{text}");
        let text = Nginx { upstreams: &[], ..nginx }.text();
        assert!(!text.contains("proxy_http_version"), "{text}");
    }

    #[test]
    fn sections_of_haproxy_follow_the_defaults() {
        let text = Haproxy { threads: 1, defaults: "  mode tcp\n", sections: "listen a\n" }.text();
        let expected = "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 600s\n  \
                        timeout server 600s\n\nlisten a\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
