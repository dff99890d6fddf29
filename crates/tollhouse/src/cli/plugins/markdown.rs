//! Plugin pages of the reference, in Markdown.

use std::fmt::Write;

use super::fields::{Field, Presence};
use super::page::{self, Page, Section};
use super::{STRING, listed};

const OPENING: &str = "# Plugins

Generated from the source; do not edit.

Every plugin of APISIX's catalogue, and our own `otlp-logger`, `retry-statuses` and `session-cookie`, by descending priority, which is the order in which they run within
a phase, with its state here. A plugin that is not served yet is refused by the Admin API. In a file or in etcd
it is reported: one that might protect has the requests of its object answered 503 (`plugin_unavailable`), and one
that only logs, traces or encodes is passed over. `tollhouse plugins NAME` prints the same pages in a terminal.

| plugin | priority | category | phases | state |
| --- | --- | --- | --- | --- |
";

/// Returns the page that lists all plugins.
pub fn index() -> String {
    let mut text = String::from(OPENING);
    for plugin in listed() {
        let (name, priority, category) = (plugin.name, plugin.priority, plugin.category);
        let row = match plugin.phases {
            Some(phases) => {
                format!(
                    "| [{name}](plugins/{name}.md) | {priority} | {category} | {phases} | served |"
                )
            }
            None => format!("| {name} | {priority} | {category} |  | not yet |"),
        };
        writeln!(text, "{row}").expect(STRING);
    }
    text
}

/// Returns the page of one plugin; `None` if it is not served.
pub fn page(name: &str) -> Option<String> {
    page::build(name).map(|page| render(&page))
}

fn render(page: &Page) -> String {
    let mut text = format!("# {}\n\nGenerated from the source; do not edit.\n\n", page.name);
    writeln!(text, "{}\n", page.opening).expect(STRING);
    for fact in page.facts() {
        writeln!(text, "- {fact}").expect(STRING);
    }
    page.before_fields.iter().for_each(|section| add_section(&mut text, section));
    for table in &page.tables {
        writeln!(text, "\n## {}", table.heading).expect(STRING);
        if !table.fields.is_empty() {
            text.push_str("\n| field | type | default | bounds | what it means |\n");
            text.push_str("| --- | --- | --- | --- | --- |\n");
            table.fields.iter().for_each(|field| add_field(&mut text, field));
        }
        for note in &table.notes {
            writeln!(text, "\n{note}").expect(STRING);
        }
    }
    page.after_fields.iter().for_each(|section| add_section(&mut text, section));
    text.push_str("\n[All plugins](../plugins.md)\n");
    text
}

fn add_section(text: &mut String, section: &Section) {
    writeln!(text, "\n## {}\n\n{}", section.heading, section.body).expect(STRING);
}

fn add_field(text: &mut String, field: &Field) {
    let default = match &field.presence {
        Presence::Required => "required".to_owned(),
        Presence::Default(words) => {
            format!("`{}`", words.strip_prefix("default ").unwrap_or(words))
        }
        Presence::Optional => String::new(),
    };
    let cells = [
        format!("`{}`", field.name),
        field.takes.clone(),
        default,
        field.bounds.clone(),
        field.description.clone(),
    ];
    // A bar would end the cell, even within code.
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    writeln!(text, "| {} |", cells.join(" | ")).expect(STRING);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_leads_to_every_page_and_to_no_other() {
        let index = index();
        for plugin in listed() {
            let link = format!("](plugins/{}.md)", plugin.name);
            assert_eq!(index.contains(&link), plugin.phases.is_some(), "{}", plugin.name);
            assert_eq!(page(plugin.name).is_some(), plugin.phases.is_some(), "{}", plugin.name);
        }
        assert!(page("no-such-plugin").is_none());
    }

    #[test]
    fn a_page_has_what_the_source_says_in_the_order_of_reading() {
        let page = page("key-auth").expect("it is served");
        let parts = [
            "# key-auth\n",
            "carry the key of a consumer",
            "- authentication, priority 2500, phases rewrite",
            "## Example\n\n```json\n{",
            "## Fields\n",
            "| `header` | string | `\"apikey\"` |  | Header that carries the key; `apikey` by default. |",
            "## Fields of a consumer\n",
            "| `key` | string | required |",
            "Encrypted in the store: `key`.",
            "## Answers\n",
            "## Notes\n",
            "[All plugins](../plugins.md)",
        ];
        let mut at = 0;
        for part in parts {
            let found = page[at..].find(part);
            at += found.unwrap_or_else(|| panic!("{part} is not there, or too early:\n{page}"));
        }
    }

    #[test]
    fn tables_are_as_wide_in_every_line() {
        for plugin in listed().iter().filter(|plugin| plugin.phases.is_some()) {
            let page = page(plugin.name).expect("it is served");
            for line in page.lines().filter(|line| line.starts_with("| ")) {
                let bars = line.replace("\\|", "").matches('|').count();
                assert_eq!(bars, 6, "{}: {line}", plugin.name);
            }
        }
    }
}
