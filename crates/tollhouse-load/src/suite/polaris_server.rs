//! Polaris' own server, started from a release: the program with a copy of its configuration on ports
//! of its own. Everything else is as configured; a release keeps its data in a file.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use tollhouse_testbed::free_port;

/// Configuration file of a release, relative to the program.
pub(super) const CONFIGURATION: &str = "conf/polaris-server.yaml";

/// API servers whose ports the suite needs.
const GRPC: &str = "service-grpc";
const HTTP: &str = "api-http";

/// Configuration with its own ports.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) text: String,
    pub(super) grpc_port: u16,
    pub(super) http_port: u16,
}

/// Copies the configuration of a release to a folder, with free ports on loopback.
pub(super) fn copy(program: &Path, folder: &Path) -> io::Result<Configuration> {
    let release = program.parent().unwrap_or(Path::new("."));
    copy_folder(&release.join("conf"), &folder.join("conf"))?;
    let text = fs::read_to_string(release.join(CONFIGURATION))?;
    let configuration = with_ports(&text, || free_port().map_err(io::Error::other))?;
    fs::write(folder.join(CONFIGURATION), &configuration.text)?;
    Ok(configuration)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

/// Replaces every listening port, so that another server on this machine is not disturbed. A port
/// that occurs twice keeps its meaning.
fn with_ports(text: &str, mut free: impl FnMut() -> io::Result<u16>) -> io::Result<Configuration> {
    let mut ports: HashMap<String, u16> = HashMap::new();
    let (mut grpc_port, mut http_port) = (None, None);
    let mut server = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        if let Some(name) = rest.strip_prefix("- name:") {
            server = name.trim();
        }
        let Some(port) = rest.strip_prefix("listenPort:").map(str::trim) else {
            let is_address = rest.starts_with("listenIP:");
            lines.push(match is_address {
                true => format!("{indent}listenIP: \"127.0.0.1\""),
                false => line.to_owned(),
            });
            continue;
        };
        let port = match ports.get(port) {
            Some(known) => *known,
            None => *ports.entry(port.to_owned()).or_insert(free()?),
        };
        match server {
            GRPC => grpc_port = Some(port),
            HTTP => http_port = Some(port),
            _ => {}
        }
        lines.push(format!("{indent}listenPort: {port}"));
    }
    let missing = || io::Error::other(format!("{CONFIGURATION} has no {GRPC} or no {HTTP}"));
    Ok(Configuration {
        text: lines.join("\n") + "\n",
        grpc_port: grpc_port.ok_or_else(missing)?,
        http_port: http_port.ok_or_else(missing)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_a_free_one_on_loopback() {
        let text = "apiservers:\n  - name: api-http\n    option:\n      listenIP: \"0.0.0.0\"\n      \
                    listenPort: 8090\n  - name: service-grpc\n    option:\n      listenPort: 8091 # gRPC\n";
        let mut next = 4_000;
        let made = with_ports(text, || {
            next += 1;
            Ok(next)
        });
        let made = made.expect("both servers are there");
        assert_eq!((made.http_port, made.grpc_port), (4_001, 4_002));
        assert!(made.text.contains("      listenIP: \"127.0.0.1\"\n      listenPort: 4001\n"));
        assert!(with_ports("apiservers: []", || Ok(1)).is_err());
    }
}
