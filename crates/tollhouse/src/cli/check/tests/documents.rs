//! Checks that the examples in README.md and docs/ are valid files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tollhouse_telemetry::catalogue;

use super::super::*;

/// Code block in a document.
struct Example {
    place: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("the folder can be listed");
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the blocks marked as YAML, without the indentation of a surrounding list.
fn examples(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).expect("the document can be read");
    let mut found: Vec<Example> = Vec::new();
    let mut indentation = None;
    for (number, line) in text.lines().enumerate() {
        let fence = line.trim_start();
        match indentation {
            None if fence == "```yaml" => {
                let place = format!("{}:{}", path.display(), number + 1);
                found.push(Example { place, text: String::new() });
                indentation = Some(line.len() - fence.len());
            }
            Some(_) if fence == "```" => indentation = None,
            Some(blanks) => {
                let example = found.last_mut().expect("a block has begun");
                example.text.push_str(line.get(blanks..).unwrap_or_default());
                example.text.push('\n');
            }
            None => {}
        }
    }
    found
}

/// Environment in which all variables of the example are set. Each has 32 characters, which suit
/// keys and passwords, or the 128 characters of a SHA-512 digest.
fn environment(text: &str) -> impl Fn(&str) -> Option<String> + '_ {
    |name| {
        let times = if name.ends_with("_SHA512") { 8 } else { 2 };
        text.contains(&format!("${{{{{name}}}}}")).then(|| "0123456789abcdef".repeat(times))
    }
}

/// Environment with the variables of references too, which a bootstrap file resolves at once.
fn bootstrap_environment(text: &str) -> impl Fn(&str) -> Option<String> + '_ {
    |name| {
        let is_referred_to = text.contains(&format!("$env://{name}"));
        environment(text)(name).or_else(|| is_referred_to.then(|| "0123456789abcdef".to_owned()))
    }
}

#[test]
fn every_yaml_example_is_free_of_problems() {
    let examples: Vec<Example> = documents().iter().flat_map(|path| examples(path)).collect();
    assert!(examples.len() >= 8, "{} examples found", examples.len());
    for Example { place, text } in &examples {
        if text.lines().any(|line| line == "cases:") {
            let plan = tollhouse_load::plan::Plan::parse(text);
            plan.unwrap_or_else(|problem| panic!("{place}: {problem}"));
            continue;
        }
        let problems = match kind::guess(Path::new("example.yaml"), text) {
            FileKind::Resources => {
                let environment = environment(text);
                let surrounding = resources::Surrounding {
                    environment: &environment,
                    listed: &environment,
                    skipped_plugins: &[],
                };
                resources::check(text, Format::Yaml, surrounding).problems
            }
            FileKind::Bootstrap => {
                match Bootstrap::parse(Some(text), &bootstrap_environment(text), &[]) {
                    Ok(loaded) => loaded.problems,
                    Err(problems) => problems,
                }
            }
        };
        // Problems of certificates are ignored, because readers insert their own.
        let is_own = |problem: &&Problem| problem.reason.contains("nothing answers for $env://");
        let others: Vec<_> = problems.iter().filter(|problem| !is_own(problem)).collect();
        assert!(others.is_empty(), "{place}: {others:?}");
    }
}

fn read_deployment(name: &str) -> String {
    let path = root().join("deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names in `text` that begin like our metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let names = text.match_indices("tollhouse_").map(|(at, _)| {
        let end = text[at..].find(|letter| !is_part(letter)).unwrap_or(text.len() - at);
        &text[at..at + end]
    });
    names.collect()
}

/// Whether the metrics page has samples of this name.
fn is_exported(name: &str) -> bool {
    catalogue::metrics().any(|metric| {
        let is_part = |rest: &str| match metric.kind {
            "histogram" => ["", "_bucket", "_count", "_sum"].contains(&rest),
            _ => rest.is_empty(),
        };
        name.strip_prefix(metric.name).is_some_and(is_part)
    })
}

#[test]
fn alerts_and_dashboards_ask_for_metrics_that_are_exported() {
    for (name, at_least) in [
        ("prometheus/alerts.yaml", 20),
        ("grafana/tollhouse.json", 20),
        ("grafana/tollhouse-routes.json", 6),
        ("grafana/tollhouse-nodes.json", 6),
    ] {
        let text = read_deployment(name);
        let metrics = metrics_in(&text);
        assert!(metrics.len() >= at_least, "{name}: {metrics:?}");
        let missing: Vec<_> = metrics.into_iter().filter(|metric| !is_exported(metric)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn every_alert_links_to_a_section_of_its_own() {
    const PAGE: &str = "docs/operate/troubleshooting.md";
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the document can be read");
    let headings: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| heading.to_lowercase())
        .collect();
    let alerts = read_deployment("prometheus/alerts.yaml");
    let alerts: Vec<&str> = alerts.split("\n      - alert: ").skip(1).collect();
    assert!(alerts.len() > 20, "{} alerts", alerts.len());
    for alert in alerts {
        let name = alert.lines().next().unwrap_or_default();
        let link = format!("runbook_url: {PAGE}#{}", name.to_lowercase());
        assert!(alert.lines().any(|line| line.trim() == link), "{name} has no {link}");
        assert!(headings.contains(&name.to_lowercase()), "{PAGE} has no section {name}");
    }
}

#[test]
fn dashboards_are_json_with_panels_that_have_their_places_to_themselves() {
    for name in ["tollhouse", "tollhouse-routes", "tollhouse-nodes"] {
        let text = read_deployment(&format!("grafana/{name}.json"));
        let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(dashboard["uid"], name);
        let panels = dashboard["panels"].as_array().expect("panels");
        let place = |panel: &serde_json::Value| {
            (panel["gridPos"]["x"].to_string(), panel["gridPos"]["y"].to_string())
        };
        let places: BTreeSet<_> = panels.iter().map(place).collect();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].to_string()).collect();
        assert_eq!((places.len(), ids.len()), (panels.len(), panels.len()), "{name}");
    }
}

#[test]
fn the_charts_configuration_is_one() {
    let values = read_deployment("helm/tollhouse/values.yaml");
    let lines = values.lines().skip_while(|line| *line != "config:").skip(1);
    let block = lines.take_while(|line| line.is_empty() || line.starts_with("  "));
    let text: String =
        block.map(|line| format!("{}\n", line.get(2..).unwrap_or_default())).collect();
    let loaded = Bootstrap::parse(Some(&text), &|_| None, &[]);
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.problems.is_empty(), "{}", loaded.problems);
    assert_eq!(loaded.bootstrap.listen.status.len(), 1, "probes ask there");
}
