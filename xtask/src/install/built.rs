//! Registry clients, gRPC test suites and tools that no distribution packages. They are built from
//! source, in pinned versions, below the target folder and with their own caches, so that the
//! system is not changed.
//!
//! Programs that are built already are kept; the compilers themselves check whether anything is
//! stale.

use super::java;
use crate::shell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions of the Polaris SDK for Go: two widely used ones, which need different answers, and the
/// newest.
const GO_SDK_VERSIONS: [&str; 3] = ["v1.6.1", "v1.7.0", "v1.7.1"];

/// A program that Go installs from its module.
struct GoTool {
    name: &'static str,
    module: &'static str,
    version: &'static str,
    reason: &'static str,
    /// Whether its module has `replace` directives, with which `go install` refuses it.
    has_replacements: bool,
}

/// Version of both programs of Pebble.
const PEBBLE_VERSION: &str = "v2.10.1";

const GO_TOOLS: &[GoTool] = &[
    GoTool {
        name: "ghz",
        module: "github.com/bojand/ghz/cmd/ghz",
        version: "v0.120.0",
        reason: "the load tool of Polaris' published figures, whose configuration files are read",
        has_replacements: false,
    },
    GoTool {
        name: "helm",
        module: "helm.sh/helm/v3/cmd/helm",
        version: "v3.21.4",
        reason: "renders the chart that is shipped",
        has_replacements: false,
    },
    GoTool {
        name: "grpcurl",
        module: "github.com/fullstorydev/grpcurl/cmd/grpcurl",
        version: "v1.9.3",
        reason: "a common gRPC client for the shell",
        has_replacements: false,
    },
    GoTool {
        name: "h2spec",
        module: "github.com/summerwind/h2spec/cmd/h2spec",
        // Later versions are not available through the module proxy.
        version: "v2.2.1+incompatible",
        reason: "a suite of conformance for HTTP/2",
        has_replacements: false,
    },
    GoTool {
        name: "jaeger",
        module: "github.com/jaegertracing/jaeger/cmd/jaeger",
        version: "v1.76.0",
        reason: "a backend of traces, whose query API shows those of the gateway",
        has_replacements: true,
    },
    GoTool {
        name: "pebble",
        module: "github.com/letsencrypt/pebble/v2/cmd/pebble",
        version: PEBBLE_VERSION,
        reason: "a certificate authority for tests",
        has_replacements: false,
    },
    GoTool {
        name: "pebble-challtestsrv",
        module: "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
        version: PEBBLE_VERSION,
        reason: "the name server for Pebble",
        has_replacements: false,
    },
];

/// A program in Go whose source is in the tree, in a folder of its name; its `go.mod` pins the
/// dependencies.
struct GoProgram {
    name: &'static str,
    reason: &'static str,
}

const GO_PROGRAMS: &[GoProgram] = &[
    GoProgram {
        name: "grpc-go",
        reason: "gRPC's interoperability suite, which goes through the gateway",
    },
    GoProgram {
        name: "otel-collector",
        reason: "OpenTelemetry's collector, which receives spans, logs and metrics of the gateway",
    },
    GoProgram {
        name: "prometheus-rules",
        reason: "the engine of Prometheus, which evaluates an alert over native histograms",
    },
    GoProgram {
        name: "prometheus-scrape",
        reason: "the parsers of Prometheus, which read the metrics page",
    },
];

/// Folder of the clients' sources in the tree.
const SOURCES: &str = "crates/tollhouse/tests/interop";
/// The client in Rust, on the stubs that Polaris publishes.
const RUST_CLIENT: &str = "polaris-specification-client";

/// Builds all tools and returns their folder; names of tools that cannot be built are added to
/// `missing`.
pub(super) fn prepare(missing: &mut Vec<String>) -> Result<PathBuf> {
    let place = Place { root: shell::target_directory()?.join("test-peers") };
    std::fs::create_dir_all(place.programs())?;
    let mut built = |name: &str, outcome: Result<()>| {
        if let Err(error) = outcome {
            println!("{name}: not available ({error:#}); its tests will be skipped");
            missing.push(name.to_owned());
        }
    };
    built(RUST_CLIENT, build_rust_client(&place));
    if shell::find_program("go").is_some() {
        for version in GO_SDK_VERSIONS {
            built(&go_client(version), build_go_client(&place, version));
        }
        for tool in GO_TOOLS {
            built(tool.name, install_go_tool(&place, tool));
        }
        for program in GO_PROGRAMS {
            built(program.name, build_go_program(&place, program));
        }
    }
    for program in java::PROGRAMS {
        built(program.name, java::build(&program, &place.root, &place.programs()));
    }
    Ok(place.programs())
}

/// Returns the name of the client for one version of the SDK.
fn go_client(version: &str) -> String {
    format!("polaris-go-{version}")
}

/// The folder for everything that is built.
struct Place {
    root: PathBuf,
}

impl Place {
    fn programs(&self) -> PathBuf {
        self.root.join("bin")
    }

    fn has(&self, name: &str) -> bool {
        self.programs().join(name).is_file()
    }

    /// Returns a Go command that runs in `folder`.
    fn go(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = shell::command("go", words);
        command
            .current_dir(folder)
            .env("GOMODCACHE", self.root.join("go/modules"))
            .env("GOCACHE", self.root.join("go/cache"))
            .env("GOBIN", self.programs())
            // `cargo clean` cannot remove folders that are not writable.
            .env("GOFLAGS", "-mod=mod -modcacherw -buildvcs=false");
        command
    }
}

/// Builds the Go client for one version of the SDK, from a copy whose `go.mod` requires that
/// version and leaves the rest to Go. `go.sum` covers the dependencies of all versions.
fn build_go_client(place: &Place, version: &str) -> Result<()> {
    let name = go_client(version);
    if !place.has(&name) {
        println!("{name}: building a client of the registry with this version of Polaris' SDK");
    }
    let source = shell::workspace_root().join(SOURCES).join("polaris-go");
    let copy = place.root.join("source").join(&name);
    std::fs::create_dir_all(&copy)?;
    for file in ["main.go", "go.sum"] {
        std::fs::copy(source.join(file), copy.join(file)).with_context(|| file.to_owned())?;
    }
    let manifest = std::fs::read_to_string(source.join("go.mod"))?;
    std::fs::write(copy.join("go.mod"), go_manifest(&manifest, version)?)?;
    let program = place.programs().join(&name);
    let program = program.to_str().context("the target folder is not UTF-8")?;
    shell::capture(&mut place.go(&copy, &["build", "-o", program, "."])).map(drop)
}

/// Builds a program as it is in the tree.
fn build_go_program(place: &Place, program: &GoProgram) -> Result<()> {
    let GoProgram { name, reason } = program;
    if !place.has(name) {
        println!("{name}: building {reason}");
    }
    let source = shell::workspace_root().join(SOURCES).join(name);
    let copy = place.root.join("source").join(name);
    std::fs::create_dir_all(&copy)?;
    for file in ["main.go", "go.mod", "go.sum"] {
        std::fs::copy(source.join(file), copy.join(file)).with_context(|| file.to_owned())?;
    }
    let program = place.programs().join(name);
    let program = program.to_str().context("the target folder is not UTF-8")?;
    shell::capture(&mut place.go(&copy, &["build", "-o", program, "."])).map(drop)
}

/// Returns the manifest with another version of the SDK, and without the other requirements of the
/// one in the tree.
fn go_manifest(manifest: &str, version: &str) -> Result<String> {
    let (head, _) = manifest.split_once("require").context("go.mod requires nothing")?;
    Ok(format!("{head}require github.com/polarismesh/polaris-go {version}\n"))
}

/// Installs a tool unless its current version is installed.
fn install_go_tool(place: &Place, tool: &GoTool) -> Result<()> {
    let GoTool { name, module, version, reason, has_replacements } = tool;
    let stamp = place.root.join(format!("{name}.version"));
    let is_there = std::fs::read_to_string(&stamp).is_ok_and(|found| found == *version);
    if is_there && place.has(name) {
        return Ok(());
    }
    println!("{name}: installing {version}; {reason}");
    let versioned = format!("{module}@{version}");
    if *has_replacements {
        build_in_own_module(place, tool, &versioned)?;
    } else {
        shell::capture(&mut place.go(&place.root, &["install", &versioned]))?;
    }
    std::fs::write(stamp, version)?;
    Ok(())
}

/// Builds a tool as a dependency of an empty module, for which Go ignores its replacements.
fn build_in_own_module(place: &Place, tool: &GoTool, versioned: &str) -> Result<()> {
    let folder = place.root.join("source").join(tool.name);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("go.mod"), "module tollhouse.test/tool\n")?;
    let program = place.programs().join(tool.name);
    let program = program.to_str().context("the target folder is not UTF-8")?;
    shell::capture(&mut place.go(&folder, &["get", versioned]))?;
    shell::capture(&mut place.go(&folder, &["build", "-o", program, tool.module])).map(drop)
}

/// Builds the Rust client in a separate target folder, because its dependencies have other versions
/// than ours, and because an outer `cargo` holds the lock of the usual one.
fn build_rust_client(place: &Place) -> Result<()> {
    if !place.has(RUST_CLIENT) {
        println!("{RUST_CLIENT}: building a client of the registry on Polaris' published stubs");
    }
    let manifest = shell::workspace_root().join(SOURCES).join("polaris-specification/Cargo.toml");
    let manifest = manifest.to_str().context("the tree's path is not UTF-8")?;
    let target = place.root.join("rust");
    let mut command = shell::cargo(&["build", "--locked", "--manifest-path", manifest]);
    shell::capture(command.env("CARGO_TARGET_DIR", &target))?;
    let built = target.join("debug").join(RUST_CLIENT);
    std::fs::copy(&built, place.programs().join(RUST_CLIENT))
        .with_context(|| built.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_asks_for_one_version_and_nothing_else() {
        let manifest = "module a\n\ngo 1.19\n\nrequire github.com/polarismesh/polaris-go v1.7.1\n\n\
                        require (\n\tother v1 // indirect\n)\n";
        let text = go_manifest(manifest, "v1.6.1").unwrap();
        let expected = "module a\n\ngo 1.19\n\nrequire github.com/polarismesh/polaris-go v1.6.1\n";
        assert_eq!(text, expected);
        assert!(go_manifest("module a\n", "v1.6.1").is_err());
    }

    #[test]
    fn the_tree_is_built_against_the_newest_version() {
        let file = shell::workspace_root().join(SOURCES).join("polaris-go/go.mod");
        let newest = GO_SDK_VERSIONS[GO_SDK_VERSIONS.len() - 1];
        assert!(std::fs::read_to_string(file).unwrap().contains(newest));
    }
}
