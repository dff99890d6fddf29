//! Conversion of the configuration centre's objects to rows of Polaris' database, the reverse of
//! `config_rows.rs`. Rows have other numbers there: groups, files, releases and templates are known by
//! their names, entries of the history by their contents.

use prost::Message;
use serde_json::{Value, json};
use tollhouse_registry::Metadata;
use tollhouse_registry::config::{
    ClientLabel, ConfigEvent, ConfigFile, ConfigFileKey, ConfigGroup, ConfigObject, ConfigRelease,
    ConfigTemplate, Dates,
};

use super::record::{Cell, Cells, DependentRows, Record, number, text};
use super::registered_rows::pairs;
use super::{ExportRefusal, Row};
use crate::descriptors;
use crate::dialect::config::messages::{GRAY, event_kind, label};
use crate::json::print_sparse;
use crate::registration::hex_digest;

/// Releases in force of a release's file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InForce {
    /// Whether the release itself is in force.
    pub(super) is_active: bool,
    /// Whether the file has a gray release in force.
    pub(super) has_gray: bool,
}

/// Returns the table of an object.
pub(super) fn table(object: &ConfigObject) -> &'static str {
    match object {
        ConfigObject::Group(_) => "config_file_group",
        ConfigObject::File(_) => "config_file",
        ConfigObject::Release(_) => "config_file_release",
        ConfigObject::Event(_) => "config_file_release_history",
        ConfigObject::Template(_) => "config_file_template",
    }
}

/// Returns the text by which the object and its row are the same: not its number.
pub(super) fn name(object: &ConfigObject) -> String {
    let parts: Vec<&str> = match object {
        ConfigObject::Group(it) => vec![&it.key.namespace, &it.key.name],
        ConfigObject::File(it) => file_parts(&it.key).to_vec(),
        ConfigObject::Release(it) => [&file_parts(&it.key)[..], &[&it.name]].concat(),
        ConfigObject::Event(it) => return event_name(it),
        ConfigObject::Template(it) => vec![&it.name],
    };
    json!(parts).to_string()
}

/// Returns the name of a row, as [`name`] does that of its object.
pub(super) fn row_name(table: &str, row: &Row) -> String {
    let columns: &[&str] = match table {
        "config_file_group" => &["namespace", "name"],
        "config_file" => &["namespace", "group", "file_name"],
        "config_file_release" => &["namespace", "group", "file_name", "name"],
        _ => &["name"],
    };
    let parts: Vec<&str> = columns.iter().map(|column| row.text(column)).collect();
    json!(parts).to_string()
}

/// Returns a digest of an entry of the history, which has no name.
fn event_name(event: &ConfigEvent) -> String {
    let [namespace, group, file] = file_parts(&event.key);
    let kind = event_kind(event.kind);
    let name =
        json!([namespace, group, file, kind, event.name, event.version, event.at, event.md5]);
    hex_digest(name.to_string().as_bytes())
}

fn file_parts(key: &ConfigFileKey) -> [&str; 3] {
    [&key.namespace, &key.group, &key.name]
}

/// Converts an object; `in_force` is that of a release.
pub(super) fn record(object: &ConfigObject, in_force: InForce) -> Result<Record, ExportRefusal> {
    Ok(match object {
        ConfigObject::Group(it) => group(it),
        ConfigObject::File(it) => file(it),
        ConfigObject::Release(it) => release(it, in_force)?,
        ConfigObject::Event(it) => event(it),
        ConfigObject::Template(it) => template(it),
    })
}

fn dated(
    table: &'static str,
    cells: Cells,
    dates: &Dates,
    unique: &'static [&'static str],
) -> Record {
    let change = [("modify_time", Cell::Now), text("modify_by", &*dates.modified_by)];
    Record {
        table,
        key: "id",
        cells: cells.into_iter().chain(change).collect(),
        born: vec![
            ("create_time", Cell::Time(dates.created_at)),
            text("create_by", &*dates.created_by),
        ],
        unique,
        ..Record::default()
    }
}

fn group(group: &ConfigGroup) -> Record {
    let cells = vec![
        text("namespace", &*group.key.namespace),
        text("name", &*group.key.name),
        text("comment", &group.comment),
        text("owner", &group.owner),
        text("business", &group.business),
        text("department", &group.department),
        text("metadata", pairs(&group.metadata)),
    ];
    dated("config_file_group", cells, &group.dates, &["namespace", "name"])
}

fn file(file: &ConfigFile) -> Record {
    let [namespace, group, name] = file_parts(&file.key);
    let cells = vec![
        text("namespace", namespace),
        text("group", group),
        text("name", name),
        text("content", &*file.content),
        text("format", &*file.format),
        text("comment", &*file.comment),
    ];
    let mut record = dated("config_file", cells, &file.dates, &["namespace", "group", "name"]);
    let of_file =
        || vec![text("namespace", namespace), text("group", group), text("file_name", name)];
    let tag = |(key, value): (&Box<str>, &Box<str>)| {
        [of_file(), vec![text("key", &**key), text("value", &**value)]].concat()
    };
    record.belongings.push(DependentRows {
        table: "config_file_tag",
        by: of_file(),
        rows: file.tags.iter().map(tag).collect(),
    });
    record.joined.push(("tags", json!(file.tags).to_string()));
    record
}

/// Returns the cells that releases and entries of the history have in common.
fn copied(key: &ConfigFileKey, fields: Copied<'_>) -> Cells {
    let [namespace, group, file_name] = file_parts(key);
    let Copied { name, content, format, comment, md5, version, tags, description } = fields;
    vec![
        text("name", name),
        text("namespace", namespace),
        text("group", group),
        text("file_name", file_name),
        text("content", content),
        text("format", format),
        text("comment", comment),
        text("md5", md5),
        number("version", i64::try_from(version).unwrap_or(i64::MAX)),
        text("tags", pairs(tags)),
        text("description", description),
    ]
}

/// Fields of a copy of a file.
struct Copied<'a> {
    name: &'a str,
    content: &'a str,
    format: &'a str,
    comment: &'a str,
    md5: &'a str,
    version: u64,
    tags: &'a Metadata,
    description: &'a str,
}

fn release(release: &ConfigRelease, in_force: InForce) -> Result<Record, ExportRefusal> {
    let mut cells = copied(
        &release.key,
        Copied {
            name: &release.name,
            content: &release.content,
            format: &release.format,
            comment: &release.comment,
            md5: &release.md5,
            version: release.version,
            tags: &release.tags,
            description: &release.description,
        },
    );
    let kind = if release.is_gray() { GRAY } else { "" };
    cells.extend([number("active", in_force.is_active), text("release_type", kind)]);
    let unique = &["namespace", "group", "file_name", "name"];
    let mut record = dated("config_file_release", cells, &release.dates, unique);
    if release.is_gray() {
        let labels = labels(&release.labels)?;
        // The rule is that of the file: an older gray release must not replace it.
        if in_force.is_active || !in_force.has_gray {
            record.belongings.push(gray_rule(release, in_force, &labels));
        }
        record.joined.push(("labels", labels));
    }
    Ok(record)
}

/// Returns the rule of a gray release. That of one that ended is marked as deleted, as Polaris does.
fn gray_rule(release: &ConfigRelease, in_force: InForce, labels: &str) -> DependentRows {
    let [namespace, group, file] = file_parts(&release.key);
    let name = || text("name", format!("config@{namespace}@{group}@{file}"));
    let row = vec![
        name(),
        text("match_rule", labels),
        ("create_time", Cell::Time(release.dates.created_at)),
        text("create_by", &*release.dates.created_by),
        ("modify_time", Cell::Now),
        text("modify_by", &*release.dates.modified_by),
        number("flag", !in_force.is_active),
    ];
    DependentRows { table: "gray_resource", by: vec![name()], rows: vec![row] }
}

/// Encodes the labels of a gray release as Polaris does: a list of messages.
fn labels(labels: &[ClientLabel]) -> Result<String, ExportRefusal> {
    let descriptor = descriptors().get_message_by_name("v1.ClientLabel");
    let descriptor = descriptor.ok_or(ExportRefusal::NoPlace)?;
    let encoded = |it: &ClientLabel| {
        let message = label(it).encode_to_vec();
        let printed = print_sparse(&descriptor, &message);
        printed.map_err(|error| ExportRefusal::Unwritable(error.to_string()))
    };
    let items = labels.iter().map(encoded).collect::<Result<Vec<Value>, _>>()?;
    Ok(Value::Array(items).to_string())
}

fn event(event: &ConfigEvent) -> Record {
    let mut cells = copied(
        &event.key,
        Copied {
            name: &event.name,
            content: &event.content,
            format: &event.format,
            comment: &event.comment,
            md5: &event.md5,
            version: event.version,
            tags: &event.tags,
            description: &event.description,
        },
    );
    let by = &*event.by;
    cells.extend([
        text("type", event_kind(event.kind)),
        text("status", "success"),
        ("create_time", Cell::Time(event.at)),
        text("create_by", by),
        ("modify_time", Cell::Time(event.at)),
        text("modify_by", by),
    ]);
    Record { table: "config_file_release_history", key: "id", cells, ..Record::default() }
}

fn template(template: &ConfigTemplate) -> Record {
    let cells = vec![
        text("name", &*template.name),
        text("content", &*template.content),
        text("format", &*template.format),
        text("comment", &*template.comment),
    ];
    dated("config_file_template", cells, &template.dates, &["name"])
}
