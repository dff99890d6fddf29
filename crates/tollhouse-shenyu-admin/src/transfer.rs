//! Import and export of the whole configuration as ShenYu's archive.
//!
//! An imported object replaces an existing one with the same id, or with the same name where
//! ShenYu's names are unique. Other objects stay. An object that cannot be imported is listed in
//! the [`Report`] with the reason.

mod incoming;
mod report;

use serde_json::Value;
use tollhouse_store::{Listing, Operation};

use crate::archive::{self, File};
use crate::clock;
use crate::draft::Draft;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::{Tables, namespace};

pub(crate) use self::incoming::Incoming;
pub use self::report::{Part, Report};

/// File of the archive, with the resource whose rows it contains.
struct Content {
    file: &'static str,
    /// Name of the content in the answer of an import.
    name: &'static str,
    /// Resource whose rows the file holds; empty for upstreams.
    resource: &'static str,
}

/// Files in import order: rows that others refer to come first.
const CONTENTS: [Content; 12] = [
    Content { file: "plugin.json", name: "plugin", resource: "plugin" },
    Content { file: "plugin_template.json", name: "pluginTemplate", resource: "plugin" },
    Content { file: "namespace_plugin.json", name: "namespacePlugin", resource: "plugin" },
    Content { file: "plugin_handle.json", name: "pluginHandle", resource: "plugin-handle" },
    Content { file: "dict.json", name: "dict", resource: "shenyu-dict" },
    Content { file: "selector.json", name: "selector", resource: "selector" },
    Content { file: "rule.json", name: "rule", resource: "rule" },
    Content { file: "meta.json", name: "meta", resource: "meta-data" },
    Content { file: "auth.json", name: "auth", resource: "appAuth" },
    Content { file: "proxy_selector.json", name: "proxySelector", resource: "proxy-selector" },
    Content { file: "discovery.json", name: "discovery", resource: "discovery" },
    // Not a table here: upstreams are stored in the row of their selector.
    Content { file: "discovery_upstream.json", name: "discoveryUpstream", resource: "" },
];

/// Source of the objects of an import.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Archive that ShenYu's admin exports.
    Archive(&'a [u8]),
    /// Member `data` of an answer to ShenYu's `/configs/fetch`.
    Groups(&'a Value),
}

/// Why an import or export failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The bytes are not a zip archive, or it is damaged.
    #[error("the archive cannot be read: {0}")]
    Archive(String),
    /// The archive would be too large.
    #[error("the archive cannot be written: {0}")]
    Export(#[from] std::io::Error),
    /// An object cannot be written as JSON.
    #[error("an object cannot be written: {0}")]
    Object(#[from] serde_json::Error),
}

/// Computes the writes of an import, and its report. `listing` is everything in the store below
/// [`tollhouse_shenyu::KEY_PREFIX`]. All objects go into `namespace`, or with `None` each into the
/// one it names.
///
/// # Errors
///
/// If the archive cannot be read, or an object cannot be written as JSON.
pub fn plan_import(
    listing: &Listing,
    source: Source<'_>,
    namespace: Option<&str>,
) -> Result<(Report, Vec<Operation>), TransferError> {
    let incoming = match source {
        Source::Archive(bytes) => {
            Incoming::read(bytes).map_err(|error| TransferError::Archive(error.to_string()))?
        }
        Source::Groups(groups) => Incoming::from_groups(groups),
    };
    let tables = Tables::from_listing(listing);
    let mut draft = Draft::new(&tables, clock::now_text());
    let report = incoming.put(&mut draft, namespace);
    // Never an error: objects that could not be imported are in the report.
    let report = draft.end_call(Ok(report)).unwrap_or_default();
    Ok((report, draft.into_transaction()?.operations))
}

/// Exports a store, or one namespace, as ShenYu's admin would.
///
/// # Errors
///
/// If the archive would be too large.
pub fn export_archive(
    listing: &Listing,
    namespace: Option<&str>,
) -> Result<Vec<u8>, TransferError> {
    Ok(export(&Tables::from_listing(listing), namespace)?)
}

/// Exports all rows, or those of one namespace, as an archive.
///
/// # Errors
///
/// If the archive would be too large.
pub(crate) fn export(tables: &Tables, wanted: Option<&str>) -> std::io::Result<Vec<u8>> {
    let mut files = Vec::new();
    for content in &CONTENTS {
        // All plugins are rows of one table here, which is the form that releases without templates
        // export.
        if matches!(content.name, "pluginTemplate" | "namespacePlugin") {
            continue;
        }
        let rows = match Resource::find(content.resource) {
            Some(resource) => exported(tables, resource, wanted),
            None => exported_upstreams(tables, wanted),
        };
        if !rows.is_empty() {
            let content_bytes = serde_json::to_vec(&rows)?;
            files.push(File { name: content.file.to_owned(), content: content_bytes });
        }
    }
    archive::write(&files)
}

/// Whether rows of a table belong to a namespace.
const fn is_of_namespace(table: Table) -> bool {
    !matches!(table, Table::Dict | Table::PluginHandle)
}

fn exported(tables: &Tables, resource: &Resource, wanted: Option<&str>) -> Vec<Value> {
    let is_meant = |row: &Row| {
        !is_of_namespace(resource.table) || wanted.is_none_or(|wanted| namespace(row) == wanted)
    };
    let rows = tables.rows(resource.table).filter(|(_, row)| is_meant(row));
    rows.map(|(_, row)| resource.view_row(tables, row)).collect()
}

fn exported_upstreams(tables: &Tables, wanted: Option<&str>) -> Vec<Value> {
    let rows = tables
        .rows(Table::DiscoveryUpstream)
        .filter(|(_, row)| wanted.is_none_or(|wanted| namespace(row) == wanted));
    let upstreams = rows.flat_map(|(_, row)| row::rows(row, "upstreamDataList"));
    upstreams.cloned().map(Value::Object).collect()
}
