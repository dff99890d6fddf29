//! The list of components: the crates in the binary, as CycloneDX 1.5 in JSON. C libraries (SQLite,
//! LuaJIT, AWS-LC, mimalloc) are part of the crates that build them.

use super::image::created;
use super::release::Release;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the document.
pub(super) fn document(release: &Release) -> Result<String> {
    let platform = format!("{}-unknown-linux-gnu", release.requirements.machine.name());
    let metadata = shell::capture(&mut shell::cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &platform,
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let graph = Graph::new(&metadata)?;
    let checksums =
        checksums(&std::fs::read_to_string(shell::workspace_root().join("Cargo.lock"))?);
    let reached = graph.reached();
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let package = graph.packages.get(id).context("a package has no entry")?;
        let needed: Vec<String> = graph
            .needed(id)
            .iter()
            .filter_map(|it| graph.packages.get(it))
            .map(|it| it.url())
            .collect();
        dependencies.push(json!({"ref": package.url(), "dependsOn": needed}));
        if *id != graph.root {
            components.push(component(package, &checksums));
        }
    }
    let program = graph.packages.get(&graph.root).context("the program has no entry")?;
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": created(release)?,
            "component": {
                "type": "application",
                "bom-ref": program.url(),
                "name": program.name,
                "version": program.version,
                "purl": program.url(),
                "licenses": [{"expression": program.license}],
                "hashes": [{"alg": "SHA-256", "content": super::release::sha256(&release.binary)?}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{document:#}\n"))
}

fn component(package: &Package, checksums: &BTreeMap<String, String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": package.url(),
        "name": package.name,
        "version": package.version,
        "purl": package.url(),
    });
    if !package.license.is_empty() {
        // Older crates separate alternatives with a slash.
        let expression = package.license.replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    if let Some(checksum) = checksums.get(&package.url()) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

struct Package {
    name: String,
    version: String,
    license: String,
}

impl Package {
    fn url(&self) -> String {
        package_url(&self.name, &self.version)
    }
}

fn package_url(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Packages and what they need, by their ids.
struct Graph {
    root: String,
    packages: BTreeMap<String, Package>,
    needed: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn new(metadata: &Value) -> Result<Self> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let packages: BTreeMap<String, Package> = list(&metadata["packages"])
            .iter()
            .map(|it| {
                let package = Package {
                    name: text(&it["name"]),
                    version: text(&it["version"]),
                    license: text(&it["license"]),
                };
                (text(&it["id"]), package)
            })
            .collect();
        let root = packages.iter().find(|(_, it)| it.name == "tollhouse");
        let root = root.context("cargo metadata does not name the program")?.0.clone();
        let mut needed = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let linked = list(&node["deps"]).into_iter().filter(is_linked);
            needed.insert(text(&node["id"]), linked.map(|it| text(&it["pkg"])).collect());
        }
        Ok(Self { root, packages, needed })
    }

    fn needed(&self, id: &str) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.needed.get(id).unwrap_or(&NONE)
    }

    /// Returns the program and everything that it needs, directly or not.
    fn reached(&self) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut pending = vec![self.root.clone()];
        while let Some(id) = pending.pop() {
            if reached.insert(id.clone()) {
                pending.extend(self.needed(&id).iter().cloned());
            }
        }
        reached
    }
}

/// Checks whether a dependency is part of the program, and not only of its build or its tests.
fn is_linked(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|it| it["kind"].is_null()))
}

/// Returns the checksums of crates in a lock file, by their package URLs.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| {
            let url = package_url(&value(block, "name")?, &value(block, "version")?);
            Some((url, value(block, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"ab\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        let expected = BTreeMap::from([("pkg:cargo/a@1.0.0%2Bx".to_owned(), "ab".to_owned())]);
        assert_eq!(checksums(lock), expected);
    }

    #[test]
    fn crates_of_the_build_and_of_tests_are_no_components() {
        let packages = ["tollhouse", "linked", "tool"].map(|it| json!({"id": it, "name": it}));
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [{"id": "tollhouse", "deps": [
                {"pkg": "linked", "dep_kinds": [{"kind": null}, {"kind": "dev"}]},
                {"pkg": "tool", "dep_kinds": [{"kind": "build"}]},
            ]}]},
        });
        let reached = Graph::new(&metadata).unwrap().reached();
        assert_eq!(reached.into_iter().collect::<Vec<_>>(), ["linked", "tollhouse"]);
    }
}
