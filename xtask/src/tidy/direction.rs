//! Rules for dependencies between crates: the order of the layers, and the dependencies that the
//! design excludes.
//!
//! The check uses `cargo metadata`, so that it applies to what is actually built.

use super::finding::{Finding, Severity};
use serde_json::Value;

/// Layers from the bottom up; within a layer a crate may use the ones to its left.
const LAYERS: &[&[&str]] = &[
    &["stdx"],
    &["model"],
    &[
        "transcode",
        "dubbo",
        "kafka",
        "shenyu",
        "config",
        "store",
        "router",
        "trace",
        "telemetry",
        "plugin",
        "lua",
        "shenyu-gateway",
    ],
    &["net", "web", "http", "h2", "upstream", "registry", "acme", "etcd", "sql"],
    &[
        "plugins",
        "proxy",
        "polaris",
        "console",
        "admin",
        "shenyu-admin",
        "go-template",
        "testbed",
        "mock",
        "load",
        "dialects",
    ],
    &["control"],
];

/// Crates without our prefix that could exist in another project.
const STANDALONE: &[&str] = &["go-template"];

/// Name of the crate with the program, above every layer.
const BINARY: &str = "tollhouse";
/// Crate that tests share, never part of what ships.
const TESTKIT: &str = "tollhouse-testkit";
/// The developer tasks: no crate depends on them, and they use none.
const TASKS: &str = "xtask";
/// Cases of the bench, never part of what ships. They start the programs that the test kit knows.
const BENCH: &str = "tollhouse-bench";

/// Dependencies that are forbidden although the layers would allow them, with reasons.
const ABSENCES: &[(&str, &[&str], &str)] = &[
    (
        "plugins",
        &["tollhouse-proxy"],
        "a plugin is written against the contract, not the data plane",
    ),
    (
        "proxy",
        &["tollhouse-store", "tollhouse-admin", "tollhouse-config"],
        "the data plane keeps serving when the control side is gone",
    ),
    ("model", &["tokio"], "the model does not depend on a runtime"),
    ("router", &["tokio"], "matching does no IO"),
    ("trace", &["tokio"], "spans are delivered elsewhere"),
    ("transcode", &["tokio"], "the conversion does no IO"),
    ("dubbo", &["tokio"], "the codec does no IO"),
    ("kafka", &["tokio"], "the codec does no IO"),
    ("shenyu", &["tokio"], "model and matching do no IO"),
    ("shenyu-gateway", &["tokio"], "the chain only handles requests through plugins"),
    ("h2", &["tokio", "h2"], "the codec does no IO, and is not a wrapper of another"),
    (
        "registry",
        &["prost", "h2", "axum", "hyper", "tollhouse-net", "tollhouse-http", "tollhouse-h2"],
        "the registry core knows no wire protocol",
    ),
];

/// Exceptions to the former for optional dependencies: a feature adds a part that may have them.
const BEHIND_FEATURES: &[(&str, &str)] = &[("h2", "tokio")];

/// Crates with a complete list of our crates that they may use, and the reasons.
const USES: &[(&str, &[&str], &str)] = &[
    ("go-template", &["tollhouse-stdx"], "templates are independent"),
    ("mock", &["tollhouse-stdx", "tollhouse-net", "tollhouse-http", "tollhouse-h2"], MEASURES),
    (
        "load",
        &[
            "tollhouse-stdx",
            "tollhouse-net",
            "tollhouse-http",
            "tollhouse-h2",
            "tollhouse-testbed",
            "go-template",
        ],
        MEASURES,
    ),
    ("testbed", &["tollhouse-stdx"], MEASURES),
    ("bench", &["tollhouse-stdx", "tollhouse-testbed"], MEASURES),
    ("dialects", &["tollhouse-stdx", "tollhouse-load", "go-template"], MEASURES),
];
const MEASURES: &str = "a measuring tool shares no code with the gateway that could favour it";

/// A member of the workspace and its dependencies.
pub(crate) struct Package {
    name: String,
    /// Path of the manifest from the workspace root.
    manifest: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    for_tests_only: bool,
    is_optional: bool,
}

/// Reads the workspace members from the output of `cargo metadata --no-deps`.
pub(crate) fn packages_from_metadata(metadata: &Value) -> Vec<Package> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = |package: &Value| {
        let manifest = package["manifest_path"].as_str()?;
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let dependencies = package["dependencies"].as_array()?;
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            manifest: manifest.to_owned(),
            dependencies: dependencies.iter().filter_map(read_dependency).collect(),
        })
    };
    packages.iter().filter_map(read).collect()
}

fn read_dependency(dependency: &Value) -> Option<Dependency> {
    let name = dependency["name"].as_str()?.to_owned();
    Some(Dependency {
        name,
        for_tests_only: dependency["kind"].as_str() == Some("dev"),
        is_optional: dependency["optional"].as_bool() == Some(true),
    })
}

/// Checks every dependency of every member.
pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let is_shipped = ![TASKS, TESTKIT, BENCH].contains(&package.name.as_str());
        if rank(&package.name).is_none() && is_shipped {
            findings.push(finding(
                package,
                format!("{} has no place in the order of crates", package.name),
                "the order defines what a crate may use",
                "add it to a layer in xtask/src/tidy/direction.rs and to ARCHITECTURE.md"
                    .to_owned(),
            ));
        }
        for dependency in &package.dependencies {
            if let Some(why) = refusal(&package.name, dependency) {
                findings.push(finding(
                    package,
                    format!("{} uses {}", package.name, dependency.name),
                    why,
                    "reverse the dependency, or move the shared part further down".to_owned(),
                ));
            }
        }
    }
    findings
}

/// Returns the reason why this dependency is forbidden, or `None` if it is allowed.
fn refusal(user: &str, dependency: &Dependency) -> Option<&'static str> {
    let used = dependency.name.as_str();
    if dependency.for_tests_only {
        return None;
    }
    if used == TESTKIT {
        return (user != BENCH).then_some("the test kit never ships");
    }
    let noun = user.strip_prefix("tollhouse-").unwrap_or(user);
    if dependency.is_optional && BEHIND_FEATURES.contains(&(noun, used)) {
        return None;
    }
    let absence = ABSENCES.iter().find(|(name, absent, _)| *name == noun && absent.contains(&used));
    if let Some((_, _, why)) = absence {
        return Some(why);
    }
    if used == BENCH {
        return Some("the cases of the bench never ship");
    }
    if !is_ours(used) {
        return None;
    }
    if let Some((_, allowed, why)) = USES.iter().find(|(name, ..)| *name == noun)
        && !allowed.contains(&used)
    {
        return Some(why);
    }
    match (rank(user), rank(used)) {
        _ if user == TESTKIT => None,
        _ if user == TASKS => {
            Some("the tasks must build in seconds, whatever state the product is in")
        }
        (Some(above), Some(below)) if below >= above => {
            Some("dependencies point down or to the left")
        }
        _ => None,
    }
}

fn is_ours(name: &str) -> bool {
    name == BINARY || name.starts_with("tollhouse-") || STANDALONE.contains(&name)
}

/// Returns the position in the order from the bottom up, or `None` for a crate that is not listed.
fn rank(name: &str) -> Option<usize> {
    let order = LAYERS.iter().flat_map(|layer| layer.iter());
    if name == BINARY {
        return Some(order.count());
    }
    let standalone = STANDALONE.contains(&name).then_some(name);
    let noun = name.strip_prefix("tollhouse-").or(standalone)?;
    order.into_iter().position(|other| *other == noun)
}

fn finding(package: &Package, what: String, why: &'static str, remedy: String) -> Finding {
    Finding {
        path: package.manifest.clone(),
        line: 0,
        severity: Severity::Fails,
        what,
        why,
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(user: &str, used: &str, for_tests_only: bool) -> usize {
        let dependency = Dependency { name: used.to_owned(), for_tests_only, is_optional: false };
        check(&[Package {
            name: user.to_owned(),
            manifest: String::new(),
            dependencies: vec![dependency],
        }])
        .len()
    }

    #[test]
    fn dependencies_point_down_or_left() {
        let cases = [
            ("tollhouse-model", "tollhouse-stdx", 0),
            ("tollhouse-stdx", "tollhouse-model", 1),
            ("tollhouse-upstream", "tollhouse-http", 0),
            ("tollhouse-http", "tollhouse-upstream", 1),
            ("tollhouse-proxy", "tollhouse-plugins", 0),
            ("tollhouse-plugins", "tollhouse-proxy", 1),
            ("tollhouse-admin", "tollhouse-store", 0),
            ("tollhouse-proxy", "tollhouse-config", 1),
            ("tollhouse", "tollhouse-control", 0),
            ("tollhouse-control", "tollhouse-admin", 0),
            ("tollhouse-admin", "tollhouse-control", 1),
            ("tollhouse-load", "tollhouse-router", 1),
            ("tollhouse-load", "tollhouse-http", 0),
            ("tollhouse-load", "tollhouse-dialects", 1),
            ("tollhouse-dialects", "tollhouse-load", 0),
            ("tollhouse-dialects", "tollhouse-mock", 1),
            ("tollhouse-mock", "tollhouse-load", 1),
            ("go-template", "tollhouse-net", 1),
            ("go-template", "serde", 0),
            ("tollhouse-load", "go-template", 0),
            ("tollhouse-model", "go-template", 1),
            ("tollhouse-router", "tokio", 1),
            ("tollhouse-h2", "tokio", 1),
            ("tollhouse-h2", "tollhouse-http", 0),
            ("tollhouse-http", "tollhouse-h2", 1),
            ("tollhouse-load", "tollhouse-h2", 0),
            ("tollhouse-net", "tokio", 0),
            ("tollhouse-unplaced", "serde", 1),
            ("tollhouse-load", "tollhouse-testbed", 0),
            ("tollhouse-testbed", "tollhouse-load", 1),
            ("tollhouse-testbed", "tollhouse-http", 1),
            ("tollhouse-bench", "tollhouse-testbed", 0),
            ("tollhouse-bench", "tollhouse-load", 1),
            ("tollhouse-load", "tollhouse-bench", 1),
            ("xtask", "tollhouse-model", 1),
            ("xtask", "tollhouse-testbed", 1),
        ];
        for (user, used, expected) in cases {
            assert_eq!(count(user, used, false), expected, "{user} -> {used}");
        }
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        assert_eq!(count("tollhouse-proxy", "tollhouse-testkit", true), 0);
        assert_eq!(count("tollhouse-proxy", "tollhouse-testkit", false), 1);
        assert_eq!(count("tollhouse-bench", "tollhouse-testkit", false), 0);
        assert_eq!(count("xtask", "tollhouse-testkit", false), 1);
    }

    #[test]
    fn some_dependencies_are_allowed_behind_a_feature() {
        let cases = [("h2", "tokio", 0), ("h2", "h2", 1), ("router", "tokio", 1)];
        for (user, used, expected) in cases {
            let metadata = serde_json::json!({
                "workspace_root": "/somewhere",
                "packages": [{
                    "name": format!("tollhouse-{user}"),
                    "manifest_path": "/somewhere/Cargo.toml",
                    "dependencies": [{"name": used, "kind": null, "optional": true}]
                }]
            });
            let findings = check(&packages_from_metadata(&metadata));
            assert_eq!(findings.len(), expected, "{user} -> {used}");
        }
    }

    #[test]
    fn metadata_is_read() {
        let metadata = serde_json::json!({
            "workspace_root": "/somewhere",
            "packages": [{
                "name": "tollhouse-model",
                "manifest_path": "/somewhere/crates/tollhouse-model/Cargo.toml",
                "dependencies": [{"name": "tollhouse-http", "kind": null}]
            }]
        });
        let findings = check(&packages_from_metadata(&metadata));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/tollhouse-model/Cargo.toml");
    }
}
