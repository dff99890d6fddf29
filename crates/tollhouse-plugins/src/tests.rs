//! What holds for every plugin.

use std::collections::HashSet;

use super::*;

/// Headings of a manual page, in their order; a page may leave out the last two.
const HEADINGS: [&str; 4] = ["# Example", "# Answers", "# Metrics", "# Notes"];

#[test]
fn names_and_files_agree() {
    let catalogue = catalogue();
    let mut seen = HashSet::new();
    for plugin in catalogue.iter() {
        assert!(seen.insert(plugin.name), "{} is listed twice", plugin.name);
        assert!(plugin.schema()["type"] == "object", "{}", plugin.name);
    }
    assert_eq!(seen.len(), PAGES.len());
}

#[test]
fn every_page_has_its_headings_in_order() {
    for (name, source) in PAGES {
        let page: Vec<&str> =
            source.lines().take_while(|line| line.starts_with("//!")).map(|l| &l[3..]).collect();
        let found: Vec<&str> =
            page.iter().map(|l| l.trim()).filter(|l| l.starts_with("# ")).collect();
        let mut known = HEADINGS.iter();
        for heading in &found {
            assert!(known.any(|other| other == heading), "{name}: {heading} is out of place");
        }
        assert!(found.contains(&"# Example"), "{name}: no example");
        assert!(found.contains(&"# Answers"), "{name}: no answers");
    }
}

#[test]
fn every_example_is_a_good_conf() {
    let catalogue = catalogue();
    let services = std::sync::Arc::new(tollhouse_plugin::Services::new("APISIX/3.18.0"));
    for (name, source) in PAGES {
        let conf = example(source).unwrap_or_else(|| panic!("{name}: no example in ```json"));
        let conf: serde_json::Value = serde_json::from_str(&conf).expect(name);
        let scope = tollhouse_plugin::Scope {
            owner: "routes/1",
            conf: &conf,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services: &services,
        };
        catalogue.check(name, &conf, &scope).expect(name);
    }
}

/// The first JSON block of a manual page.
fn example(source: &str) -> Option<String> {
    let page = source.lines().take_while(|line| line.starts_with("//!"));
    let mut lines = page.map(|line| line[3..].trim());
    lines.find(|line| *line == "```json")?;
    Some(lines.take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"))
}
