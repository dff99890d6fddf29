//! `tollhouse plugins`: lists the plugins, or prints the manual page of one.
//!
//! A page is made from the plugin's module doc and its schema (`plugins/page.rs`,
//! `plugins/fields.rs`). This file formats it for a terminal, `plugins/markdown.rs` for the
//! reference. Plugins that are not served yet are in `plugins/known.rs`.

mod fields;
mod known;
pub mod markdown;
mod page;

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use tollhouse_plugin::{Category, PluginType};
use tollhouse_stdx::nearest;

use self::fields::Field;
use self::known::KNOWN;
use self::page::Page;
use super::problems::{UNUSABLE, print_failure};
use super::stdout;

/// Arguments of `plugins`.
#[derive(Debug, Args)]
pub struct PluginsArguments {
    /// Plugin whose page to print; without it all plugins are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

const STRING: &str = "writing to a string cannot fail";

/// Maximum width of descriptions, in columns; longer lines are wrapped.
const WIDTH: usize = 96;

/// Prints the list of plugins, or the manual page of one.
///
/// # Errors
/// If standard output cannot be written.
pub fn run(arguments: &PluginsArguments) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.name else {
        stdout::print(&list())?;
        return Ok(ExitCode::SUCCESS);
    };
    match page::build(name) {
        Some(page) => {
            stdout::print(&text(&page))?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            print_failure(unknown(name));
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

/// A plugin in the list.
struct PluginRow {
    name: &'static str,
    priority: i32,
    category: &'static str,
    /// Phases of the plugin, as text; `None` for plugins that this build does not contain.
    phases: Option<String>,
}

/// Returns the plugins of this build and the other known ones of APISIX, by descending priority.
fn listed() -> Vec<PluginRow> {
    let catalogue = tollhouse_control::plugins::catalogue();
    let served = catalogue.iter().map(|plugin| PluginRow {
        name: plugin.name,
        priority: plugin.priority,
        category: category_name(plugin.category),
        phases: Some(phases_of(plugin)),
    });
    let others = KNOWN.iter().filter(|(name, ..)| catalogue.get(name).is_none());
    let others = others.map(|(name, priority, category)| PluginRow {
        name,
        priority: *priority,
        category,
        phases: None,
    });
    let mut all: Vec<PluginRow> = served.chain(others).collect();
    all.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
    all
}

fn list() -> String {
    let all = listed();
    let width = all.iter().map(|plugin| plugin.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    let mut line = |cells: [&str; 5]| {
        let [name, priority, category, state, phases] = cells;
        let row = format!("{name:width$}  {priority:>8}  {category:14}  {state:7}  {phases}");
        writeln!(text, "{}", row.trim_end()).expect(STRING);
    };
    line(["NAME", "PRIORITY", "CATEGORY", "STATE", "PHASES"]);
    for plugin in &all {
        let state = if plugin.phases.is_some() { "served" } else { "not yet" };
        let phases = plugin.phases.as_deref().unwrap_or_default();
        line([plugin.name, &plugin.priority.to_string(), plugin.category, state, phases]);
    }
    text
}

/// Returns the error text for a name without a page.
fn unknown(name: &str) -> String {
    if KNOWN.iter().any(|(known, ..)| *known == name) {
        return format!("the plugin \"{name}\" is not served yet");
    }
    match nearest(name, listed().iter().map(|plugin| plugin.name)) {
        Some(near) => format!("unknown plugin \"{name}\"; did you mean \"{near}\"?"),
        None => format!("unknown plugin \"{name}\"; `tollhouse plugins` lists all"),
    }
}

fn category_name(category: Category) -> &'static str {
    match category {
        Category::Authentication => "authentication",
        Category::Security => "security",
        Category::Traffic => "traffic",
        Category::Transformation => "transformation",
        Category::Observability => "observability",
        Category::Utility => "utility",
    }
}

fn phases_of(plugin: &PluginType) -> String {
    plugin.phases.names().join(", ")
}

/// Formats a manual page for a terminal.
fn text(page: &Page) -> String {
    let mut text = format!("{}\n\n", page.name);
    for line in page.facts() {
        writeln!(text, "{line}").expect(STRING);
    }
    writeln!(text, "\n{}", page.opening).expect(STRING);
    for section in &page.before_fields {
        add_section(&mut text, &section.heading, &section.body);
    }
    for table in &page.tables {
        writeln!(text, "\n{}", table.heading.to_uppercase()).expect(STRING);
        table.fields.iter().for_each(|field| add_field(&mut text, field));
        for note in &table.notes {
            writeln!(text, "\n    {note}").expect(STRING);
        }
    }
    for section in &page.after_fields {
        add_section(&mut text, &section.heading, &section.body);
    }
    text
}

fn add_section(text: &mut String, heading: &str, body: &str) {
    writeln!(text, "\n{}", heading.to_uppercase()).expect(STRING);
    for line in body.lines().filter(|line| !line.starts_with("```")) {
        writeln!(text, "{}", format!("    {line}").trim_end()).expect(STRING);
    }
}

fn add_field(text: &mut String, field: &Field) {
    let facts: Vec<&str> = field.facts().collect();
    writeln!(text, "    {}: {}", field.name, facts.join("; ")).expect(STRING);
    let mut line = String::new();
    for word in field.description.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 9 > WIDTH {
            writeln!(text, "        {line}").expect(STRING);
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        writeln!(text, "        {line}").expect(STRING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_listed_once_with_its_state() {
        let text = list();
        let line_of = |name: &str| {
            let begins = |line: &&str| line.split_whitespace().next() == Some(name);
            let lines: Vec<&str> = text.lines().filter(begins).collect();
            assert_eq!(lines.len(), 1, "{name}");
            lines[0].split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for plugin in tollhouse_control::plugins::catalogue().iter() {
            assert!(line_of(plugin.name).contains(" served"), "{}", plugin.name);
        }
        assert_eq!(line_of("key-auth"), "key-auth 2500 authentication served rewrite");
        assert_eq!(line_of("dubbo-proxy"), "dubbo-proxy 507 transformation not yet");
    }

    #[test]
    fn priorities_of_served_plugins_are_those_that_are_known() {
        for plugin in tollhouse_control::plugins::catalogue().iter() {
            let entry = KNOWN.iter().find(|(name, ..)| *name == plugin.name);
            if let Some((name, priority, _)) = entry {
                assert_eq!(plugin.priority, *priority, "{name}");
            }
        }
    }

    #[test]
    fn every_page_can_be_printed() {
        for plugin in tollhouse_control::plugins::catalogue().iter() {
            let page = page::build(plugin.name).expect("every plugin has a page");
            let text = text(&page);
            assert!(text.starts_with(plugin.name) && text.contains("EXAMPLE"), "{text}");
            assert!(!text.contains("```") && !text.contains("//!"), "{text}");
        }
        let text = text(&page::build("key-auth").expect("it is served"));
        let field = "    header: string; default \"apikey\"\n        Header that carries";
        assert!(text.contains(field), "{text}");
        assert!(text.contains("priority 2500"), "{text}");
    }

    #[test]
    fn names_without_a_page_are_explained() {
        assert!(unknown("dubbo-proxy").ends_with("is not served yet"));
        assert!(unknown("key-auht").ends_with("did you mean \"key-auth\"?"));
        assert!(unknown("zzzzzzzzzz").contains("lists all"));
    }
}
