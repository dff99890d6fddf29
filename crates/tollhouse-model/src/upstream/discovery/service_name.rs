//! Forms of `service_name`, one function per form. Each row of the table of discovery sources names
//! one of these functions.

use serde_json::Value;

use crate::limits::{NAMESPACE_CHARS_MAX, SERVICE_CHARS_MAX};
use crate::reader::Reader;

/// Reads a name, given the namespace of `discovery_args`, and returns namespace and service.
/// Problems are reported at the name.
pub(super) type ReadName =
    for<'v> fn(&mut Reader<'_>, &'v str, Option<&'v str>) -> Option<(&'v str, &'v str)>;

/// Default namespace of a service.
const NAMESPACE_DEFAULT: &str = "default";

/// Pattern for names of namespaces and services.
const NAME_PATTERN: &str = "^[0-9A-Za-z-./:_]+$";

const NAME_HINT: &str = "write namespace/service, such as prod/orders, or the service alone";

const SLASHES_HINT: &str = "write namespace/service; if the name of the service has slashes, \
                            give the namespace in \"discovery_args.namespace_id\"";

/// Accepts any text, for sources without namespaces.
pub(super) fn as_written<'v>(
    _: &mut Reader<'_>,
    name: &'v str,
    namespace: Option<&'v str>,
) -> Option<(&'v str, &'v str)> {
    Some((namespace.unwrap_or_default(), name))
}

/// `namespace/service`, or the service alone.
pub(super) fn in_namespace<'v>(
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

/// `namespace/name:port`, with the name or the number of the port. The port stays with the service.
pub(super) fn with_port<'v>(
    reader: &mut Reader<'_>,
    name: &'v str,
    _: Option<&'v str>,
) -> Option<(&'v str, &'v str)> {
    let parts = name.split_once('/').filter(|(_, service)| !service.contains('/'));
    let is_port = |service: &str| {
        let named = service.split_once(':');
        named
            .is_some_and(|(name, port)| !name.is_empty() && !port.is_empty() && !port.contains(':'))
    };
    let Some((namespace, service)) = parts.filter(|(_, service)| is_port(service)) else {
        let hint = "write namespace/name:port, such as shop/orders:http or shop/orders:8080";
        reader.error(&Value::from(name), "not a service of Kubernetes with a port", hint);
        return None;
    };
    let good = name_is_good(reader, namespace, NAMESPACE_CHARS_MAX)
        && name_is_good(reader, service, SERVICE_CHARS_MAX);
    good.then_some((namespace, service))
}

pub(super) fn name_is_good(reader: &mut Reader<'_>, name: &str, chars_max: usize) -> bool {
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
