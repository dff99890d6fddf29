//! Contents of a plugin's manual page, independent of its format: the module doc and the schemas,
//! in reading order.

use tollhouse_plugin::{PluginType, RunPolicy};

use super::fields::{self, Field};
use super::{category_name, phases_of};

/// Headings of the sections that follow the field tables.
const AFTER_FIELDS: [&str; 3] = ["Answers", "Metrics", "Notes"];

pub(super) struct Page {
    pub(super) name: &'static str,
    /// Text of the module doc before its first heading.
    pub(super) opening: String,
    /// Sections before the fields, such as the example.
    pub(super) before_fields: Vec<Section>,
    /// Tables of fields: of routes, of consumers, of plugin metadata.
    pub(super) tables: Vec<Table>,
    /// Sections on answers and metrics, and notes.
    pub(super) after_fields: Vec<Section>,
    priority: i32,
    category: &'static str,
    phases: String,
    run_policy: RunPolicy,
    judges_path: bool,
}

/// A section of the module doc.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) body: String,
}

/// Fields of one JSON Schema, with the heading of their table.
pub(super) struct Table {
    pub(super) heading: &'static str,
    pub(super) fields: Vec<Field>,
    /// Constraints on several fields together, as sentences.
    pub(super) notes: Vec<String>,
}

/// Builds the page of a plugin; `None` if this build does not contain it.
pub(super) fn build(name: &str) -> Option<Page> {
    let catalogue = tollhouse_control::plugins::catalogue();
    let plugin = catalogue.get(name)?;
    let (_, source) = tollhouse_plugins::PAGES.iter().find(|(page, _)| *page == name)?;
    let (opening, sections) = sections(source);
    let (after_fields, before_fields) =
        sections.into_iter().partition(|section| AFTER_FIELDS.contains(&section.heading.as_str()));
    Some(Page {
        name: plugin.name,
        opening,
        before_fields,
        tables: tables(plugin),
        after_fields,
        priority: plugin.priority,
        category: category_name(plugin.category),
        phases: phases_of(plugin),
        run_policy: plugin.run_policy,
        judges_path: plugin.judges_path,
    })
}

impl Page {
    /// Returns lines with the main properties of the plugin, such as its priority and phases.
    pub(super) fn facts(&self) -> Vec<String> {
        let phases = match self.phases.as_str() {
            "" => "works outside of requests".to_owned(),
            phases => format!("phases {phases}"),
        };
        let mut facts = vec![format!("{}, priority {}, {phases}", self.category, self.priority)];
        if self.run_policy == RunPolicy::PreferRoute {
            facts.push("of a global rule's and a route's conf only the route's runs".to_owned());
        }
        if self.judges_path {
            facts
                .push("nodes get the path that was judged; ambiguous paths are refused".to_owned());
        }
        facts
    }
}

/// Splits the module doc at its headings.
fn sections(source: &str) -> (String, Vec<Section>) {
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    let lines = lines.map(|line| line.trim_start_matches("//!"));
    let (mut opening, mut sections) = (String::new(), Vec::<Section>::new());
    for line in lines.map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        if let Some(heading) = line.strip_prefix("# ") {
            sections.push(Section { heading: heading.to_owned(), body: String::new() });
            continue;
        }
        let body = sections.last_mut().map_or(&mut opening, |section| &mut section.body);
        body.push_str(line);
        body.push('\n');
    }
    for section in &mut sections {
        section.body = section.body.trim().to_owned();
    }
    (opening.trim().to_owned(), sections)
}

fn tables(plugin: &PluginType) -> Vec<Table> {
    let schemas = [
        ("Fields", Some(plugin.schema()), plugin.encrypted),
        (
            "Fields of a consumer",
            plugin.consumer_schema(),
            plugin.consumer.as_ref().map_or(&[][..], |spec| spec.encrypted),
        ),
        ("Plugin metadata", plugin.metadata_schema(), &[]),
    ];
    let mut tables = Vec::new();
    for (heading, schema, encrypted) in schemas {
        let Some(schema) = schema else { continue };
        let fields = fields::from_schema(schema);
        let mut notes = fields::alternatives(schema);
        if fields.is_empty() {
            notes.push("No fields.".to_owned());
        }
        if !encrypted.is_empty() {
            let names: Vec<String> = encrypted.iter().map(|name| format!("`{name}`")).collect();
            notes.push(format!("Encrypted in the store: {}.", names.join(", ")));
        }
        tables.push(Table { heading, fields, notes });
    }
    tables
}
