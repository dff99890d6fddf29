//! Parser of service discovery: `discovery_type`, `service_name`, `discovery_args`.
//!
//! Names are resolved elsewhere; slow start is parsed in `warm_up.rs`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Discovery, RegistryService};
use crate::limits::{
    INSTANCE_VERSION_CHARS_MAX, METADATA_KEY_CHARS_MAX, METADATA_PAIRS_MAX,
    METADATA_VALUE_CHARS_MAX, NAME_CHARS_MAX, NAMESPACE_CHARS_MAX, SERVICE_CHARS_MAX,
};
use crate::reader::{Fields, Reader, Unknown};

/// Namespace of a service without one.
const NAMESPACE_DEFAULT: &str = "default";

/// Pattern for names of namespaces and services.
const NAME_PATTERN: &str = "^[0-9A-Za-z-./:_]+$";

const NAME_HINT: &str = "write namespace/service, such as prod/orders, or the service alone";

const SLASHES_HINT: &str = "write namespace/service; if the name of the service has slashes, \
                            give the namespace in \"discovery_args.namespace_id\"";

/// Arguments of the registry. `group_name` is accepted for compatibility and has no effect.
const ARGUMENTS: [&str; 5] = ["namespace_id", "group_name", "metadata", "version", "warmup"];

#[derive(Clone, Copy)]
enum Kind {
    Dns,
    Registry,
}

const KINDS: [(&str, Kind); 3] =
    [("dns", Kind::Dns), ("registry", Kind::Registry), ("polaris", Kind::Registry)];

/// Settings in `discovery_args`, except those of slow start.
#[derive(Default)]
struct Arguments<'v> {
    namespace: Option<&'v str>,
    metadata: BTreeMap<String, String>,
    version: Option<String>,
}

pub(crate) fn read(reader: &mut Reader<'_>, fields: &Fields) -> Option<Discovery> {
    let name = reader.optional(fields, "service_name", |reader, value| {
        reader.text_within(value, 1..=NAME_CHARS_MAX)
    });
    match kind_of(fields) {
        Some(Kind::Registry) => read_registry(reader, fields, name).map(Discovery::Registry),
        kind => {
            reader.optional(fields, "discovery_args", |reader, value| {
                reader.warning(value, "has no effect", "discovery by dns takes no arguments");
                Some(())
            });
            reader.optional(fields, "discovery_type", warn_of_unknown);
            kind?;
            Some(Discovery::Dns { service_name: name?.to_owned() })
        }
    }
}

/// Whether the nodes come from the registry.
pub(crate) fn is_registry(fields: &Fields) -> bool {
    matches!(kind_of(fields), Some(Kind::Registry))
}

fn kind_of(fields: &Fields) -> Option<Kind> {
    let named = fields.get("discovery_type")?.as_str()?;
    KINDS.iter().find(|(name, _)| *name == named).map(|(_, kind)| *kind)
}

/// Only warns, because the upstream then has no nodes and answers 503. If it were refused, its
/// route would be missing, and requests would fall through to less specific and less protected
/// routes.
fn warn_of_unknown(reader: &mut Reader<'_>, value: &Value) -> Option<()> {
    let kind = reader.text(value)?;
    if KINDS.iter().all(|(name, _)| *name != kind) {
        let reason = format!("discovery type \"{kind}\" does not exist here");
        let hint = "requests are answered 503; the kinds are dns and registry (also spelt polaris)";
        reader.warning(value, reason, hint);
    }
    Some(())
}

fn read_registry(
    reader: &mut Reader<'_>,
    fields: &Fields,
    name: Option<&str>,
) -> Option<RegistryService> {
    let arguments = match fields.get("discovery_args") {
        None => Some(Arguments::default()),
        Some(value) => reader.in_field("discovery_args", |reader| read_arguments(reader, value)),
    };
    let arguments = arguments?;
    let name = name?;
    let (namespace, service) =
        reader.in_field("service_name", |reader| split(reader, name, arguments.namespace))?;
    Some(RegistryService {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        metadata: arguments.metadata,
        version: arguments.version,
    })
}

/// Reads `discovery_args`. Unknown arguments are refused here, unlike elsewhere, because a misspelt
/// filter would admit instances that it should exclude.
fn read_arguments<'v>(reader: &mut Reader<'_>, value: &'v Value) -> Option<Arguments<'v>> {
    let fields = reader.object(value, &ARGUMENTS, Unknown::Refused)?;
    reader.optional(fields, "group_name", |reader, value| {
        reader.warning(value, "has no effect", "the registry knows no groups");
        Some(())
    });
    let namespace = match fields.get("namespace_id") {
        Some(_) => Some(reader.optional(fields, "namespace_id", |reader, value| {
            let name = reader.text(value)?;
            name_is_good(reader, name, NAMESPACE_CHARS_MAX).then_some(name)
        })?),
        None => None,
    };
    Some(Arguments {
        namespace,
        metadata: reader.optional(fields, "metadata", read_metadata).unwrap_or_default(),
        version: reader
            .optional(fields, "version", |reader, value| {
                reader.text_within(value, 1..=INSTANCE_VERSION_CHARS_MAX)
            })
            .map(str::to_owned),
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

/// Splits a name into namespace and service; problems are reported at the name.
fn split<'v>(
    reader: &mut Reader<'_>,
    name: &'v str,
    namespace: Option<&'v str>,
) -> Option<(&'v str, &'v str)> {
    let (namespace, service) = match namespace {
        // With an explicit namespace the whole name is the service, and may contain slashes.
        Some(namespace) => (namespace, name),
        None => name.split_once('/').unwrap_or((NAMESPACE_DEFAULT, name)),
    };
    let is_split = namespace.len() + 1 + service.len() == name.len();
    if is_split && service.contains('/') {
        reader.error(&Value::from(name), "more than one slash", SLASHES_HINT);
        return None;
    }
    let good = name_is_good(reader, namespace, NAMESPACE_CHARS_MAX)
        && name_is_good(reader, service, SERVICE_CHARS_MAX);
    good.then_some((namespace, service))
}

fn name_is_good(reader: &mut Reader<'_>, name: &str, chars_max: usize) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-./:_".contains(&byte);
    let reason = if name.is_empty() {
        "the namespace and the service must not be empty".to_owned()
    } else if !name.bytes().all(letter) {
        crate::reader::pattern_reason(NAME_PATTERN, name)
    } else if name.len() > chars_max {
        format!("string too long, expected at most {chars_max}, got {}", name.len())
    } else {
        return true;
    };
    reader.error(&Value::from(name), reason, NAME_HINT);
    false
}
