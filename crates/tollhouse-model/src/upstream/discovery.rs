//! Service discovery of an upstream: `discovery_type`, `service_name`, `discovery_args`.
//!
//! The table of sources is in `discovery/source.rs`. Services are followed elsewhere; slow start is
//! parsed in `warm_up.rs`.

mod service_name;
mod source;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

pub use self::source::{DiscoverySource, FirstNodes};
use crate::limits::{
    INSTANCE_VERSION_CHARS_MAX, METADATA_KEY_CHARS_MAX, METADATA_PAIRS_MAX,
    METADATA_VALUE_CHARS_MAX, NAME_CHARS_MAX, NAMESPACE_CHARS_MAX,
};
use crate::reader::{Fields, Reader, Unknown};

/// A service outside the configuration whose members are the nodes, with a filter on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub source: DiscoverySource,
    /// Namespace of the service; empty for sources without namespaces.
    pub namespace: String,
    /// Group of the service within its namespace; empty for the default and for sources without
    /// groups.
    pub group: String,
    /// Name of the service; for DNS with the port for records that have none: `app.example:8080`.
    pub service: String,
    /// Metadata pairs that an instance must have; every pair is required.
    pub metadata: BTreeMap<String, String>,
    /// Version that an instance must have.
    pub version: Option<String>,
}

impl Discovery {
    /// Returns a service of a source, without a filter.
    pub fn new(source: DiscoverySource, namespace: &str, service: &str) -> Self {
        Self {
            source,
            namespace: namespace.to_owned(),
            group: String::new(),
            service: service.to_owned(),
            metadata: BTreeMap::new(),
            version: None,
        }
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.namespace, &self.group] {
            if !part.is_empty() {
                write!(out, "{part}/")?;
            }
        }
        out.write_str(&self.service)
    }
}

/// Settings in `discovery_args`, except those of slow start.
#[derive(Default)]
struct Arguments<'v> {
    namespace: Option<&'v str>,
    group: Option<&'v str>,
    metadata: BTreeMap<String, String>,
    version: Option<String>,
}

pub(crate) fn read(reader: &mut Reader<'_>, fields: &Fields) -> Option<Discovery> {
    let name = reader.optional(fields, "service_name", |reader, value| {
        reader.text_within(value, 1..=NAME_CHARS_MAX)
    });
    let source = source_of(fields);
    let arguments = match source.filter(|source| !source.facts().arguments.is_empty()) {
        Some(source) => read_arguments(reader, fields, source),
        None => {
            warn_of_arguments(reader, fields, source);
            reader.optional(fields, "discovery_type", warn_of_unknown);
            Some(Arguments::default())
        }
    };
    let (source, arguments, name) = (source?, arguments?, name?);
    let (namespace, service) = reader.in_field("service_name", |reader| {
        (source.facts().read_name)(reader, name, arguments.namespace)
    })?;
    let Arguments { group, metadata, version, .. } = arguments;
    let group = group.unwrap_or_default().to_owned();
    Some(Discovery { group, metadata, version, ..Discovery::new(source, namespace, service) })
}

/// Returns the source named in `discovery_type`; `None` if it is unknown or missing.
pub(crate) fn source_of(fields: &Fields) -> Option<DiscoverySource> {
    DiscoverySource::from_name(fields.get("discovery_type")?.as_str()?)
}

fn warn_of_arguments(
    reader: &mut Reader<'_>,
    fields: &Fields,
    source: Option<DiscoverySource>,
) -> Option<()> {
    // An unknown type has a warning of its own.
    let hint = match (source, fields.get("discovery_type")) {
        (Some(source), _) => format!("discovery by {} takes no arguments", source.name()),
        (None, Some(_)) => "the arguments belong to a known discovery_type".to_owned(),
        (None, None) => "set discovery_type, to which the arguments belong".to_owned(),
    };
    reader.optional(fields, "discovery_args", |reader, value| {
        reader.warning(value, "has no effect", &hint);
        Some(())
    })
}

/// Warns of an unknown `discovery_type`, which is not an error: the upstream then has no nodes and
/// answers 503. If the upstream were refused, its route would be missing, and requests would fall
/// through to less specific and less protected routes.
fn warn_of_unknown(reader: &mut Reader<'_>, value: &Value) -> Option<()> {
    let kind = reader.text(value)?;
    if DiscoverySource::from_name(kind).is_none() {
        let reason = format!("discovery type \"{kind}\" does not exist here");
        let kinds = DiscoverySource::list_names(" and ");
        let hint = format!("requests are answered 503; the kinds are {kinds}");
        reader.warning(value, reason, &hint);
    }
    Some(())
}

/// Reads `discovery_args`. Unknown arguments are refused here, unlike elsewhere, because a misspelt
/// filter would admit instances that it should exclude.
fn read_arguments<'v>(
    reader: &mut Reader<'_>,
    fields: &'v Fields,
    source: DiscoverySource,
) -> Option<Arguments<'v>> {
    let Some(value) = fields.get("discovery_args") else { return Some(Arguments::default()) };
    reader.in_field("discovery_args", |reader| {
        let fields = reader.object(value, source.facts().arguments, Unknown::Refused)?;
        for (argument, reason) in source.facts().ignored {
            reader.optional(fields, argument, |reader, value| {
                reader.warning(value, "has no effect", reason);
                Some(())
            });
        }
        let mut name_in = |field| match fields.get(field) {
            Some(_) => reader
                .optional(fields, field, |reader, value| {
                    let name = reader.text(value)?;
                    service_name::name_is_good(reader, name, NAMESPACE_CHARS_MAX).then_some(name)
                })
                .map(Some),
            None => Some(None),
        };
        let takes_group = !source.facts().ignored.iter().any(|(name, _)| *name == "group_name");
        let namespace = name_in("namespace_id")?;
        let group = if takes_group { name_in("group_name")? } else { None };
        Some(Arguments {
            namespace,
            group,
            metadata: reader.optional(fields, "metadata", read_metadata).unwrap_or_default(),
            version: reader
                .optional(fields, "version", |reader, value| {
                    reader.text_within(value, 1..=INSTANCE_VERSION_CHARS_MAX)
                })
                .map(str::to_owned),
        })
    })
}

fn read_metadata(reader: &mut Reader<'_>, value: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = reader.map(value)?;
    if pairs.len() > METADATA_PAIRS_MAX {
        let reason = format!("no instance has more than {METADATA_PAIRS_MAX} pairs of metadata");
        reader.error_unquoted(reason, "all pairs must be equal for an instance to take part");
        return None;
    }
    let mut metadata = BTreeMap::new();
    for (key, value) in pairs {
        let text = reader.in_field(key, |reader| {
            if key.chars().count() > METADATA_KEY_CHARS_MAX {
                let reason = format!("keys have at most {METADATA_KEY_CHARS_MAX} characters");
                reader.error_unquoted(reason, "");
            }
            reader.text_within(value, 0..=METADATA_VALUE_CHARS_MAX)
        });
        metadata.extend(text.map(|text| (key.clone(), text.to_owned())));
    }
    (metadata.len() == pairs.len()).then_some(metadata)
}
