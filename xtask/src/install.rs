//! Programs that the tests and the bench need in addition to Rust: peers for comparisons, and
//! foreign clients for compatibility tests. Only missing programs are installed, with a message
//! that names each and its purpose, and no service is left running.
//!
//! If nothing can be installed (no apt, no root), `TOLLHOUSE_TEST_SKIP_PEERS` names the missing
//! peers, and the tests that need them are skipped with a message.

mod built;
mod java;

use crate::shell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Environment variable with the comma-separated names of the peers that tests must do without.
pub(crate) const SKIP_VARIABLE: &str = "TOLLHOUSE_TEST_SKIP_PEERS";
/// Environment variable with the Python that has the client libraries below.
pub(crate) const PYTHON_VARIABLE: &str = "TOLLHOUSE_TEST_PYTHON";
/// Environment variable with the folder of programs that were built for the tests.
pub(crate) const PEERS_VARIABLE: &str = "TOLLHOUSE_TEST_PEERS";

/// A program from a Debian package, and its purpose.
struct Peer {
    program: &'static str,
    package: &'static str,
    reason: &'static str,
}

const PEERS: &[Peer] = &[
    Peer { program: "nginx", package: "nginx-light", reason: "origin and peer of the bench" },
    Peer { program: "haproxy", package: "haproxy", reason: "peer of the bench" },
    Peer { program: "curl", package: "curl", reason: "a common HTTP client" },
    Peer { program: "wrk", package: "wrk", reason: "load for the bench" },
    Peer { program: "ab", package: "apache2-utils", reason: "a common HTTP/1.0 client" },
    Peer { program: "h2load", package: "nghttp2-client", reason: "an independent HTTP/2 client" },
    Peer {
        program: "chromium",
        package: "chromium",
        reason: "a browser that draws the pages of reports",
    },
    Peer {
        program: "redis-server",
        package: "redis-server",
        reason: "counters that gateways share",
    },
    Peer { program: "rsyslogd", package: "rsyslog", reason: "a receiver of log entries" },
    Peer {
        program: "promtool",
        package: "prometheus",
        reason: "checks alerts, and the metrics of a running gateway",
    },
    Peer { program: "etcd", package: "etcd-server", reason: "a store that gateways share" },
    Peer {
        program: "etcdctl",
        package: "etcd-client",
        reason: "users and foreign values of that store",
    },
    Peer {
        program: "mariadbd",
        package: "mariadb-server",
        reason: "a store that registries share",
    },
    Peer {
        program: "systemd-analyze",
        package: "systemd",
        reason: "a check of the unit that is shipped; no service manager is started",
    },
    Peer { program: "rpm", package: "rpm", reason: "reads the RPM package of `cargo x dist`" },
    Peer { program: "skopeo", package: "skopeo", reason: "reads its image" },
    Peer { program: "umoci", package: "umoci", reason: "unpacks its image" },
    Peer { program: "minisign", package: "minisign", reason: "signs its checksums" },
    // The programs of PostgreSQL itself are not on the search path.
    Peer {
        program: "pg_ctlcluster",
        package: "postgresql",
        reason: "a store that registries share",
    },
];

/// System services that Debian's packages start when they are installed.
const SERVICES: &[Service] = &[
    Service { name: "nginx", pid_file: "/run/nginx.pid" },
    Service { name: "haproxy", pid_file: "/run/haproxy.pid" },
    Service { name: "redis-server", pid_file: "/run/redis/redis-server.pid" },
    Service { name: "rsyslog", pid_file: "/run/rsyslogd.pid" },
    Service { name: "prometheus", pid_file: "/run/prometheus/prometheus.pid" },
    Service { name: "etcd", pid_file: "/run/etcd.pid" },
    Service { name: "mariadb", pid_file: "/run/mysqld/mysqld.pid" },
    Service { name: "postgresql", pid_file: "/run/postgresql/15-main.pid" },
];

/// A system service, and the pid file of its init script.
struct Service {
    name: &'static str,
    pid_file: &'static str,
}

/// Python client libraries, pinned so that compatibility tests keep their meaning.
/// The last one contains the schemas of Kubernetes objects, which the chart is checked against.
const PYTHON_PACKAGES: &[(&str, &str)] = &[
    ("h11", "0.16.0"),
    ("websockets", "15.0.1"),
    ("grpcio", "1.85.3"),
    ("kubernetes-validate", "1.37.0"),
];

/// Description of the machine for the tests.
pub(crate) struct Environment {
    /// Peers that are missing and could not be installed.
    pub(crate) missing: Vec<String>,
    /// A Python with the client libraries, if there is one.
    pub(crate) python: Option<PathBuf>,
    /// Folder of the clients that were built for the tests.
    pub(crate) peers: Option<PathBuf>,
}

pub(crate) fn run() -> Result<()> {
    let environment = prepare()?;
    if environment.missing.is_empty() {
        println!("everything the tests and the bench need is installed");
    } else {
        println!("still missing: {}", environment.missing.join(", "));
    }
    Ok(())
}

/// Installs the missing programs if possible; a missing peer is never an error.
pub(crate) fn prepare() -> Result<Environment> {
    install_packages();
    let mut missing: Vec<String> = missing_peers().iter().map(|p| p.program.to_owned()).collect();
    let python = match prepare_python() {
        Ok(python) => Some(python),
        Err(error) => {
            println!("python clients: not available ({error:#}); their tests will be skipped");
            missing.push("python".to_owned());
            None
        }
    };
    if shell::find_program("go").is_none() {
        println!("go: not installed; tests with Go clients will be skipped");
        missing.push("go".to_owned());
    }
    let peers = match built::prepare(&mut missing) {
        Ok(folder) => Some(folder),
        Err(error) => {
            println!("clients from source: not available ({error:#}); their tests will be skipped");
            None
        }
    };
    Ok(Environment { missing, python, peers })
}

fn missing_peers() -> Vec<&'static Peer> {
    PEERS.iter().filter(|peer| shell::find_program(peer.program).is_none()).collect()
}

fn install_packages() {
    let missing = missing_peers();
    let has_venv = has_venv_module();
    if missing.is_empty() && has_venv {
        return;
    }
    for peer in &missing {
        println!("{}: missing; {} (Debian package {})", peer.program, peer.reason, peer.package);
    }
    if !has_venv {
        println!("python3 venv: missing; foreign HTTP and WebSocket clients (python3-venv)");
    }
    let mut packages: Vec<&str> = missing.iter().map(|peer| peer.package).collect();
    if !has_venv {
        packages.extend(["python3", "python3-venv"]);
    }
    let Some(mut apt) = apt_prefix() else {
        println!("cannot install packages here (needs apt-get, and root or sudo)");
        return;
    };
    if let Err(error) = apt_install(&mut apt, &packages) {
        println!("installing packages failed: {error:#}");
    }
}

/// Returns the words before apt-get's own arguments, or `None` if packages cannot be installed.
fn apt_prefix() -> Option<Vec<String>> {
    shell::find_program("apt-get")?;
    if rustix::process::geteuid().is_root() {
        return Some(vec!["env".to_owned()]);
    }
    shell::find_program("sudo")?;
    // If sudo needs a password, it must fail instead of waiting for one.
    shell::capture(&mut shell::command("sudo", &["-n", "true"])).ok()?;
    Some(["sudo", "-n", "env"].map(str::to_owned).to_vec())
}

fn apt_install(prefix: &mut Vec<String>, packages: &[&str]) -> Result<()> {
    let running_before: Vec<&str> =
        SERVICES.iter().filter(|service| is_running(service)).map(|service| service.name).collect();
    prefix.push("DEBIAN_FRONTEND=noninteractive".to_owned());
    let apt = |words: &[&str]| {
        let mut arguments: Vec<String> = prefix[1..].to_vec();
        arguments.push("apt-get".to_owned());
        arguments.extend(words.iter().map(|word| (*word).to_owned()));
        shell::run(&mut shell::command(&prefix[0], &arguments))
    };
    println!("installing: {}", packages.join(" "));
    if let Err(error) = apt(&["update", "-qq"]) {
        println!("apt-get update failed ({error:#}); trying with the lists at hand");
    }
    let mut words = vec!["install", "-qq", "-y", "--no-install-recommends"];
    words.extend(packages);
    let installed = apt(&words);
    stop_services(&prefix[..prefix.len() - 1], &running_before);
    installed
}

/// Stops the services that the packages started, because a test run must not leave a server on port
/// 80. A service that ran before is left alone.
fn stop_services(prefix: &[String], running_before: &[&str]) {
    for service in SERVICES.iter().filter(|service| !running_before.contains(&service.name)) {
        if !is_running(service) {
            continue;
        }
        let name = service.name;
        let mut arguments: Vec<String> = prefix[1..].to_vec();
        arguments.extend(["service", name, "stop"].map(str::to_owned));
        if let Err(error) = shell::run(&mut shell::command(&prefix[0], &arguments)) {
            println!("could not stop the {name} service that its package started: {error:#}");
        }
    }
}

/// Checks whether a system service runs; its pid file contains the number of its process.
fn is_running(service: &Service) -> bool {
    std::fs::read_to_string(service.pid_file)
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

fn has_venv_module() -> bool {
    shell::find_program("python3").is_some()
        && shell::capture(&mut shell::command("python3", &["-c", "import venv, ensurepip"])).is_ok()
}

/// Creates a virtual environment under the target folder, so that the system is not changed.
fn prepare_python() -> Result<PathBuf> {
    let folder = shell::target_directory()?.join("test-python");
    let python = folder.join("bin/python");
    if has_python_packages(&python) {
        return Ok(python);
    }
    let wanted: Vec<String> =
        PYTHON_PACKAGES.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    println!("python clients: installing {} into the target folder", wanted.join(" "));
    let place = folder.to_str().context("the target folder is not UTF-8")?;
    shell::capture(&mut shell::command("python3", &["-m", "venv", place]))?;
    let program = python.to_str().context("the target folder is not UTF-8")?;
    let mut arguments = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    arguments.extend(wanted.iter().map(String::as_str));
    shell::capture(&mut shell::command(program, &arguments))?;
    Ok(python)
}

fn has_python_packages(python: &Path) -> bool {
    let Some(program) = python.to_str().filter(|_| python.is_file()) else {
        return false;
    };
    let checks: Vec<String> = PYTHON_PACKAGES
        .iter()
        .map(|(name, version)| format!("assert m.version('{name}') == '{version}'"))
        .collect();
    let script = format!("import importlib.metadata as m; {}", checks.join("; "));
    shell::capture(&mut shell::command(program, &["-c", &script])).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_a_package_and_a_reason() {
        for peer in PEERS {
            assert!(!peer.package.is_empty() && !peer.reason.is_empty(), "{}", peer.program);
        }
    }

    #[test]
    fn a_service_without_a_pid_file_is_not_running() {
        let service = Service { name: "none", pid_file: "/run/no-such-service-anywhere.pid" };
        assert!(!is_running(&service));
    }
}
