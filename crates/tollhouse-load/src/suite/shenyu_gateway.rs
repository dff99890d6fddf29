//! ShenYu's own gateway: the bootstrap of a release, or in the newest version available from Maven,
//! assembled from a few lines of source. It is started with its defaults or with keep-alive, and
//! configured through its local interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tollhouse_testbed::{Response, ask, find};

use crate::error::BenchError;
use crate::suite::peer::Upstream;

/// Newest version that can be assembled; later ones are published only as archives and images.
pub(super) const VERSION: &str = "2.4.3";

/// Name of an already built program, used if it is on the PATH.
const PROGRAM: &str = "shenyu-gateway-2.4.3";

/// Source files of the gateway program.
const SOURCE: [(&str, &str); 2] = [
    ("pom.xml", include_str!("shenyu_gateway/pom.xml")),
    (
        "src/main/java/interop/Gateway.java",
        include_str!("shenyu_gateway/src/main/java/interop/Gateway.java"),
    ),
];

/// Packages that this version accesses by reflection and that newer Java versions restrict.
const OPENED: [&str; 2] =
    ["--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"];

/// Fixed heap size, so that all runs are alike.
const MEMORY: [&str; 2] = ["-Xms1g", "-Xmx1g"];

/// Key of the local interface. It protects nothing, because the gateway is on loopback and runs
/// only as long as the suite.
const LOCAL_KEY: &str = "bench";
/// SHA-512 digest of the local API's key.
const LOCAL_KEY_DIGEST: &str = concat!(
    "67b55d4772273bb41bfa35577710695f7134eccf5b7fcd92659d62402002d574",
    "ec17c43ddc2c20a59e2c8ed7e3511d647f623535c8e721748d3634067fc303a9"
);

/// Handling of connections to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connections {
    /// A new connection for each request, the default.
    AsShipped,
    /// Keep-alive, as in all other gateways of a suite.
    Kept,
}

impl Connections {
    pub(super) const ALL: [Connections; 2] = [Connections::AsShipped, Connections::Kept];

    /// Returns the name of the subject in reports.
    pub(super) fn subject(self, version: &str) -> String {
        let connections = match self {
            Connections::AsShipped => "as shipped",
            Connections::Kept => "keep-alive",
        };
        match version {
            "" => format!("shenyu, {connections}"),
            version => format!("shenyu {version}, {connections}"),
        }
    }

    /// Returns ShenYu's settings as command-line arguments.
    pub(super) fn settings(self, port: u16) -> Vec<String> {
        let mut settings = vec![
            format!("--server.port={port}"),
            "--server.address=127.0.0.1".to_owned(),
            "--shenyu.local.enabled=true".to_owned(),
            format!("--shenyu.local.sha512Key={LOCAL_KEY_DIGEST}"),
        ];
        if self == Connections::Kept {
            settings.push("--shenyu.httpclient.keepAlive=true".to_owned());
        }
        settings
    }
}

/// Program with its version; empty if the names of its files do not tell it.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) command: Command,
    pub(super) version: String,
}

/// Main class of the bootstrap in a release.
const BOOTSTRAP: &str = "org.apache.shenyu.bootstrap.ShenyuBootstrapApplication";

/// Returns the command that starts the gateway, without its settings; builds it first if necessary.
pub(super) fn gateway(artifact: Option<&Path>) -> Result<Gateway, BenchError> {
    match artifact {
        Some(path) => Ok(released(path)),
        None => Ok(Gateway { command: assembled()?, version: VERSION.to_owned() }),
    }
}

/// Returns the command for the jar of a bootstrap, or for the folder of a release with `lib` and
/// `conf`.
fn released(path: &Path) -> Gateway {
    let mut command = Command::new("java");
    command.args(MEMORY).args(OPENED);
    // Programs of a suite start in a folder of their own.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.is_dir() {
        let classes = format!("{}:{}", path.join("conf").display(), path.join("lib/*").display());
        command.arg("-cp").arg(classes).arg(BOOTSTRAP);
    } else {
        command.arg("-jar").arg(&path);
    }
    Gateway { command, version: version_of(&path) }
}

/// Returns the version in the name of the file, of its folders, or of the libraries.
fn version_of(path: &Path) -> String {
    let libraries = fs::read_dir(path.join("lib")).into_iter().flatten().flatten();
    let libraries = libraries.filter_map(|entry| entry.file_name().into_string().ok());
    let libraries = libraries.filter(|name| name.starts_with("shenyu-web-"));
    let parts = path.components().rev().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let is_version = |text: &&str| {
        let parts: Vec<&str> = text.split('.').collect();
        parts.len() > 2 && parts.iter().all(|it| it.parse::<u16>().is_ok())
    };
    let in_name = |name: String| {
        let stem = name.trim_end_matches(".jar");
        stem.split('-').find(is_version).map(str::to_owned)
    };
    libraries.chain(parts).find_map(in_name).unwrap_or_default()
}

/// Returns the command that starts the assembled gateway.
fn assembled() -> Result<Command, BenchError> {
    if let Some(program) = find(PROGRAM) {
        let mut command = Command::new(program);
        command.env("JAVA_OPTIONS", MEMORY.join(" "));
        return Ok(command);
    }
    let built = build()?;
    let (classes, libraries) = (built.join("classes"), built.join("libraries/*"));
    let mut command = Command::new("java");
    command.args(MEMORY).args(OPENED);
    command.arg("-cp").arg(format!("{}:{}", classes.display(), libraries.display()));
    command.arg("interop.Gateway");
    Ok(command)
}

/// Builds the gateway with Maven in the user's cache, once; returns the output folder.
fn build() -> Result<PathBuf, BenchError> {
    for needed in ["java", "mvn"] {
        if find(needed).is_none() {
            return Err(BenchError::Machine(format!(
                "{needed} is not installed, which ShenYu's gateway needs; install it \
                 (`apt-get install default-jdk-headless maven`), or measure one that runs (`--peers shenyu=URL`)"
            )));
        }
    }
    let folder = cache().join(PROGRAM);
    let built = folder.join("target");
    let stamp = folder.join("built");
    let source: String = SOURCE.iter().map(|(_, text)| *text).collect();
    if fs::read_to_string(&stamp).is_ok_and(|found| found == source) {
        return Ok(built);
    }
    for (file, text) in SOURCE {
        write(&folder.join(file), text)?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "compile", "dependency:copy-dependencies"]);
    let ran = maven
        .current_dir(&folder)
        .output()
        .map_err(|error| BenchError::System { doing: "starting mvn".into(), error })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stdout);
        let first = said.lines().find(|line| line.contains("ERROR")).unwrap_or_default();
        return Err(BenchError::Machine(format!("ShenYu's gateway cannot be assembled: {first}")));
    }
    write(&stamp, &source)?;
    Ok(built)
}

fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(file, text))
        .map_err(|error| BenchError::System { doing: format!("writing {}", file.display()), error })
}

fn cache() -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME");
    let cache = cache.or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("tollhouse")
}

/// Forwards every request to the upstream, without ShenYu Admin: enables the plugin `divide` and
/// adds a selector with a rule.
pub(super) fn set_up(port: u16, upstream: &Upstream<'_>) -> Result<(), BenchError> {
    let plugin =
        json!({"id": "5", "name": "divide", "enabled": true, "role": "Proxy", "sort": 200});
    let node = json!([{
        "upstreamHost": "localhost",
        "protocol": "http://",
        "upstreamUrl": format!("127.0.0.1:{}", upstream.port),
        "weight": 50,
        "status": true,
        "timestamp": 0,
        "warmup": 0,
    }]);
    let rule = json!({"loadBalance": "random", "retry": 0, "timeout": 3_000});
    let everything =
        json!([{"paramType": "uri", "operator": "match", "paramName": "/", "paramValue": "/**"}]);
    let pair = json!({
        "pluginName": "divide",
        "selectorName": "bench",
        "selectorHandler": node.to_string(),
        "ruleHandler": rule.to_string(),
        "conditionDataList": everything,
    });
    for (path, body) in [("plugin/saveOrUpdate", plugin), ("plugin/selectorAndRule", pair)] {
        let body = body.to_string();
        let request = format!(
            "POST /shenyu/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nlocalKey: {LOCAL_KEY}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let response = ask(port, &request);
        let refused =
            |why: String| BenchError::Machine(format!("ShenYu's gateway, asked for {path}: {why}"));
        let Response { line, body } = response.map_err(|error| refused(error.to_string()))?;
        if !line.contains(" 200") || !body.contains("success") {
            return Err(refused(format!("it answers `{line}` {body}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_differs_in_its_connections_alone() {
        let [shipped, kept] = Connections::ALL.map(|connections| connections.settings(1));
        assert_eq!(kept[..shipped.len()], shipped);
        assert_eq!(kept[shipped.len()..], ["--shenyu.httpclient.keepAlive=true"]);
    }

    #[test]
    fn the_source_asks_for_the_version_that_reports_name() {
        let wanted = format!("<shenyu.version>{VERSION}</shenyu.version>");
        assert!(SOURCE[0].1.contains(&wanted));
        assert!(PROGRAM.ends_with(VERSION));
    }

    #[test]
    fn a_release_names_its_version() {
        for (path, version) in [
            ("/opt/shenyu-bootstrap-2.6.0.jar", "2.6.0"),
            ("/opt/apache-shenyu-2.6.0-bootstrap-bin/bootstrap.jar", "2.6.0"),
            ("/opt/bootstrap.jar", ""),
        ] {
            assert_eq!(released(Path::new(path)).version, version, "{path}");
        }
        assert_eq!(Connections::Kept.subject("2.6.0"), "shenyu 2.6.0, keep-alive");
        assert_eq!(Connections::AsShipped.subject(""), "shenyu, as shipped");
    }
}
